"""Gravitational waves of compact binaries: is there a chirp, and how far is the answer from the optimum?"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitreous.gallery.entry import Entry

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from vitreous.nn.tokens import PatchTokenizer
    from vitreous.sim.chirps import Chirps
    from vitreous.train.predictor import Predictor

SNR = (3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
_RATE = 0.01  # of false alarms, per segment
_SEGMENTS = {"cpu": (1000, 100), "cuda": (20_000, 1000)}  # of noise, and of signals of each strength
_BATCH = 256
_FILTERS = 6
_SHOWN = 12.0  # signal-to-noise ratio of the example


def network(predictor: "Predictor") -> Callable[["Tensor"], "Tensor"]:
    """A run as a detector: from whitened segments `(B, points)` to the log of the odds that it gives, `(B,)`."""
    import torch

    @torch.no_grad()
    def odds(segments: "Tensor") -> "Tensor":
        parts = segments.unsqueeze(1).split(_BATCH)
        out = torch.cat([predictor.model(predictor.scaling(part)).float() for part in parts])
        return out[:, 1] - out[:, 0]

    return odds


def chirps_of(predictor: "Predictor") -> "Chirps":
    """Signals as the recipe has them, at a run's rate."""
    from vitreous.sim.chirps import Chirps

    return Chirps(rate=round(1 / predictor.axes[0].spacing))


def draw(run: Path) -> list[Path]:
    """`chirp.png`: a chirp and what the model makes of it. `efficiency.png`: beside the matched filter.

    `templates.png`, of a transformer: what its patches look for.
    """
    import torch

    from vitreous.insight.style import save
    from vitreous.nn.vit import ViT
    from vitreous.train.device import pick_device
    from vitreous.train.predictor import load

    device = pick_device("auto")
    drawings = {"chirp.png": _example, "efficiency.png": _efficiency}
    with torch.random.fork_rng():
        predictor = load(run, device)
        drawings |= {"templates.png": _templates} if isinstance(predictor.model, ViT) else {}
        for name, drawn in drawings.items():
            torch.manual_seed(1)
            save(drawn(predictor, torch.device(device)), run / name)
    return [run / name for name in drawings]


def _example(predictor: "Predictor", device: "torch.device") -> Any:
    """Strain, whitened strain and its picture in time and frequency, and where a transformer looks."""
    import numpy as np
    import torch

    from vitreous.insight.attention import attends
    from vitreous.insight.style import figure
    from vitreous.sim.chirps import CLASSES, Events, coloured, frequency, signals

    chirps = chirps_of(predictor)
    event = Events(*(torch.tensor([value]) for value in (7.0, 0.88, 0.0, _SHOWN)))
    wave = signals(chirps, event)
    segment = wave + torch.randn_like(wave)
    probability = float(torch.sigmoid(network(predictor)(segment.to(device)))[0])
    clock = np.arange(chirps.points) / chirps.rate
    looks = attends(predictor.model)
    with figure(8, 8.4 if looks else 6.2) as drawing:
        panels = drawing.subplots(
            4 if looks else 3, 1, sharex=True, height_ratios=[1, 1, 1.4, 0.9][: 4 if looks else 3]
        )
        for axes, colour, label in (
            (panels[0], lambda values: coloured(chirps, values), "strain (10⁻²¹)"),
            (panels[1], lambda values: values, "whitened strain"),
        ):
            axes.plot(clock, colour(segment)[0], color="0.6", lw=0.5, label="recorded")
            axes.plot(clock, colour(wave)[0], color="C3", lw=1, label="the wave in it")
            axes.set_ylabel(label)
        panels[0].legend(loc="upper left", fontsize=7, ncols=2)
        panels[0].set_title(
            f"Chirp mass {float(event.chirp_mass):g} M☉, signal-to-noise ratio {_SHOWN:g}: the model gives "
            f"{CLASSES[1]} {100 * probability:.2f} %",
            fontsize=9,
        )
        times, frequencies, power = _time_frequency(segment[0], chirps.rate)
        panels[2].pcolormesh(times, frequencies, power, cmap="magma", rasterized=True)
        to_go = torch.linspace(chirps.lasting, 0.01, 300)
        panels[2].plot(
            float(event.coalescence) - to_go, frequency(to_go, event.chirp_mass), color="w", lw=0.8, ls="--",
            label="f ∝ (time to coalescence)^(−3/8)",
        )  # fmt: skip
        panels[2].legend(loc="upper left", fontsize=7, labelcolor="w", frameon=False)
        panels[2].set(ylim=(20, 450), ylabel="frequency (Hz)")
        if looks:
            _draw_attention(panels[3], predictor, segment.unsqueeze(1).to(device))
        panels[-1].set(xlabel="time (s)", xlim=(0, chirps.seconds))
    return drawing


def _time_frequency(segment: "Tensor", rate: int) -> tuple[Any, Any, Any]:
    """Seconds, Hz and power of a segment `(points,)`, in windows of 1/16 s."""
    import numpy as np
    import torch

    window = rate // 16
    step = window // 16
    spectra = torch.stft(
        segment, 4 * window, step, window, torch.hann_window(window), return_complex=True, pad_mode="constant"
    )
    times = np.arange(spectra.shape[1]) * step / rate
    return times, np.arange(spectra.shape[0]) * rate / (4 * window), spectra.abs().square().numpy()


