"""An encoder of sampled traces, e.g. the signal of a detector station over time (S2.8)."""

from collections.abc import Sequence

from torch import Tensor, nn


class Traces(nn.Module):
    """Convolutions along a trace, each halving it, then a linear projection: `(B, N, samples) -> (B, N, dim)`.

    There is no norm between them, because the amplitude of a trace carries information.

    Args:
        samples: samples of a trace.
        widths: channels of the convolutions.
        dim: width of the result.
    """

    def __init__(self, samples: int, widths: Sequence[int], dim: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels, width in zip((1, *widths), widths, strict=False):
            layers += [nn.Conv1d(channels, width, 3, stride=2, padding=1), nn.GELU()]
            samples = -(-samples // 2)
        self.convolutions = nn.Sequential(*layers)
        self.project = nn.Linear(widths[-1] * samples, dim)
        for layer in layers:
            if isinstance(layer, nn.Conv1d):  # keeps the amplitude through many layers (He et al. 2015)
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """`(B, N, samples) -> (B, N, dim)`."""
        z = self.convolutions(x.flatten(0, 1).unsqueeze(1))  # (B * N, 1, samples) -> (B * N, width, fewer)
        encoded: Tensor = self.project(z.flatten(1))
        return encoded.reshape(*x.shape[:2], encoded.shape[-1])
