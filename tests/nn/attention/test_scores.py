"""Each score of S2.2 equals its formula, written out here pair by pair."""

import math

import pytest
import torch
from torch import Tensor

from vitreous.nn.attention.scores import SCORES, logits

B, H, N, M, D = 2, 3, 4, 5, 6

FORMULAS = {  # the score of one query s with key h number j, in head i
    "scaled_dot": lambda s, h, w, i, j: s.dot(h) / math.sqrt(D),
    "dot": lambda s, h, w, i, j: s.dot(h),
    "cosine": lambda s, h, w, i, j: s.dot(h) / (s.norm() * h.norm()),
    "general": lambda s, h, w, i, j: s @ (w["weight"][i] / len(s) ** 0.5) @ h,
    "additive": lambda s, h, w, i, j: w["v"][i].dot(torch.tanh(w["weight"][i] @ torch.cat([s, h]))),
    "location": lambda s, h, w, i, j: (w["weight"][i] @ s)[j],
}


def random_weights(name: str) -> dict[str, Tensor]:
    return {key: torch.randn_like(value) for key, value in SCORES[name].weights(H, D, M).items()}


@pytest.mark.parametrize("name", SCORES)
def test_score_equals_its_formula(name: str) -> None:
    q, k, w = torch.randn(B, H, N, D), torch.randn(B, H, M, D), random_weights(name)
    got = logits(SCORES[name].function(q, k, w))
    assert got.shape == (B, H, N, M)
    for b in range(B):
        for i in range(H):
            for n in range(N):
                for m in range(M):
                    wanted = FORMULAS[name](q[b, i, n], k[b, i, m], w, i, m)
                    torch.testing.assert_close(got[b, i, n, m], wanted, atol=1e-5, rtol=1e-5)


def test_general_starts_as_the_scaled_dot_product() -> None:
    q, k = torch.randn(B, H, N, D), torch.randn(B, H, M, D)
    general = logits(SCORES["general"].function(q, k, SCORES["general"].weights(H, D, M)))
    torch.testing.assert_close(general, logits(SCORES["scaled_dot"].function(q, k, {})))


def test_location_ignores_the_contents_of_the_keys() -> None:
    q, w = torch.randn(B, H, N, D), random_weights("location")
    one, other = (logits(SCORES["location"].function(q, torch.randn(B, H, M, D), w)) for _ in range(2))
    assert torch.equal(one, other)
