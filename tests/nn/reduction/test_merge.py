"""Token merging: what is alike is merged, nothing is lost or counted twice, and the input's tokens are still known."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vitreous as vt
from tests.nn.test_vit import IMAGE, LINE, SET, VOLUME, batch, make
from vitreous.core.errors import InputError
from vitreous.nn import CNN, NORMS, POOLS, SCORES, CNNConfig
from vitreous.nn.reduction.groups import Groups, expand, expand_weights, match
from vitreous.nn.reduction.reducer import count_tokens, flops, flops_share

CHOICES = [
    LINE,
    VOLUME,
    SET,
    *({**IMAGE, "score": score} for score in SCORES if score != "location"),
    *({**IMAGE, "norm": norm} for norm in NORMS),
    *({**IMAGE, "pool": pool, "cls": pool == "cls"} for pool in POOLS),
    *({**SET, "pool": pool, "cls": pool == "cls"} for pool in ("cls", "mean", "attention")),
    {**LINE, "bias": "relative", "qk_norm": True, "registers": 3, "layer_scale": 0.1},
]


def test_merging_nothing_is_the_plain_model_bit_for_bit() -> None:
    model = make(**IMAGE)
    x = batch(model)["x"]
    out = model(x)
    with vt.merged(model, 0):
        assert torch.equal(model(x), out)
    with vt.merged(model, 2):
        assert not torch.equal(model(x), out)
    assert torch.equal(model(x), out)  # and nothing stays switched on


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_every_choice_merges_and_records(choices: dict[str, object]) -> None:
    """Recording does not change the output; expanded to the input's tokens, weights sum to one."""
    model = make(**choices)
    inputs = batch(model)
    tokens = model.config.prefix + model.tokenizer.most
    with vt.merged(model, 2):
        out = model(**inputs)
        with vt.record(model) as seen:
            torch.testing.assert_close(model(**inputs), out, atol=1e-5, rtol=1e-5)
        with vt.record(model, reduce=lambda weights: weights.mean((1, 2))) as reduced:
            torch.testing.assert_close(model(**inputs), out, atol=1e-5, rtol=1e-5)
    assert out.isfinite().all()
    assert [seen[f"blocks.{i}.out"].shape[1] for i in range(2)] == [tokens - 2, tokens - 4]
    assert seen["normed"].shape[1] == tokens
    for i, weights in seen.attention.items():
        assert weights.shape == (3, 2, tokens, tokens)
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, tokens))
        torch.testing.assert_close(reduced.attention[i], weights.mean((1, 2)))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("pool", POOLS)
def test_merging_equal_tokens_changes_nothing(rank: int, pool: str) -> None:
    """A merged token is attended to, and pooled, as often as it has members: so it can stand for them."""
    model = make(input=(2, 16, *[2] * (rank - 1)), patch=(2,), position="none", depth=3, pool=pool)
    x = torch.randn(2, 2, 4, 2, *[2] * (rank - 1)).repeat_interleave(2, dim=2).flatten(2, 3)
    out = model(x)
    with vt.merged(model, 1), vt.record(model) as seen:
        torch.testing.assert_close(model(x), out, atol=1e-5, rtol=1e-5)
    assert seen["blocks.2.out"].shape[1] == 1 + 8 - 3


def test_without_counting_members_equal_tokens_would_weigh_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(input=(2, 16), patch=(2,), position="none", depth=3)
    x = torch.randn(2, 2, 4, 2).repeat_interleave(2, dim=2).flatten(2)
    monkeypatch.setattr(Groups, "bias", lambda groups, bias: bias)
    with vt.merged(model, 1):
        merged = model(x)
    assert not torch.allclose(merged, model(x), atol=1e-3)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**31), count=st.integers(2, 19), r=st.integers(1, 5), prefix=st.integers(0, 2))
