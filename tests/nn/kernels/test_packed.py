"""The GPU kernels, run by Triton's interpreter where there is no GPU."""

from tests.kernels import in_triton, interpreted

_CHECK = """
import torch
import torch.nn.functional as F
from vitreous.nn.kernels.bias_gelu import bias_gelu
from vitreous.nn.kernels.packed import packed_attention

def same(ours, theirs, *inputs):
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    slope = torch.randn_like(theirs)
    for a, b in zip(*(torch.autograd.grad(out, inputs, slope) for out in (ours, theirs))):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-5)

for batch, count, heads, d in ((2, 37, 2, 16), (1, 130, 2, 32), (1, 64, 1, 64)):
    torch.manual_seed(count)
    qkv = torch.randn(batch, count, 3 * heads * d, requires_grad=True)
    bias = torch.randn(3 * heads * d, requires_grad=True)
    q, k, v = (qkv + bias).unflatten(-1, (3, heads, d)).permute(2, 0, 3, 1, 4).unbind(0)
    wanted = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    same(packed_attention(qkv + bias.detach(), bias, heads, d**-0.5)[0], wanted, qkv, bias)
    with torch.no_grad():
        size = torch.randint(1, 5, (batch, count)).float()
        wanted = F.scaled_dot_product_attention(q, k, v, size.log()[:, None, None]).transpose(1, 2).flatten(2)
        mixed, _ = packed_attention(qkv + bias, bias, heads, d**-0.5, size.log2())
        torch.testing.assert_close(mixed, wanted, atol=1e-5, rtol=1e-5)
for shape in ((3, 70, 48), (5, 300)):
    x, bias = torch.randn(*shape, requires_grad=True), torch.randn(shape[-1], requires_grad=True)
    same(bias_gelu(x, bias), F.gelu(x + bias), x, bias)
print("equal")
"""


@interpreted
def test_the_kernels_and_their_gradients_are_those_of_torch() -> None:
    assert in_triton(_CHECK) == "equal"