def _draw_attention(axes: Any, predictor: "Predictor", samples: "Tensor") -> None:
    """The attention on each patch, mean of all layers and heads."""
    from vitreous.insight.attention import attention_maps, transformer

    looks = attention_maps(transformer(predictor), samples).mean((0, 1, 2))
    centres = _patches(predictor).coords()[:, 0].cpu().numpy() * predictor.axes[0].spacing
    axes.fill_between(centres, len(looks) * looks / looks.sum(), color="C0", alpha=0.4, lw=0)
    axes.axhline(1, color="0.5", lw=0.7, ls=":")
    axes.set_ylabel("attention on patches\ncentred here (1: even)", fontsize=8)


def _patches(predictor: "Predictor") -> "PatchTokenizer":
    from vitreous.insight.attention import transformer
    from vitreous.nn.tokens import PatchTokenizer

    tokenizer = transformer(predictor).tokenizer
    assert isinstance(tokenizer, PatchTokenizer)
    return tokenizer


def _templates(predictor: "Predictor", device: "torch.device") -> Any:
    """What the patches of a transformer learned to look for: the strongest filters of their projection.

    They are its principal components; beside them the spectrum of all, and that of the chirps.
    """
    import numpy as np
    import torch

    from vitreous.insight.style import figure
    from vitreous.sim.chirps import random_events, signals

    chirps = chirps_of(predictor)
    weights = _patches(predictor).project.weight.detach().float().cpu()  # (D, patch)
    _, strengths, filters = torch.linalg.svd(weights.double(), full_matrices=False)
    clock = 1000 * np.arange(weights.shape[1]) / chirps.rate
    with figure(9, 3.6) as drawing:
        left, right = drawing.subplots(1, 2)
        for row, (strength, wave) in enumerate(zip(strengths[:_FILTERS], filters, strict=False)):
            left.plot(clock, -row + 0.45 * wave / wave.abs().max(), lw=0.7, color="C0")
            left.text(clock[-1], -row, f"  {100 * float(strength**2 / strengths.square().sum()):.0f} %", fontsize=7)
        left.set(xlabel="time in the patch (ms)", yticks=[])
        left.set_title("strongest filters of the patch projection, and their share", fontsize=9)
        for name, rows in (
            ("learned filters", weights),
            ("whitened chirps", signals(chirps, random_events(chirps, 400))),
        ):
            power = torch.fft.rfft(rows).abs().square().mean(0)
            right.plot(np.fft.rfftfreq(rows.shape[1], 1 / chirps.rate), power / power.max(), label=name)
        right.set(xlim=(0, 512), xlabel="frequency (Hz)", ylabel="power (of the largest)")
        right.legend(fontsize=7)
    return drawing


def _efficiency(predictor: "Predictor", device: "torch.device") -> Any:
    """Share of the signals that are found, against their strength, and how far it is from the best that can be."""
    import numpy as np
    import torch

    from vitreous.insight.style import figure
    from vitreous.sim.templates import Bank, compared, known

    chirps = chirps_of(predictor)
    noise, each = _SEGMENTS[device.type]
    bank = Bank(chirps, device=device)
    best, classical = "averaged likelihood ratio (optimal)", f"matched filter, bank of {len(bank.masses)}"
    detectors = {
        f"the model ({type(predictor.model).__name__})": network(predictor),
        classical: bank.loudest,
        best: bank.log_likelihood_ratio,
    }
    found = compared(detectors, [replace(chirps, snr=(snr, snr)) for snr in SNR], noise, each, (_RATE,), device)
    with figure(6, 5.4) as drawing:
        upper, lower = drawing.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        fine = torch.linspace(SNR[0], SNR[-1], 100)
        upper.plot(fine, known(fine, _RATE), color="0.6", ls=":", label="mass, time and phase known")
        optimum = np.array(found[best][_RATE])
        for (name, rates), mark in zip(found.items(), "osD", strict=True):
            share = np.array(rates[_RATE])
            error = np.sqrt((share * (1 - share)).clip(1 / each) / each)  # binomial
            upper.errorbar(SNR, share, error, marker=mark, ms=4, lw=1, capsize=2, label=name)
            lower.errorbar(SNR, share - optimum, error, marker=mark, ms=4, lw=1, capsize=2)
        filtered = np.array(found[classical][_RATE])
        lower.fill_between(
            SNR, 0.95 * filtered - optimum, filtered - optimum, color="C1", alpha=0.15, lw=0,
            label="within 5 % of the matched filter",
        )  # fmt: skip
        lower.legend(fontsize=7, loc="lower right")
        upper.set(ylabel=f"found, at {100 * _RATE:g} % false alarms", ylim=(0, 1.03))
        upper.legend(fontsize=7)
        upper.set_title(f"{noise} segments of noise, {each} signals of each strength", fontsize=8)
        lower.set(xlabel="signal-to-noise ratio", ylabel="minus the optimum")
    return drawing


ENTRY = Entry(
    "chirps",
    "gravitational-wave chirps",
    "Is there a chirp in the noise? Beside matched filtering, the known optimum.",
    ("vit", "cnn"),
    draw,
)
