"""Sampled traces, each encoded by itself: what a detector station has recorded over time (S2.8)."""

from collections.abc import Sequence

from torch import Tensor, nn


class Traces(nn.Module):
    """Convolutions along a trace, each halving it, then a projection of what is left: `(B, N, samples) -> (B, N, dim)`.

    There is no norm between them: the height of a trace is what it measures.

    Args:
        samples: of a trace.
        widths: of the convolutions.
        dim: of the result.
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
            if isinstance(layer, nn.Conv1d):  # which keeps the height, also through many of them (He et al. 2015)
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """`(B, N, samples) -> (B, N, dim)`."""
        kept = self.convolutions(x.flatten(0, 1).unsqueeze(1))  # (B * N, 1, samples) -> (B * N, width, fewer)
        found: Tensor = self.project(kept.flatten(1))
        return found.reshape(*x.shape[:2], found.shape[-1])
