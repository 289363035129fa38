"""Profile tokens: peaks first, then patches, each with its own place."""

from typing import Any

import pytest
import torch
from torch import Tensor

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.nn import ViTConfig
from vitreous.nn.tokens.lines import PeakTokenizer
from vitreous.nn.tokens.profile import ProfileTokenizer

LENGTH = 400


def config(**settings: Any) -> ViTConfig:
    values: dict[str, Any] = {
        "input": (1, LENGTH), "tokens": "profile", "peaks": 6, "patch": (20,), "stride": (10,), "position": "none",
        "dim": 16, "depth": 2, "heads": 2, "out": 3, **settings,
    }  # fmt: skip
    return ViTConfig(**values)


def spectrum(places: list[float]) -> Tensor:
    x = torch.arange(LENGTH, dtype=torch.float64)
    return sum((torch.exp(-0.5 * ((x - p) / 2.5) ** 2) for p in places), 0 * x).float()[None, None]


def test_the_peaks_come_first_and_are_those_of_the_peak_tokenizer() -> None:
    c = config()
    tokenizer = ProfileTokenizer(c)
    alone = PeakTokenizer(c)
    alone.load_state_dict(tokenizer.peaks.state_dict())
    x = spectrum([80.0, 150.5, 311.0])
    values, mask, coords = tokenizer(x)
    peaks = alone(x)
    assert mask is not None
    assert peaks.mask is not None
    torch.testing.assert_close(values[:, :6], peaks.values)
    torch.testing.assert_close(coords[:, :6], peaks.coords)
    assert mask[0].tolist() == [True] * 3 + [False] * 3 + [True] * (len(mask[0]) - 6)


def test_overlapping_patches_cover_the_axis() -> None:
    _, mask, coords = ProfileTokenizer(config())(spectrum([80.0]))
    assert mask is not None
    patches = coords[0, 6:, 0]
    assert len(patches) == (LENGTH - 20) // 10 + 1
    torch.testing.assert_close(patches.diff(), torch.full((len(patches) - 1,), 10.0))


def test_a_weak_hump_that_is_no_peak_changes_the_answer() -> None:
    torch.manual_seed(0)
    model = vt.ViT(config()).eval()
    x = torch.arange(LENGTH, dtype=torch.float32)
    plain = spectrum([80.0, 300.0])
    humped = plain + 0.02 * torch.exp(-0.5 * ((x - 200) / 40) ** 2)
    with torch.no_grad():
        assert not torch.allclose(model(plain), model(humped), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stride": (30,)}, "stride"),
        ({"patch": (LENGTH + 1,), "stride": ()}, "patch: found"),
        ({"stem": (8,), "patch": (21,), "stride": (7,)}, "stem: 1 halvings need"),
        ({"peaks": 0}, "peaks: found 0"),
        ({"input": (3, LENGTH)}, r"peaks need \(1, samples\)"),
    ],
)
def test_invalid_settings_are_reported_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        config(**settings)
    assert "\n" not in str(fault.value)
