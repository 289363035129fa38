"""Figures of gravitational-wave chirps (S2.11): an example, learned filters and the efficiency beside the optimum."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitreous.gallery.chirps.matched_filter import Detector, TemplateBank, compare_detectors, known_signal_efficiency
from vitreous.gallery.chirps.simulate import CLASSES, Chirps, Events, colour, frequency, random_events, signals
from vitreous.gallery.figures import Figure, save_figures
from vitreous.insight.attention import attention_maps, attention_model
from vitreous.insight.style import figure
from vitreous.nn.tokens import PatchTokenizer
from vitreous.run.predictor import Predictor, load
from vitreous.train.device import pick_device

SNR = (3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
_FALSE_ALARMS = 0.01  # per segment
_SEGMENTS = {"cpu": (1000, 100), "cuda": (20_000, 1000)}  # of noise, and with signals of each strength
_BATCH = 256
_FILTERS = 6
_EXAMPLE_SNR = 12.0


def network_detector(predictor: Predictor) -> Detector:
    """A run as a detector, whose statistic is the log-odds of a chirp."""

    @torch.no_grad()
    def log_odds(segments: Tensor) -> Tensor:
        parts = segments.unsqueeze(1).split(_BATCH)
        out = torch.cat([predictor.model(predictor.scaling(part)).float() for part in parts])
        return out[:, 1] - out[:, 0]

    return log_odds


def chirps_of(predictor: Predictor) -> Chirps:
    """The recipe's distribution of signals, at the run's sampling rate."""
    return Chirps(rate=round(1 / predictor.axes[0].spacing))


def draw(run: Path, noise: int | None = None, signals: int | None = None) -> list[Path]:
    """Draw `chirp.png`, an example, `efficiency.png` and, for a transformer, `templates.png`, its learned filters.

    Args:
        run: folder of a finished training.
        noise: segments of noise that set the threshold; by default 1,000 on a CPU and 20,000 on a GPU.
        signals: segments with a signal of each strength; by default 100 on a CPU and 1,000 on a GPU.
    """
    device = torch.device(pick_device("auto"))
    default_noise, default_signals = _SEGMENTS[device.type]
    counts = noise or default_noise, signals or default_signals
    with torch.random.fork_rng():
        predictor = load(run, device.type)
        torch.manual_seed(1)
        figures = {"chirp.png": _example_figure(predictor, device)}
        torch.manual_seed(1)
        figures["efficiency.png"] = _efficiency_figure(predictor, *counts, device)
        if predictor.model.attends:
            torch.manual_seed(1)
            figures["templates.png"] = _filters_figure(predictor)
    return save_figures(run, figures)


def _example_figure(predictor: Predictor, device: torch.device) -> Figure:
    """Strain, whitened strain, spectrogram and, for a transformer, the attention on a segment with a chirp."""
    chirps = chirps_of(predictor)
    event = Events(*(torch.tensor([value]) for value in (7.0, 0.88, 0.0, _EXAMPLE_SNR)))
    wave = signals(chirps, event)
    segment = wave + torch.randn_like(wave)
    probability = float(torch.sigmoid(network_detector(predictor)(segment.to(device)))[0])
    clock = np.arange(chirps.points) / chirps.rate
    rows = 4 if predictor.model.attends else 3
    with figure(8, 8.4 if predictor.model.attends else 6.2) as drawing:
        panels = drawing.subplots(rows, 1, sharex=True, height_ratios=[1, 1, 1.4, 0.9][:rows])
        for axes, recorded, true, label in (
            (panels[0], colour(chirps, segment), colour(chirps, wave), "strain (10⁻²¹)"),
            (panels[1], segment, wave, "whitened strain"),
        ):
            axes.plot(clock, recorded[0], color="0.6", lw=0.5, label="recorded")
            axes.plot(clock, true[0], color="C3", lw=1, label="the wave in it")
            axes.set_ylabel(label)
        panels[0].legend(loc="upper left", fontsize=7, ncols=2)
        title = f"Chirp mass {float(event.chirp_mass):g} M☉, signal-to-noise ratio {_EXAMPLE_SNR:g}: the model gives "
        panels[0].set_title(f"{title}{CLASSES[1]} {100 * probability:.2f} %", fontsize=9)
        _draw_spectrogram(panels[2], chirps, segment[0], event)
        if predictor.model.attends:
            _draw_attention(panels[3], predictor, segment.unsqueeze(1).to(device))
        panels[-1].set(xlabel="time (s)", xlim=(0, chirps.seconds))
    return drawing


def _draw_spectrogram(axes: Any, chirps: Chirps, segment: Tensor, event: Events) -> None:
    """Power of a segment `(points,)` in windows of 1/16 s, and the frequency of the wave."""
    window = chirps.rate // 16
    step = window // 16
    hann = torch.hann_window(window)
    spectra = torch.stft(segment, 4 * window, step, window, hann, return_complex=True, pad_mode="constant")
    times = np.arange(spectra.shape[1]) * step / chirps.rate
    frequencies = np.arange(spectra.shape[0]) * chirps.rate / (4 * window)
    axes.pcolormesh(times, frequencies, spectra.abs().square().numpy(), cmap="magma", rasterized=True)
    time_left = torch.linspace(chirps.lasting, 0.01, 300)
    clock, label = float(event.coalescence) - time_left, "f ∝ (time to coalescence)^(−3/8)"
    axes.plot(clock, frequency(time_left, event.chirp_mass), color="w", lw=0.8, ls="--", label=label)
    axes.legend(loc="upper left", fontsize=7, labelcolor="w", frameon=False)
    axes.set(ylim=(20, 450), ylabel="frequency (Hz)")


def _draw_attention(axes: Any, predictor: Predictor, samples: Tensor) -> None:
    """The attention on each patch, averaged over all layers and heads."""
    attention = attention_maps(attention_model(predictor), samples).mean((0, 1, 2))
    centres = _tokenizer(predictor).coords()[:, 0].cpu().numpy() * predictor.axes[0].spacing
    axes.fill_between(centres, len(attention) * attention / attention.sum(), color="C0", alpha=0.4, lw=0)
    axes.axhline(1, color="0.5", lw=0.7, ls=":")
    axes.set_ylabel("attention on patches\ncentred here (1: even)", fontsize=8)


def _tokenizer(predictor: Predictor) -> PatchTokenizer:
    tokenizer = attention_model(predictor).tokenizer
    assert isinstance(tokenizer, PatchTokenizer)
    return tokenizer


def _filters_figure(predictor: Predictor) -> Figure:
    """Principal components of the patch projection, and the spectrum of all filters beside that of the chirps."""
    chirps = chirps_of(predictor)
    weights = _tokenizer(predictor).project.weight.detach().float().cpu()  # (D, patch)
    _, strengths, filters = torch.linalg.svd(weights.double(), full_matrices=False)
    clock = 1000 * np.arange(weights.shape[1]) / chirps.rate
    with figure(9, 3.6) as drawing:
        left, right = drawing.subplots(1, 2)
        for row, (strength, wave) in enumerate(zip(strengths[:_FILTERS], filters, strict=False)):
            left.plot(clock, -row + 0.45 * wave / wave.abs().max(), lw=0.7, color="C0")
            left.text(clock[-1], -row, f"  {100 * float(strength**2 / strengths.square().sum()):.0f} %", fontsize=7)
        left.set(xlabel="time in the patch (ms)", yticks=[])
        left.set_title("strongest filters of the patch projection, and their share", fontsize=9)
        waves = signals(chirps, random_events(chirps, 400))
        for name, rows in (("learned filters", weights), ("whitened chirps", waves)):
            power = torch.fft.rfft(rows).abs().square().mean(0)
            right.plot(np.fft.rfftfreq(rows.shape[1], 1 / chirps.rate), power / power.max(), label=name)
        right.set(xlim=(0, 512), xlabel="frequency (Hz)", ylabel="power (of the largest)")
        right.legend(fontsize=7)
    return drawing


def _efficiency_figure(predictor: Predictor, noise: int, signals_each: int, device: torch.device) -> Figure:
    """Detection efficiency by signal-to-noise ratio, and its distance to the optimum."""
    chirps = chirps_of(predictor)
    bank = TemplateBank(chirps, device=device)
    best, classical = "averaged likelihood ratio (optimal)", f"matched filter, bank of {len(bank.masses)}"
    detectors = {
        f"the model ({type(predictor.model).__name__})": network_detector(predictor),
        classical: bank.loudest,
        best: bank.log_likelihood_ratio,
    }
    populations = [replace(chirps, snr=(snr, snr)) for snr in SNR]
    rates = compare_detectors(detectors, populations, noise, signals_each, (_FALSE_ALARMS,), device)
    efficiencies = {name: np.array(by_rate[_FALSE_ALARMS]) for name, by_rate in rates.items()}
    optimum, filtered = efficiencies[best], efficiencies[classical]
    with figure(6, 5.4) as drawing:
        upper, lower = drawing.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        fine = torch.linspace(SNR[0], SNR[-1], 100)
        exact = known_signal_efficiency(fine, _FALSE_ALARMS)
        upper.plot(fine, exact, color="0.6", ls=":", label="mass, time and phase known")
        for (name, values), marker in zip(efficiencies.items(), "osD", strict=True):
            error = np.sqrt((values * (1 - values)).clip(1 / signals_each) / signals_each)  # binomial
            upper.errorbar(SNR, values, error, marker=marker, ms=4, lw=1, capsize=2, label=name)
            lower.errorbar(SNR, values - optimum, error, marker=marker, ms=4, lw=1, capsize=2)
        band = {"color": "C1", "alpha": 0.15, "lw": 0, "label": "within 5 % of the matched filter"}
        lower.fill_between(SNR, 0.95 * filtered - optimum, filtered - optimum, **band)
        lower.legend(fontsize=7, loc="lower right")
        upper.set(ylabel=f"found, at {100 * _FALSE_ALARMS:g} % false alarms", ylim=(0, 1.03))
        upper.legend(fontsize=7)
        upper.set_title(f"{noise} segments of noise, {signals_each} signals of each strength", fontsize=8)
        lower.set(xlabel="signal-to-noise ratio", ylabel="minus the optimum")
    return drawing