def test_sizes_and_sources_are_a_partition(seed: int, count: int, r: int, prefix: int) -> None:
    torch.manual_seed(seed)
    tokens, mask = torch.randn(3, prefix + count, 4), torch.rand(3, count) > 0.4
    groups, keys = Groups(tokens, mask, prefix), torch.randn(3, 2, prefix + count, 5)
    x = groups.compact(tokens, prefix + count)
    some = min(r, count // 2)
    best, a, b = match(keys, groups.size, prefix)
    chosen = best.topk(some).indices
    x = groups.compact(groups.merge(x, a.gather(1, chosen), b.gather(1, chosen)), prefix + count - some)
    there = torch.cat([torch.ones(3, prefix, dtype=torch.bool), mask], dim=1)
    assert groups.size is not None
    assert x.shape[1] == groups.size.shape[1] == prefix + count - some
    torch.testing.assert_close(groups.size.sum(1), there.sum(1).float())  # nothing is lost, nothing counted twice
    assert torch.equal(groups.source < x.shape[1], there)  # who is there is stood for; who is not, is not
    assert torch.equal(groups.source[:, :prefix], torch.arange(prefix).expand(3, -1))  # the prefix by itself
    for i in range(3):
        members = groups.source[i][there[i]].bincount(minlength=x.shape[1])
        assert torch.equal(members.float(), groups.size[i])
        for token in range(x.shape[1]):  # a merged token is the mean of its members
            if members[token]:
                mean = tokens[i][there[i] & (groups.source[i] == token)].mean(0)
                torch.testing.assert_close(x[i, token], mean, atol=1e-5, rtol=1e-5)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), count=st.integers(2, 12), r=st.integers(1, 6))
def test_the_most_alike_pairs_are_merged(seed: int, count: int, r: int) -> None:
    """Bolya et al. 2023, section 3: of the best edges from one set to the other, the r best."""
    torch.manual_seed(seed)
    keys = torch.randn(1, 3, count, 4)
    mean = torch.nn.functional.normalize(keys.mean(1)[0], dim=-1)
    best, a, b = match(keys, None, 0)
    for likeness, one, other in zip(best[0], a[0].tolist(), b[0].tolist(), strict=True):
        assert one % 2 == 1
        assert other % 2 == 0
        torch.testing.assert_close(likeness, (mean[one] @ mean[::2].T).max())
        torch.testing.assert_close(likeness, mean[one] @ mean[other])


def test_autocast_does_not_blur_what_is_alike() -> None:
    keys = torch.randn(1, 1, 1, 8) + 0.05 * torch.randn(2, 3, 20, 8)  # all within a few degrees
    wanted = match(keys, None, 0)
    with torch.autocast("cpu", torch.bfloat16):
        for result, one in zip(match(keys, None, 0), wanted, strict=True):
            torch.testing.assert_close(result, one)


def test_a_long_input_is_matched_part_by_part() -> None:
    keys, size = torch.randn(2, 3, 30, 4), (torch.arange(30) < 23).float().expand(2, -1)
    whole = match(keys, size, 1)
    for part, wanted in zip(match(keys, size, 1, at_once=50), whole, strict=True):
        torch.testing.assert_close(part, wanted)


