"""Jets as sets of particles (S2.10), and the file that stores simulated jets."""

import io
import zipfile
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError
from vitreous.data.builtin import data_folder
from vitreous.data.source import Axis, Source, consecutive_parts
from vitreous.gallery.jets.simulate import ORIGINS, RADIUS, Jets, RaggedJets, check_programs, simulate_jets

MOST = 64
"""Largest number of particles of a jet in a sample: those of highest p_T."""
FEATURES = ("Δη", "Δφ", "ln pT", "ln E", "ln pT share", "ln E share", "ΔR", "charge")
COORDINATES = ("rapidity", "azimuth", "ln pT", "ln E")
EACH = 10_000
"""Number of jets of each origin."""
_SHARES = 0.75, 0.1  # of the training and validation parts; the rest is the test part


def to_set(jets: RaggedJets, most: int = MOST) -> NDArray[np.float32]:
    """Packed sets `(jets, 12, most)`: rows of `FEATURES`, scaled to order one, and of `COORDINATES`.

    Logarithms of momenta in GeV are shifted and scaled as in Qu, Li and Qian 2022, table 2. Shares are fractions of the
    sum over the jet. The azimuth is relative to the axis of the jet; the rapidity is absolute, as the energies are.
    """
    if np.any(jets.sizes < 1):
        raise InputError(f"jets: jet {int(np.flatnonzero(jets.sizes < 1)[0])} has no particles, expected at least one")
    present = np.arange(most) < jets.sizes[:, None]  # (jets, most)
    start = np.cumsum(jets.sizes) - jets.sizes
    index = np.minimum(start[:, None] + np.arange(most), len(jets.particles) - 1)
    eta, phi, log_pt, log_e, charge = jets.particles[index].transpose(2, 0, 1)
    owner = np.repeat(np.arange(len(jets.sizes)), jets.sizes)
    sums = [np.bincount(owner, np.exp(jets.particles[:, column]))[:, None] for column in (2, 3)]
    along = np.tanh(eta + jets.axis[:, :1]) * np.cosh(eta + jets.axis[:, :1]) * np.exp(log_pt - log_e)  # p_z / E
    momenta = (log_pt - 1.7) * 0.7, (log_e - 2.0) * 0.7
    shares = (log_pt - np.log(sums[0]) + 4.7) * 0.7, (log_e - np.log(sums[1]) + 4.7) * 0.7
    features = (eta / (RADIUS / 2), phi / (RADIUS / 2), *momenta, *shares, (np.hypot(eta, phi) - 0.2) * 4, charge)
    coordinates = np.arctanh(along.clip(-1 + 1e-6, 1 - 1e-6)), phi, log_pt, log_e
    return np.stack([np.where(present, row, 0.0) for row in (*features, *coordinates)], axis=1).astype(np.float32)


@dataclass(frozen=True)
class LabelledJets:
    """Jets with their origins."""

    jets: RaggedJets
    origin: NDArray[np.int64]
    """`(jets,)`: index into `ORIGINS`."""

    def write(self, path: Path) -> None:
        """Write the jets in half precision, about the resolution of a detector.

        The file has the masses of particles rather than their energies, which would need more digits: masses of pairs
        are small differences of large energies and momenta.
        """
        content = io.BytesIO()
        count, particles, axis = self.jets
        mass = np.sqrt(np.maximum(0.0, np.exp(2.0 * particles[:, 3]) - _momenta(self.jets) ** 2))
        np.savez_compressed(
            content, count=count.astype(np.int16), places=particles[:, :3].astype(np.float16),
            mass=mass.astype(np.float16), charge=particles[:, 4].astype(np.int8), axis=axis,
            origin=self.origin.astype(np.int8),
        )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.getvalue())

    @classmethod
    def read(cls, path: Path) -> "LabelledJets":
        """The inverse of `write`."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                places, mass = (arrays[name].astype(np.float64) for name in ("places", "mass"))
                particles = np.column_stack([places, np.zeros_like(mass), arrays["charge"]])
                jets = RaggedJets(arrays["count"].astype(np.int32), particles, arrays["axis"])
                particles[:, 3] = np.log(np.hypot(_momenta(jets), mass))
                return cls(jets._replace(particles=particles.astype(np.float32)), arrays["origin"].astype(np.int64))
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as fault:
            raise InputError(f"{path}: is damaged ({fault}); delete it to simulate the jets again") from None


def _momenta(jets: RaggedJets) -> NDArray[np.float64]:
    """Momentum of each particle `(particles,)`, in GeV."""
    eta, _, log_pt = jets.particles[:, :3].astype(np.float64).T
    momenta: NDArray[np.float64] = np.exp(log_pt) * np.cosh(eta + np.repeat(jets.axis[:, 0], jets.sizes))
    return momenta


def jets_path(jets: Jets, each: int, seed: int) -> Path:
    """The file that stores such jets."""
    settings = f"{jets.lowest:g}-{jets.highest:g}-{jets.energy:g}{'' if jets.underlying else '-hard'}-{each}-{seed}"
    return data_folder() / "jets" / f"jets-{settings}.npz"


def load_jets(jets: Jets, each: int = EACH, seed: int = 0) -> LabelledJets:
    """Jets of every origin, read from their file, or simulated and written to it."""
    path = jets_path(jets, each, seed)
    if path.is_file():
        return LabelledJets.read(path)
    check_programs()  # before the progress bar starts
    portions: list[RaggedJets] = []
    with Progress() as progress:
        bar = progress.add_task("Colliding protons", total=each * len(ORIGINS))
        for portion in chain.from_iterable(simulate_jets(origin, each, jets, seed) for origin in ORIGINS):
            portions.append(portion)
            progress.advance(bar, len(portion.sizes))
    labelled = LabelledJets(portions[0].join(*portions[1:]), np.repeat(np.arange(len(ORIGINS)), each))
    labelled.write(path)
    return LabelledJets.read(path)  # rounded as in the next run


def jet_source(
    jets: Jets | None = None, each: int = EACH, seed: int = 0, labelled: LabelledJets | None = None
) -> Source:
    """Jets of the four origins, `each` of every one, or the `labelled` ones; shuffled, the same parts in every run.

    The seed is that of the simulation and of the order.
    """
    labelled = labelled or load_jets(jets or Jets(), each, seed)
    order = np.random.default_rng(seed).permutation(len(labelled.origin))
    train, validation = (round(share * len(order)) for share in _SHARES)
    parts = consecutive_parts(train, validation, len(order) - train - validation)
    x, y = to_set(labelled.jets)[order], labelled.origin[order]
    return Source("jets", x, y, (Axis("particle"),), FEATURES + COORDINATES, tuple(ORIGINS), (), parts)
