"""Multi-head attention: the formula, masks, biases, cross-attention, and the recorded path beside the fast one."""

import pytest
import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.nn import SCORES, Attention
from vitreous.nn.attention.scores import join_partial, logits, masked_softmax, partial_attention

DIM, HEADS = 12, 3


def by_hand(a: Attention, x: Tensor, context: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """concat_i(softmax(score(Q_i, K_i) + bias) V_i) W_O, one head at a time (S2.3)."""
    w_q, w_k, w_v = a.qkv.weight.chunk(3)
    b_q, b_k, b_v = a.qkv.bias.chunk(3)
    q, k, v = x @ w_q.T + b_q, context @ w_k.T + b_k, context @ w_v.T + b_v
    heads = []
    d = DIM // HEADS
    for i in range(HEADS):
        part = slice(i * d, (i + 1) * d)
        weights = {name: value[i : i + 1] for name, value in a.score.items()}
        q_i, k_i = a.query_norm(q[:, None, :, part]), a.key_norm(k[:, None, :, part])
        scores = logits(a._score(q_i, k_i, weights))[:, 0]
        if bias is not None:
            scores = scores + bias.expand(-1, HEADS, -1, -1)[:, i]
        if mask is not None:
            scores = scores.masked_fill(~mask[:, 0], float("-inf"))
        heads.append(scores.softmax(-1) @ v[..., part])
    return torch.cat(heads, -1) @ a.project.weight.T + a.project.bias


@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", ["self", "cross", "masked", "biased", "masked and biased"])
def test_attention_equals_its_formula(score: str, kind: str, qk_norm: bool) -> None:
    attention = Attention(DIM, HEADS, score, keys=7, qk_norm=qk_norm)
    x = torch.randn(2, 5, DIM)
    context = torch.randn(2, 7, DIM) if kind == "cross" else x
    keys = context.shape[1]
    mask = torch.rand(2, 1, 1, keys) > 0.3 if "masked" in kind else None
    if mask is not None:
        mask[..., 0] = True
    bias = torch.randn(1, HEADS, 5, keys) if "biased" in kind else None
    other = context if kind == "cross" else None
    wanted = by_hand(attention, x, context, mask, bias)
    seen: dict[str, Tensor] = {}
    torch.testing.assert_close(attention(x, other, mask, bias), wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(attention(x, other, mask, bias, seen), wanted, atol=1e-5, rtol=1e-5)
    assert seen["weights"].shape == (2, HEADS, 5, keys)
    torch.testing.assert_close(seen["weights"].sum(-1), torch.ones(2, HEADS, 5))
    if mask is not None:
        assert (seen["weights"].masked_select(~mask.expand_as(seen["weights"])) == 0).all()


@pytest.mark.parametrize("biased", [False, True])
def test_a_query_with_nothing_to_attend_to_gets_nothing_on_both_paths(biased: bool) -> None:
    attention = Attention(DIM, HEADS)
    x, mask = torch.randn(2, 5, DIM), torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1] = False
    bias = torch.randn(1, HEADS, 5, 5) if biased else None
    fast, recorded = attention(x, mask=mask, bias=bias), attention(x, mask=mask, bias=bias, sink={})
    torch.testing.assert_close(fast, recorded)
    torch.testing.assert_close(fast[1], attention.project.bias.expand(5, DIM))


def test_the_fast_path_holds_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("the weights were computed in the open")

    monkeypatch.setattr("vitreous.nn.attention.multihead.weigh", refuse)
    x = torch.randn(1, 4, DIM)
    for score in ("scaled_dot", "dot", "cosine", "general"):
        Attention(DIM, HEADS, score)(x, bias=torch.zeros(1, 1, 4, 4))


def test_dropout_acts_in_training_alone() -> None:
    attention, x = Attention(DIM, HEADS, dropout=0.5), torch.randn(1, 6, DIM)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(InputError, match="5 heads do not divide the width 12"):
        Attention(DIM, 5)


def test_location_must_know_the_number_of_keys() -> None:
    with pytest.raises(InputError, match="largest number of keys"):
        Attention(DIM, HEADS, "location")


def test_a_query_that_may_attend_to_nothing_has_a_gradient() -> None:
    """Recorded as on the fast path: nothing, not a number that is none."""
    attention, x = Attention(DIM, HEADS), torch.randn(2, 4, DIM, requires_grad=True)
    for choice in ({"mask": torch.zeros(1, 1, 1, 4).bool()}, {"bias": torch.full((1, 1, 1, 4), float("-inf"))}):
        seen: dict[str, Tensor] = {}
        attention(x, **choice, sink=seen).sum().backward()
        assert not seen["weights"].any()
        assert x.grad is not None
        assert x.grad.isfinite().all()


@pytest.mark.parametrize("size", [0.1, 3.0, 30.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_parts_of_the_keys_make_up_the_whole(dtype: torch.dtype, size: float) -> None:
    """Also where a query sees nothing of a part, or of any; and so do their gradients."""
    scores, v = size * torch.randn(2, 3, 8), torch.randn(2, 8, 4)
    scores[0, 1, :5], scores[1, 2] = float("-inf"), float("-inf")
    results = []
    for cuts in ([8], [5, 3], [1, 4, 2, 1]):
        s, values = scores.to(dtype).requires_grad_(), v.to(dtype).requires_grad_()
        parts = [partial_attention(a, b, 0.0) for a, b in zip(s.split(cuts, -1), values.split(cuts, 1), strict=True)]
        whole = join_partial(*(torch.stack(each) for each in zip(*parts, strict=True)))
        assert whole.dtype == dtype
        results.append((whole, *torch.autograd.grad(whole.square().sum(), (s, values))))
    s, values = (part.to(dtype).double().requires_grad_() for part in (scores, v))
    whole = masked_softmax(s) @ values
    expected = (whole, *torch.autograd.grad(whole.square().sum(), (s, values)))
    close = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 0.03}[dtype]
    for each in results:
        for a, b in zip(each, expected, strict=True):
            torch.testing.assert_close(a.double(), b, atol=close, rtol=close)


@pytest.mark.parametrize("size", [0.1, 3.0])
def test_the_weight_of_many_keys_has_its_gradient_in_bfloat16(size: float) -> None:
    """That of a key is its share, which is small where there are many and none stands out."""
    scores = (size * torch.randn(2, 3, 1024)).bfloat16().requires_grad_()
    total = partial_attention(scores, torch.randn(2, 1024, 4).bfloat16(), 0.0)[1]
    (gradient,) = torch.autograd.grad(total.sum(), scores)
    expected = scores.detach().double().softmax(-1)
    assert (gradient - expected).norm() < 0.005 * expected.norm()