@pytest.mark.parametrize("pool", ["cls", "mean", "attention"])
def test_absent_elements_leave_no_trace(pool: str) -> None:
    """What is masked is merged with nothing, be it NaN, and a sample's answer does not depend on the padding."""
    model = make(**{**SET, "input": (4, 15)}, pool=pool, cls=pool == "cls")
    x, coords = torch.randn(2, 4, 15), torch.randn(2, 15, 2)
    mask = torch.rand(2, 15) > 0.4
    with vt.merged(model, 3):
        out = model(x, mask, coords)
        garbage = model(
            x.masked_fill(~mask.unsqueeze(1), float("nan")), mask, coords.masked_fill(~mask.unsqueeze(2), float("nan"))
        )
        assert torch.equal(garbage, out)
        for i in range(2):
            alone = model(x[i : i + 1, :, mask[i]], coords=coords[i : i + 1, mask[i]])
            torch.testing.assert_close(alone[0], out[i], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("choices", [LINE, {**IMAGE, "bias": "relative"}, {**SET, "pool": "mean"}], ids=str)
def test_a_sample_does_not_depend_on_its_batch(choices: dict[str, object]) -> None:
    model = make(**choices)
    inputs = batch(model, 5)
    with vt.merged(model, 2):
        together = model(**inputs)
        alone = torch.cat([model(**{name: value[i : i + 1] for name, value in inputs.items()}) for i in range(5)])
    torch.testing.assert_close(alone, together, atol=1e-5, rtol=1e-5)


def test_an_empty_set_gives_finite_numbers() -> None:
    for pool in ("cls", "mean", "attention"):
        model = make(**SET, pool=pool, cls=pool == "cls")
        inputs = {"x": torch.randn(2, 4, 9), "coords": torch.randn(2, 9, 2), "mask": torch.zeros(2, 9).bool()}
        wanted = model(**inputs)
        with vt.merged(model, 2):
            torch.testing.assert_close(model(**inputs), wanted)


def test_a_pairwise_bias_goes_with_the_tokens() -> None:
    """Equal tokens with equal biases: merged, they have the bias that their members had."""
    model = make(**{**SET, "input": (4, 8), "axes": 0}, position="none", depth=2)
    x = torch.randn(1, 4, 4).repeat_interleave(2, dim=2)
    pairwise = torch.randn(1, 2, 4, 4).repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    out = model(x, pairwise=pairwise)
    with vt.merged(model, 2):
        torch.testing.assert_close(model(x, pairwise=pairwise), out, atol=1e-5, rtol=1e-5)
        pairwise[..., 2:, 0] = float("-inf")
        assert model(x, pairwise=pairwise).isfinite().all()


def test_expanding_gives_every_member_its_token() -> None:
    source = torch.tensor([[0, 1, 1, 3, 2]])  # of three tokens; the fourth of the input has none
    x = torch.randn(1, 3, 2)
    torch.testing.assert_close(expand(x, source)[0], torch.stack([x[0, 0], x[0, 1], x[0, 1], torch.zeros(2), x[0, 2]]))
    weights = torch.rand(1, 1, 3, 3).softmax(-1)
    result = expand_weights(weights, source)[0, 0]
    torch.testing.assert_close(result.sum(-1), torch.ones(5))
    torch.testing.assert_close(result[1], result[2])
    torch.testing.assert_close(result[0, 1] + result[0, 2], weights[0, 0, 0, 1])
    assert result[3].tolist() == [0, 0, 0, 1, 0]
    assert not result[[0, 1, 2, 4], 3].any()


def test_equal_tokens_are_seen_alike_by_recorded_weights() -> None:
    """Merged and expanded again, the weights of a model whose merged tokens are equal are those of the full model."""
    model = make(input=(2, 16), patch=(2,), position="none", depth=2)
    x = torch.randn(2, 2, 4, 2).repeat_interleave(2, dim=2).flatten(2)
    with vt.record(model) as full:
        model(x)
    with vt.merged(model, 2), vt.record(model) as seen:
        model(x)
    for layer in range(2):
        torch.testing.assert_close(seen.attention[layer], full.attention[layer], atol=1e-5, rtol=1e-5)


def test_operations_are_those_of_the_blocks() -> None:
    """The count agrees with what torch counts in the blocks of a model that keeps all its tokens."""
    from torch.utils.flop_counter import FlopCounterMode

    model = make(**IMAGE, mlp=(2.0, 1.5))
    x = batch(model)["x"]
    counter = FlopCounterMode(display=False)
    with counter, vt.record(model):  # which computes the attention in the open, where torch can count
        model(x)
    counted = counter.get_flop_counts()
    blocks = sum(sum(counted[f"ViT.blocks.{i}"].values()) for i in range(2))
    tokens = torch.full((3,), float(model.config.prefix + model.tokenizer.most))
    torch.testing.assert_close(flops(model.config, [tokens] * 3).sum(), torch.tensor(float(blocks)))


def test_merging_more_costs_less() -> None:
    model = make(**LINE)
    shares = []
    for r in (1, 2, 3):
        with vt.merged(model, r), count_tokens(model) as tokens:
            model(batch(model)["x"])
        assert [n.tolist() for n in tokens[0]] == [[n] * 3 for n in (9, 9 - r, max(9 - 2 * r, 4))]  # half of them stay
        shares.append(flops_share(model.config, tokens[0]).mean().item())
    assert 1 > shares[0] > shares[1] > shares[2]


def test_each_block_may_merge_as_many_as_its_own_number_says() -> None:
    model = make(**LINE)
    x = batch(model)["x"]
    for r, left in (((3, 1), (9, 6, 5)), ((3, 0), (9, 6, 6)), ((0, 2), (9, 9, 7)), ((2,), (9, 7, 5))):
        with vt.merged(model, r), count_tokens(model) as tokens:
            model(x)
        assert [n.tolist() for n in tokens[0]] == [[n] * 3 for n in left], r
    for none in ((), (0, 0)):
        with vt.merged(model, none), count_tokens(model) as tokens:
            torch.testing.assert_close(model(x), model(x))
        assert not tokens
    for r, message in (
        ((1, 1, 1), "3 numbers, but the model has 2 blocks"),
        ((1, -2), "found -2"),
        ((0, 5), "found 5"),
    ):
        with pytest.raises(InputError, match=message), vt.merged(model, r):
            model(x)


def test_gradients_pass_through_merged_tokens() -> None:
    model = make(**IMAGE, pool="mean").train()
    with vt.merged(model, 2):
        model(batch(model)["x"]).square().sum().backward()
    unused = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert unused in ([], ["prefix"])  # which the mean does not read, nor must any token attend to it


def test_a_compiled_model_merges() -> None:
    model = make(**LINE)
    compiled, x = torch.compile(model, backend="eager", fullgraph=True), batch(model)["x"]
    plain = compiled(x)
    with vt.merged(compiled, 2):
        torch.testing.assert_close(compiled(x), model(x))
        assert not torch.allclose(compiled(x), plain)
    torch.testing.assert_close(compiled(x), plain)


def test_a_model_that_merges_exports_for_any_batch() -> None:
    model = make(**LINE, pool="mean")
    with vt.merged(model, 2), torch.no_grad():
        batches = {0: torch.export.Dim("batch")}
        exported = torch.export.export(model, (batch(model)["x"],), dynamic_shapes=(batches,)).module()
        x = batch(model, 5)["x"]
        torch.testing.assert_close(exported(x), model(x))


def test_runs_in_bfloat16() -> None:
    model = make(**{**LINE, "bias": "relative"})
    x = batch(model)["x"]
    with vt.merged(model, 2):
        wanted = model(x)
        torch.testing.assert_close(model.bfloat16()(x.bfloat16()).float(), wanted, atol=0.3, rtol=0.3)


@pytest.mark.parametrize(
    ("model", "r", "message"),
    [
        (make(**LINE), -1, "merge: found -1, expected a number of tokens"),
        (make(**LINE), 5, "merge: found 5, but of 8 tokens a block can merge half at most, 4"),
        (make(**LINE, score="location"), 1, "the score 'location' needs every token at its place"),
        (make(**LINE, thresholds=True), 1, "already merges and drops tokens by learned thresholds"),
        (make(input=(1, 4), patch=(4,)), 1, "of 1 tokens a block can merge half at most, 0"),
        (CNN(CNNConfig(input=(1, 20), out=2)), 1, "a CNN has no tokens to merge"),
    ],
)
def test_what_cannot_be_merged_is_told_in_one_line(model: torch.nn.Module, r: int, message: str) -> None:
    with pytest.raises(InputError, match=message), vt.merged(model, r):
        pass
