import pytest
from torch import Tensor

from tests.asking import Asked
from vitreous.train.step import Step


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the steps after the first ask for."""
    found: list[str] = []
    take, calls = Step._take, [0]

    def watched(self: Step, x: Tensor, y: Tensor) -> Tensor:
        calls[0] += 1
        if calls[0] == 1:  # in which optimisers make their state
            return take(self, x, y)
        with Asked() as mode:
            loss = take(self, x, y)
        found.extend(mode.found)
        return loss

    monkeypatch.setattr(Step, "_take", watched)
    return found
