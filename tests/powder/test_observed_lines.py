import numpy as np
import torch

from vitreous.powder.observed_lines import calculated_q, sorted_q


def test_sorted_q_are_the_calculated_ones_in_order(random: np.random.Generator) -> None:
    basis = torch.as_tensor(random.integers(-3, 4, (700, 3)).astype(np.float64))
    x = torch.as_tensor(random.normal(size=(20, 3)))  # many values are negative, which counts as infinite
    q = calculated_q(basis, x)
    ordered, order = sorted_q(basis, x)
    torch.testing.assert_close(ordered, q.sort(dim=1).values, rtol=1e-10, atol=0.0)
    torch.testing.assert_close(q.gather(1, order), ordered, rtol=1e-10, atol=0.0)
