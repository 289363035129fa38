"""The whole model: every choice works on every path; what the sources say of it holds."""

import itertools
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import vitreous as vt
from vitreous.core.errors import InputError
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
    *({"score": score, **shape} for score, shape in itertools.product(SCORES, (LINE, IMAGE, VOLUME))),
    *({"score": score, **SET} for score in SCORES if score != "location"),
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


@settings(max_examples=25)
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
    torch.testing.assert_close(model(torch.randn(2, 4, 0), coords=torch.randn(2, 0, 2))[1], out[1])
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
    model = make(**LINE, bias="relative", depth=1)
    x, pairwise = torch.randn(1, 2, 47), torch.randn(1, 2, 8, 8)
    assert model.bias is not None
    both = model(x, pairwise=pairwise)
    total = pairwise + model.bias(0)[..., 1:, 1:]
    model.bias.table.data[..., :-3] = 0.0  # the relative bias between tokens, moved into the pairwise one
    torch.testing.assert_close(model(x, pairwise=total), both, atol=1e-5, rtol=1e-5)


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
    positions = model.get_parameter("position.table")
    start = torch.cat([model.prefix.expand(2, -1, -1), seen["tokens"]], 1) + positions
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
    assert model.execution.recording is None


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
    for shape in ((1, 5, 8, 8), (3, 2, 8, 8), (2, 2, 8, 7), (2, 8, 8)):
        with pytest.raises(InputError, match=r"pairwise: found shape .*, expected \(2 or 1, 2 or 1, 8, 8\)"):
            make(**LINE)(torch.randn(2, 2, 47), pairwise=torch.zeros(shape))


def test_stochastic_depth_grows_with_the_layers() -> None:
    model = make(**LINE, depth=5, drop_path=0.4)
    assert [block.mlp_branch.drop_path for block in model.blocks] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])


def test_dropout_everywhere_is_off_in_evaluation() -> None:
    model = make(**LINE, dropout=0.3, attention_dropout=0.3, drop_path=0.3)
    x = torch.randn(2, 2, 47)
    assert torch.equal(model(x), model(x))
    assert not torch.equal(model.train()(x), model(x))


def test_runs_in_bfloat16() -> None:
    for choices in ({**LINE, "bias": "relative"}, {**IMAGE, "position": "sinusoidal"}, SET):
        model = make(**choices)
        given = batch(model)
        given["pairwise"] = torch.randn(3, 1, model.tokenizer.most, model.tokenizer.most)
        wanted = model(**given)
        model, given["x"] = model.bfloat16(), given["x"].bfloat16()
        out = model(**given)
        torch.testing.assert_close(out.float(), wanted, atol=0.15, rtol=0.15)
        with vt.record(model):
            torch.testing.assert_close(model(**given), out, atol=0.05, rtol=0.05)


def test_coordinates_of_any_number_type_mean_the_same() -> None:
    for position in ("learned", "sinusoidal"):
        model = make(**SET, position=position, spacing=(0.5, 2.0))
        x, coords = torch.randn(1, 4, 9), torch.randint(-9, 9, (1, 9, 2))
        wanted = model(x, coords=coords.float())
        for other in (coords, coords.double(), coords.bfloat16()):
            torch.testing.assert_close(model(x, coords=other), wanted)


def test_a_pair_that_is_forbidden_outright_agrees_on_both_paths() -> None:
    model = make(**SET, cls=False, pool="mean")
    given = {"x": torch.randn(1, 4, 9), "coords": torch.randn(1, 9, 2), "pairwise": torch.zeros(1, 1, 9, 9)}
    given["pairwise"][..., 3, :] = float("-inf")
    out = model(**given)
    assert out.isfinite().all()
    with vt.record(model):
        torch.testing.assert_close(model(**given), out)


def test_a_compiled_model_records_saves_and_loads(tmp_path: Path) -> None:
    model = make(**LINE)
    compiled, x = torch.compile(model, backend="eager"), torch.randn(2, 2, 47)
    with vt.record(compiled, layers=-1) as seen:
        torch.testing.assert_close(compiled(x), model(x))
    assert list(seen.attention) == [1]
    vt.save_model(compiled, tmp_path)
    torch.testing.assert_close(vt.load_model(tmp_path).eval()(x), model(x))
    vt.load_weights(compiled, tmp_path, verbose=False)


def test_a_model_can_be_sent_to_another_process() -> None:
    model, x = make(**LINE), torch.randn(2, 2, 47)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), model(x))


@pytest.mark.parametrize("choices", [{**LINE, "bias": "relative"}, SET], ids=str)
def test_masks_and_sets_export(choices: dict[str, object]) -> None:
    model = make(**choices)
    given = batch(model)
    if model.config.tokens == "patch":
        given["mask"] = torch.rand(3, 47) > 0.3
    exported = torch.export.export(model, (), kwargs=given).module()
    torch.testing.assert_close(exported(**given), model(**given))
