"""A loss with a budget: thresholds for merging and dropping tokens are trained beside the task (arXiv 2307.10780)."""

from collections.abc import Callable

from torch import Tensor, nn

from vitreous.errors import InputError
from vitreous.nn.budget import share
from vitreous.nn.vit import ViT

WEIGHT = 10.0
"""Of the penalty, beside the task's loss."""


def check_budget(budget: float) -> None:
    """Raise `InputError` unless a model can spend this share of its operations."""
    if not 0 < budget <= 1:
        raise InputError(f"budget: found {budget:g}, expected a share of the operations, above 0 and up to 1")


class BudgetLoss:
    """The task's loss plus `WEIGHT · (budget - share)²`, the share being what the last forward spent on its blocks.

    From here on the model's thresholds alone have gradients.

    Args:
        model: with thresholds.
        loss: of the task.
        budget: share of the operations of blocks that keep all tokens.
    """

    def __init__(self, model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], budget: float) -> None:
        check_budget(budget)
        if not isinstance(model, ViT) or model.thresholds is None:
            raise InputError(f"budget: a {type(model).__name__} without thresholds cannot keep to one")
        self.loss, self.budget, self.config = loss, budget, model.config
        self._forwards: list[list[Tensor]] = []
        model.counting = self._forwards
        model.requires_grad_(False)
        model.thresholds.requires_grad_(True)

    def __call__(self, out: Tensor, y: Tensor) -> Tensor:
        """The loss of outputs that the model has just given."""
        spent = share(self.config, self._forwards.pop()).mean()
        return self.loss(out, y) + WEIGHT * (self.budget - spent).square()
