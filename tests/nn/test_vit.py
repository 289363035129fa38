"""The whole model: every choice works on every path; what the sources say of it holds."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import vitreous as vt
from vitreous.errors import InputError
from vitreous.nn import NORMS, POOLS, SCORES

LINE = {"input": (2, 47), "patch": (6,)}
IMAGE = {"input": (3, 13, 10), "patch": (4, 3)}
VOLUME = {"input": (1, 6, 7, 5), "patch": (2, 3, 2)}
SET = {"input": (4, 9), "tokens": "set", "axes": 2}
SMALL = {"out": 3, "dim": 24, "depth": 2, "heads": 2}


def make(**choices: object) -> vt.ViT:
    model = vt.ViT(vt.ViTConfig(**{**SMALL, **choices})).eval()
    for parameter in model.parameters():  # away from zeros and ones, so that every part shows in the output
        torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.2)
    return model


def batch(model: vt.ViT, size: int = 3) -> dict[str, Tensor]:
    given = {"x": torch.randn(size, *model.config.input)}
    if model.config.tokens == "set":
        count = model.config.input[1]
        given |= {"coords": torch.randn(size, count, model.config.axes), "mask": torch.rand(size, count) > 0.3}
    return given


CHOICES = [
    *({"score": score, **shape} for score, shape in itertools.product(SCORES, (LINE, IMAGE, VOLUME, SET))),
    *({"norm": norm, **IMAGE} for norm in NORMS),
    *({"pool": pool, "cls": pool == "cls", **IMAGE} for pool in POOLS),
    *({"position": position, **shape} for position in ("sinusoidal", "none") for shape in (LINE, IMAGE, VOLUME, SET)),
    *({"bias": "relative", **shape} for shape in (LINE, IMAGE, VOLUME)),
    {"qk_norm": True, "layer_scale": 0.1, "registers": 3, "embed_norm": True, **LINE},
    {"stem": (4, 8), "input": (1, 40), "patch": (8,), "stride": (4,)},
    {"mlp": (2.0, 1.5), "head": (16, 8), **LINE},
    {"out": 0, **LINE},
    {"pool": "attention", "cls": False, **SET},
    {"pool": "mean", "cls": False, "position": "none", **SET, "axes": 0},
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_recording_does_not_change_the_output(choices: dict[str, object]) -> None:
    model = make(**choices)
    given = batch(model)
    out = model(**given)
    with vt.record(model) as seen:
        recorded = model(**given)
    assert out.shape == (3, model.config.out or 24)
    torch.testing.assert_close(recorded, out, atol=1e-5, rtol=1e-5)
    tokens = model.config.prefix + model.tokenizer.most
    for weights in seen.attention.values():
        assert weights.shape == (3, 2, tokens, tokens)
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, tokens))
    torch.testing.assert_close(model(**given), out)  # and nothing stays switched on


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_every_parameter_gets_a_gradient(choices: dict[str, object]) -> None:
    model = make(**choices).train()
    model(**batch(model)).square().sum().backward()
    unused = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not unused


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31), score=st.sampled_from([s for s in SCORES if s != "location"]), rank=st.integers(1, 3)
)
def test_without_positions_permuting_patches_permutes_tokens(seed: int, score: str, rank: int) -> None:
    """S2.3: attention is permutation equivariant, so the class token's output does not change at all."""
    torch.manual_seed(seed)
    side = 3
    model = make(input=(2, *[side * 2] * rank), patch=(2,), position="none", score=score)
    patches = torch.randn(1, side**rank, 2, *[2] * rank)
    order = torch.randperm(side**rank)

    def assemble(pieces: Tensor) -> Tensor:
        """(1, N, C, *patch) -> (1, C, *grid)"""
        grid = pieces.reshape(1, *[side] * rank, 2, *[2] * rank).movedim(1 + rank, 1)  # (1, C, *tokens, *patch)
        axes = [axis for i in range(rank) for axis in (2 + i, 2 + rank + i)]
        return grid.permute(0, 1, *axes).reshape(1, 2, *[side * 2] * rank)

    with vt.record(model) as straight:
        out = model(assemble(patches))
    with vt.record(model) as permuted:
        out_permuted = model(assemble(patches[:, order]))
    torch.testing.assert_close(out_permuted, out, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(permuted["normed"][:, 1:], straight["normed"][:, 1:][:, order], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_with_positions_the_order_of_patches_matters(position: str) -> None:
    model = make(input=(1, 40), patch=(10,), position=position)
    x = torch.randn(1, 1, 40)
    assert not torch.allclose(model(x), model(x.reshape(1, 1, 4, 10).flip(2).reshape(1, 1, 40)), atol=1e-3)


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
@pytest.mark.parametrize("pool", ["cls", "mean", "attention"])
def test_a_set_has_no_order(position: str, pool: str) -> None:
    model = make(**SET, position=position, pool=pool)
    x, coords, mask = (batch(model)[name] for name in ("x", "coords", "mask"))
    pairwise = torch.randn(3, 2, 9, 9)
    order = torch.randperm(9)
    shuffled = model(x[:, :, order], mask[:, order], coords[:, order], pairwise[:, :, order][..., order])
    torch.testing.assert_close(shuffled, model(x, mask, coords, pairwise), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("pool", ["cls", "mean", "attention"])
def test_absent_elements_leave_no_trace(pool: str) -> None:
    model = make(**SET, pool=pool)
    x, coords, pairwise = torch.randn(2, 4, 9), torch.randn(2, 9, 2), torch.randn(2, 1, 9, 9)
    mask = torch.arange(9).expand(2, 9) < 5
    short = model(x[..., :5], coords=coords[:, :5], pairwise=pairwise[..., :5, :5])
    nothing = float("nan")
    x[..., 5:], coords[:, 5:], pairwise[..., 5:, :], pairwise[..., 5:] = nothing, nothing, nothing, nothing
    torch.testing.assert_close(model(x, mask, coords, pairwise), short, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pool", POOLS)
def test_missing_samples_of_a_grid_leave_no_trace(pool: str) -> None:
    model = make(**IMAGE, pool=pool)
    x, mask = torch.randn(2, 3, 13, 10), torch.ones(2, 13, 10, dtype=torch.bool)
    mask[:, 5:] = False
    one = model(x.masked_fill(~mask.unsqueeze(1), float("nan")), mask)
    other = model(x.masked_fill(~mask.unsqueeze(1), 7.0), mask)
    assert torch.equal(one, other)
    assert one.isfinite().all()


@pytest.mark.parametrize("pool", ["cls", "mean", "attention"])
def test_an_empty_set_gives_finite_numbers(pool: str) -> None:
    model = make(**SET, pool=pool, cls=pool == "cls")
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[1] = False
    given = {"x": torch.randn(2, 4, 9), "coords": torch.randn(2, 9, 2), "mask": mask}
    out = model(**given)
    assert out.isfinite().all()
    with vt.record(model):
        torch.testing.assert_close(model(**given), out)


def test_pairwise_bias_is_added_to_the_logits_between_tokens() -> None:
    """S2.10: a pair with a bias of minus infinity never attends, whatever the class token does."""
    model = make(**SET)
    given = {"x": torch.randn(1, 4, 9), "coords": torch.randn(1, 9, 2)}
    pairwise = torch.zeros(1, 1, 9, 9)
    torch.testing.assert_close(model(**given, pairwise=pairwise), model(**given))
    pairwise[..., 2, 5] = -1e9
    with vt.record(model) as seen:
        model(**given, pairwise=pairwise)
    for weights in seen.attention.values():
        assert (weights[:, :, 3, 6] == 0).all()
        assert (weights[:, :, 0] > 0).all()


def test_relative_bias_and_pairwise_bias_add_up() -> None:
    model = make(**LINE, bias="relative")
    x, pairwise = torch.randn(1, 2, 47), torch.randn(1, 2, 8, 8)
    assert model.bias is not None
    once = model(x, pairwise=pairwise)
    model.bias.table.data.zero_()
    assert not torch.allclose(once, model(x, pairwise=pairwise))


def test_recording_chosen_layers_keeps_those_alone() -> None:
    model = make(**LINE, depth=4)
    with vt.record(model, layers=[-1, 1]) as seen:
        model(torch.randn(2, 2, 47))
    assert list(seen.attention) == [1, 3]
    assert not [name for name in seen if name.startswith(("blocks.0.", "blocks.2."))]
    with pytest.raises(KeyError, match=r"blocks\.0\.out.*was not recorded"):
        seen["blocks.0.out"]


def test_recorded_intermediates_are_the_steps_of_the_forward() -> None:
    model = make(**IMAGE, registers=2)
    x = torch.randn(2, 3, 13, 10)
    with vt.record(model) as seen:
        out = model(x)
    assert model.prefix is not None
    assert model.position is not None
    start = torch.cat([model.prefix.expand(2, -1, -1), seen["tokens"]], 1) + model.position(seen["coords"])
    torch.testing.assert_close(seen["embedded"], start)  # S3.1, eq. 1
    torch.testing.assert_close(model.blocks[0](seen["embedded"]), seen["blocks.0.out"])
    torch.testing.assert_close(model.norm(seen["blocks.1.out"]), seen["normed"])  # eq. 4
    torch.testing.assert_close(model.head(seen["normed"][:, 0]), out)
    assert set(seen) >= {"tokens", "coords", "embedded", "normed", "pooled", "out", "blocks.1.mlp"}


def test_recording_nests_and_ends_after_an_error() -> None:
    model = make(**LINE)
    with vt.record(model) as outer:
        with vt.record(model, layers=[0]) as inner:
            model(torch.randn(1, 2, 47))
        assert list(inner.attention) == [0]
        assert not outer.attention
    with pytest.raises(InputError), vt.record(model):
        model(torch.randn(1, 2, 48))
    assert model.recording is None


def test_a_second_forward_replaces_the_first() -> None:
    model = make(**SET)
    given = batch(model)
    with vt.record(model) as seen:
        model(**given)
        assert "mask" in seen
        model(given["x"], coords=given["coords"])
    assert "mask" not in seen


@pytest.mark.parametrize(
    ("model", "layers", "message"),
    [
        (make(**LINE), [2], "layer 2 does not exist; the model has layers 0 to 1"),
        (torch.nn.Linear(2, 2), None, "Linear has no attention to record"),
    ],
)
def test_what_cannot_be_recorded_is_told_in_one_line(
    model: torch.nn.Module, layers: list[int] | None, message: str
) -> None:
    with pytest.raises(InputError, match=message), vt.record(model, layers):
        pass


def test_a_wrong_pairwise_bias_is_told_in_one_line() -> None:
    with pytest.raises(InputError, match=r"pairwise: found shape \(1, 5, 8, 8\), expected \(1 or 1, 2 or 1, 8, 8\)"):
        make(**LINE)(torch.randn(1, 2, 47), pairwise=torch.zeros(1, 5, 8, 8))


def test_stochastic_depth_grows_with_the_layers() -> None:
    model = make(**LINE, depth=5, drop_path=0.4)
    assert [block.mlp_branch.drop_path for block in model.blocks] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])


def test_dropout_everywhere_is_off_in_evaluation() -> None:
    model = make(**LINE, dropout=0.3, attention_dropout=0.3, drop_path=0.3)
    x = torch.randn(2, 2, 47)
    assert torch.equal(model(x), model(x))
    assert not torch.equal(model.train()(x), model(x))


def test_runs_in_bfloat16() -> None:
    for choices in ({**LINE, "bias": "relative"}, {**IMAGE, "position": "sinusoidal"}):
        model = make(**choices)
        x = torch.randn(2, *model.config.input)
        wanted = model(x)
        torch.testing.assert_close(model.bfloat16()(x.bfloat16()).float(), wanted, atol=0.1, rtol=0.1)
