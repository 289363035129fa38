"""Sequence to sequence: what a token may see, what a cache may change, and that both kinds learn."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.nn import SCORES
from vitreous.text.decode import beam, greedy
from vitreous.text.models import TextConfig, TextModel, build_text_model
from vitreous.text.recurrent import RecurrentConfig
from vitreous.text.transformer import END, PAD, START, DecoderBlock, Seq2Seq, Transformer, TransformerConfig
from vitreous.train.optimiser import create_optimisers

WORDS = 20
KINDS: dict[str, TextConfig] = {
    **{
        f"transformer-{norm}": TransformerConfig(WORDS, 16, dim=16, depth=2, heads=2, norm=norm)
        for norm in ("pre", "post", "branch")
    },
    "transformer-location": TransformerConfig(WORDS, 16, dim=16, depth=2, heads=2, score="location"),
    **{f"gru-{score}": RecurrentConfig(WORDS, 16, dim=16, score=score) for score in SCORES},
    "gru-flat": RecurrentConfig(WORDS, 16, dim=16, depth=1),
}


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> TextModel:
    made = build_text_model(KINDS[request.param]).eval()
    with torch.no_grad():
        made.table.mul_(4)  # sure of itself, so that sequences differ
    return made


def sentences(rows: int = 5, length: int = 9) -> tuple[Tensor, Tensor]:
    source, target = torch.randint(4, WORDS, (2, rows, length)).unbind(0)
    target = target.clone()
    target[:, 0] = START
    for row in range(rows):  # of different lengths
        source[row, length - row :] = PAD
    return source, target


@torch.no_grad()
def test_a_later_token_never_changes_an_earlier_prediction(model: TextModel) -> None:
    source, target = sentences()
    encoded = model.encode(source)
    before = model.decode(target, encoded)
    for place in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, place] = (changed[:, place] + 3) % WORDS
        after = model.decode(changed, encoded)
        assert torch.equal(after[:, :place], before[:, :place])
        assert not torch.equal(after[:, place:], before[:, place:])


@torch.no_grad()
def test_padding_changes_nothing(model: TextModel) -> None:
    source, target = sentences()
    x = torch.stack([source, target], 1)
    torch.testing.assert_close(model(F.pad(x, (0, 4)))[:, :9], model(x), atol=1e-5, rtol=0)
    alone = model.decode(target[4:], model.encode(source[4:, :5]))
    torch.testing.assert_close(model(x)[4:], alone, atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_cache_gives_the_same_logits(model: TextModel) -> None:
    source, target = sentences()
    encoded, state = model.encode(source), model.start()
    whole = model.decode(target, encoded)
    parts = [model.decode(target[:, :3], encoded, state)]
    parts += [model.decode(target[:, i : i + 1], encoded, state) for i in range(3, 9)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=0)


def test_greedy_writes_the_same_with_a_cache_and_without(model: TextModel) -> None:
    source, _ = sentences()
    cached, plain = (greedy(model, source, cached=cached) for cached in (True, False))
    assert torch.equal(cached.tokens, plain.tokens)
    torch.testing.assert_close(cached.score, plain.score)


def test_a_beam_of_one_is_greedy(model: TextModel) -> None:
    source, _ = sentences()
    one, other = beam(model, source, 1), greedy(model, source)
    assert torch.equal(one.tokens, other.tokens)
    torch.testing.assert_close(one.score, other.score)


def test_wider_beams_never_find_worse(model: TextModel) -> None:
    """What ends is better than what does not; of the others the score decides."""
    source, _ = sentences()
    found = [beam(model, source, width) for width in (1, 2, 3, 5, 8)]
    worth = torch.stack([each.score + 100 * (each.tokens == END).any(1) for each in found])
    assert (worth.diff(dim=0) >= -1e-5).all()


def test_a_beam_scores_what_the_model_says_of_its_tokens(model: TextModel) -> None:
    source, _ = sentences()
    found = beam(model, source, 4)
    given = F.pad(found.tokens[:, :-1], (1, 0), value=START)
    with torch.no_grad():
        chances = model.decode(given, model.encode(source)).log_softmax(-1)
    each = chances.gather(2, found.tokens.unsqueeze(-1)).squeeze(-1)
    counted = found.tokens != PAD
    torch.testing.assert_close((each * counted).sum(1) / counted.sum(1), found.score)


def test_a_beam_finds_what_the_likeliest_first_token_hides() -> None:
    class Fixed(Seq2Seq):
        """After START 5 is likelier than 6, but then all is uncertain, while after 6 the end is sure."""

        def encode(self, source: Tensor):  # type: ignore[no-untyped-def]
            from vitreous.text.transformer import Encoded

            return Encoded(torch.zeros(len(source), 1, 1), source[:, :1] != PAD)

        def decode(self, target: Tensor, source: object, state: object = None, last: bool = False) -> Tensor:
            out = torch.zeros(*target.shape, WORDS)
            out[target == START] = torch.log(torch.tensor([1e-9] * 5 + [0.6, 0.4] + [1e-9] * 13))
            out[target == 6] = torch.log(torch.tensor([1e-9] * 2 + [1.0] + [1e-9] * 17))
            return out

        def start(self):  # type: ignore[no-untyped-def]
            from vitreous.nn.attention.cache import Hidden

            return Hidden(1)

    fixed = Fixed(WORDS, 4, 6, 0.0)
    source = torch.full((1, 1), 7)
    assert greedy(fixed, source).tokens[0, 0] == 5
    assert beam(fixed, source, 2).tokens[0].tolist()[:2] == [6, END]


def test_attention_to_the_source_sums_to_one_and_leaves_padding_alone(model: TextModel) -> None:
    source, target = sentences()
    with torch.no_grad(), vt.record(model) as seen:
        recorded = model(torch.stack([source, target], 1))
    with torch.no_grad():
        torch.testing.assert_close(recorded, model(torch.stack([source, target], 1)), atol=1e-5, rtol=0)
    for layer in seen.layers:
        weights = seen[f"blocks.{layer}.cross"]
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        assert (weights.transpose(1, 3)[source == PAD] == 0).all()
    with torch.no_grad(), vt.record(model, reduce=lambda w: w.mean(1)) as few:
        model(torch.stack([source, target], 1))
    torch.testing.assert_close(few["blocks.0.cross"], seen["blocks.0.cross"].mean(1))


@pytest.mark.filterwarnings("ignore:.*nested")  # torch's own inference path, which is not asked for
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_the_transformer_is_that_of_torch(norm: str) -> None:
    config = TransformerConfig(WORDS, 16, dim=16, depth=2, heads=2, norm=norm)
    ours = Transformer(config).eval()
    theirs = nn.Transformer(
        16, 2, 2, 2, 64, 0.0, "gelu", norm_first=norm == "pre", batch_first=True, layer_norm_eps=1e-6
    )
    for block, layer in zip(
        [*ours.encoder, *ours.blocks], [*theirs.encoder.layers, *theirs.decoder.layers], strict=True
    ):
        pairs = [(block.attention, layer.self_attn)]
        norms = [block.attention_norm, block.mlp_norm]
        if isinstance(block, DecoderBlock):
            pairs.append((block.cross, layer.multihead_attn))
            norms.insert(1, block.cross_norm)
        for mine, other in pairs:
            other.in_proj_weight.copy_(mine.qkv.weight)
            other.in_proj_bias.copy_(mine.qkv.bias.normal_())
            other.out_proj.load_state_dict(mine.project.state_dict())
        layer.linear1.load_state_dict(block.mlp.layers[0].state_dict())
        layer.linear2.load_state_dict(block.mlp.layers[1].state_dict())
        for i, mine in enumerate(norms, start=1):
            mine.weight.normal_(1, 0.1)
            mine.bias.normal_(0, 0.1)
            getattr(layer, f"norm{i}").load_state_dict(mine.state_dict())
    if norm == "post":
        theirs.encoder.norm = theirs.decoder.norm = None
    source, target = sentences()
    embedded = [ours.embed(x) + ours.position[:9] for x in (source, target)]
    missing = source == PAD
    causal = nn.Transformer.generate_square_subsequent_mask(9).isneginf()
    hidden = theirs(
        *embedded, tgt_mask=causal, src_key_padding_mask=missing, memory_key_padding_mask=missing, tgt_is_causal=True
    )
    out = ours(torch.stack([source, target], 1))
    torch.testing.assert_close(out, hidden @ ours.table.T, atol=1e-5, rtol=1e-5)


TOYS: dict[str, Callable[[Tensor], Tensor]] = {"copied": lambda x: x, "reversed": lambda x: x.flip(1)}


@pytest.mark.parametrize("toy", TOYS)
@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(WORDS, 10, dim=32, depth=1, heads=2),
        RecurrentConfig(WORDS, 10, dim=32, depth=1, score="general"),
    ],
    ids=["transformer", "gru"],
)
def test_a_toy_language_is_learnt_in_seconds(config: TextConfig, toy: str) -> None:
    model = build_text_model(config)
    (optimiser,) = create_optimisers(model, "adamw", 1e-2, 0.0)

    def batch(rows: int) -> tuple[Tensor, Tensor]:
        source = torch.randint(4, WORDS, (rows, 5))
        return source, TOYS[toy](source)

    for step in range(400):
        source, answer = batch(64)
        y = F.pad(answer, (0, 1), value=END)
        x = torch.stack([F.pad(source, (0, 1), value=END), F.pad(answer, (1, 0), value=START)], 1)
        optimiser.param_groups[0]["lr"] = 1e-2 * min(1.0, (step + 1) / 50, (400 - step) / 200)
        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    source, answer = batch(100)
    found = greedy(model.eval(), F.pad(source, (0, 1), value=END)).tokens
    assert found.shape[1] >= 6
    assert (found[:, :5] == answer).all(1).float().mean() > 0.9


def test_what_is_too_long_is_refused(model: TextModel) -> None:
    source, target = sentences(2, 17)
    with pytest.raises(InputError, match="16 at most"):
        model.encode(source)
    with pytest.raises(InputError, match="16 at most"):
        model.decode(target, model.encode(source[:, :16]))
    with pytest.raises(InputError, match="16 at most"):
        greedy(model, source[:, :16], most=17)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TransformerConfig(WORDS, dim=30, heads=4), "heads: 4 heads do not divide"),
        (lambda: TransformerConfig(3), "vocabulary: found 3"),
        (lambda: RecurrentConfig(WORDS, dim=15), "dim: found 15"),
        (lambda: RecurrentConfig(WORDS, score="best"), "score: unknown choice 'best'"),
    ],
)
def test_a_setting_that_makes_no_model_is_named(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
