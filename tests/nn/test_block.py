"""The three placements of the norm equal the equations of the sources; branches scale, drop and skip."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.nn import MLP, NORMS, Attention, Block
from vitreous.nn.block import Branch

DIM = 8


def make(norm: str, **settings: float) -> Block:
    block = Block(DIM, Attention(DIM, 2), hidden=[16], norm=norm, **settings)
    for parameter in block.parameters():  # norms away from the identity
        torch.nn.init.normal_(parameter, std=0.5)
    return block


def pre(v: Tensor, block: Block) -> Tensor:  # S4.3
    v3 = block.attention(block.attention_norm(v)) + v
    return block.mlp(block.mlp_norm(v3)) + v3


def post(x: Tensor, block: Block) -> Tensor:  # S1.2
    x = block.attention_norm(x + block.attention(x))
    return block.mlp_norm(x + block.mlp(x))


def branch(v: Tensor, block: Block) -> Tensor:  # S4.2
    v3 = block.attention_norm(block.attention(v)) + v
    return block.mlp_norm(block.mlp(v3)) + v3


EQUATIONS = {"pre": pre, "post": post, "branch": branch}


@pytest.mark.parametrize("norm", NORMS)
def test_norm_placement_equals_its_equations(norm: str) -> None:
    block, x = make(norm), torch.randn(2, 5, DIM)
    torch.testing.assert_close(block(x), EQUATIONS[norm](x, block), atol=1e-5, rtol=1e-5)


def test_the_three_placements_differ() -> None:
    blocks, x = [make(norm) for norm in NORMS], torch.randn(2, 5, DIM)
    for block in blocks:
        block.load_state_dict(blocks[0].state_dict())
    outputs = [block(x) for block in blocks]
    assert not torch.allclose(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])
    assert not torch.allclose(outputs[1], outputs[2])


def test_mlp_equals_its_formula_with_several_hidden_layers() -> None:
    mlp, x = MLP((4, 8, 6, 3)), torch.randn(5, 4)
    first, second, third = mlp.layers
    torch.testing.assert_close(mlp(x), third(F.gelu(second(F.gelu(first(x))))))


def test_layer_scale_multiplies_the_branch() -> None:
    x = torch.randn(2, 5, DIM)
    torch.testing.assert_close(Branch(DIM, 0.1, 0.0, 0.0)(x), 0.1 * x)


def test_stochastic_depth_skips_whole_samples_and_keeps_the_mean() -> None:
    branch = Branch(1, 0.0, 0.0, drop_path=0.25)
    out = branch(torch.ones(20_000, 3, 1))
    assert sorted(out.unique().tolist()) == pytest.approx([0, 4 / 3])
    assert (out == out[:, :1]).all()
    assert out.mean().item() == pytest.approx(1.0, abs=0.02)
    assert torch.equal(branch.eval()(torch.ones(4, 3, 1)), torch.ones(4, 3, 1))


def test_a_block_keeps_what_it_is_asked_to() -> None:
    block, x = make("pre"), torch.randn(2, 5, DIM)
    seen: dict[str, Tensor] = {}
    out = block(x, sink=seen)
    torch.testing.assert_close(out, block(x))
    torch.testing.assert_close(seen["out"], x + seen["attention"] + seen["mlp"])
