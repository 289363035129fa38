"""Jets as tokens, each particle one (S2.10), and the file in which they are kept once they are made."""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from vitreous.atomic import write_atomically
from vitreous.data.builtin import data_folder
from vitreous.data.source import Axis, Source, in_order
from vitreous.errors import InputError
from vitreous.sim.jets import ORIGINS, RADIUS, Jets, Ragged, check_programs, make_jets

MOST = 64
"""Particles of a jet that are looked at, the hardest."""
FEATURES = ("Δη", "Δφ", "ln pT", "ln E", "ln pT share", "ln E share", "ΔR", "charge")
COORDINATES = ("rapidity", "azimuth", "ln pT", "ln E")
EACH = 10_000
"""Jets of each origin."""
_SHARES = 0.75, 0.1  # of the jets, to train and to validate on; the rest is for testing


def as_tokens(jets: Ragged, most: int = MOST) -> NDArray[np.float32]:
    """Packed sets `(jets, 12, most)`: rows of `FEATURES`, of the order of one, and then of `COORDINATES`.

    Momenta are in GeV before their logarithms are shifted and scaled (as in Qu, Li and Qian 2022, table 2); shares are
    those of the jet's sums. The azimuth is relative to the jet's axis, the rapidity is not, since energies are not.
    """
    if np.any(jets.sizes < 1):
        raise InputError(f"jets: jet {int(np.flatnonzero(jets.sizes < 1)[0])} has no particles, expected one at least")
    kept = np.arange(most) < jets.sizes[:, None]  # (jets, most)
    start = np.cumsum(jets.sizes) - jets.sizes
    place = np.minimum(start[:, None] + np.arange(most), len(jets.particles) - 1)
    eta, phi, log_pt, log_e, charge = jets.particles[place].transpose(2, 0, 1)
    owner = np.repeat(np.arange(len(jets.sizes)), jets.sizes)
    sums = [np.bincount(owner, np.exp(jets.particles[:, column]))[:, None] for column in (2, 3)]
    along = np.tanh(eta + jets.axis[:, :1]) * np.cosh(eta + jets.axis[:, :1]) * np.exp(log_pt - log_e)  # p_z / E
    rows = (
        eta / (RADIUS / 2),
        phi / (RADIUS / 2),
        (log_pt - 1.7) * 0.7,
        (log_e - 2.0) * 0.7,
        (log_pt - np.log(sums[0]) + 4.7) * 0.7,
        (log_e - np.log(sums[1]) + 4.7) * 0.7,
        (np.hypot(eta, phi) - 0.2) * 4,
        charge,
        np.arctanh(along.clip(-1 + 1e-6, 1 - 1e-6)),
        phi,
        log_pt,
        log_e,
    )
    return np.stack([np.where(kept, row, 0.0) for row in rows], axis=1).astype(np.float32)


@dataclass(frozen=True)
class Made:
    """Jets of every origin."""

    jets: Ragged
    origin: NDArray[np.int64]
    """`(jets,)`: which of `ORIGINS`."""

    def write(self, path: Path) -> None:
        """Keep them, with the digits that a detector would tell: three.

        The mass of a particle is kept and not its energy, which would need more digits: masses of pairs are what large
        energies and momenta differ by.
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
    def read(cls, path: Path) -> "Made":
        """The inverse of `write`."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                places, mass = (kept[name].astype(np.float64) for name in ("places", "mass"))
                particles = np.column_stack([places, np.zeros_like(mass), kept["charge"]])
                jets = Ragged(kept["count"].astype(np.int32), particles, kept["axis"])
                particles[:, 3] = np.log(np.hypot(_momenta(jets), mass))
                return cls(jets._replace(particles=particles.astype(np.float32)), kept["origin"].astype(np.int64))
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as fault:
            raise InputError(f"{path}: is damaged ({fault}); delete it, and the jets are made again") from None


def _momenta(jets: Ragged) -> NDArray[np.float64]:
    """Of each particle the momentum `(particles,)`, in GeV."""
    eta, _, log_pt = jets.particles[:, :3].astype(np.float64).T
    momenta: NDArray[np.float64] = np.exp(log_pt) * np.cosh(eta + np.repeat(jets.axis[:, 0], jets.sizes))
    return momenta


def jets_file(jets: Jets, each: int, seed: int) -> Path:
    """Where such jets are kept."""
    about = f"{jets.lowest:g}-{jets.highest:g}-{jets.energy:g}{'' if jets.underlying else '-hard'}-{each}-{seed}"
    return data_folder() / "jets" / f"jets-{about}.npz"


def made_jets(jets: Jets, each: int = EACH, seed: int = 0) -> Made:
    """Jets of every origin, from their file, or made and then kept there."""
    path = jets_file(jets, each, seed)
    if path.is_file():
        return Made.read(path)
    check_programs()  # before a bar begins
    portions: list[Ragged] = []
    with Progress() as progress:
        bar = progress.add_task("Colliding protons", total=each * len(ORIGINS))
        for origin in ORIGINS:
            for portion in make_jets(origin, each, jets, seed):
                portions.append(portion)
                progress.advance(bar, len(portion.sizes))
    made = Made(portions[0].joined(*portions[1:]), np.repeat(np.arange(len(ORIGINS)), each))
    made.write(path)
    return Made.read(path)  # with the digits that the next run will see


def jet_source(jets: Jets | None = None, each: int = EACH, seed: int = 0) -> Source:
    """Jets of the four origins in equal numbers, shuffled; parts are the same in every run."""
    made = made_jets(jets or Jets(), each, seed)
    order = np.random.default_rng(seed).permutation(len(made.origin))
    train, validation = (round(share * len(order)) for share in _SHARES)
    parts = in_order(train, validation, len(order) - train - validation)
    x = as_tokens(made.jets)[order]
    return Source("jets", x, made.origin[order], (Axis("particle"),), FEATURES + COORDINATES, tuple(ORIGINS), (), parts)
