"""Jets of quarks, gluons, W bosons and top quarks (S2.10), as proton collisions make them.

Pythia 8 makes the collisions and FastJet finds the jets (anti-k_T, R = 0.8): `pip install 'vitreous[jets]'`. That takes
some 10 to 20 ms a collision, so jets are made once, by all cores, and kept in a file; see `vitreous.sim.jet_source`.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.data.extras import load_extra
from vitreous.errors import InputError, check_choice
from vitreous.settings import Settings

RADIUS = 0.8
_REACH = 2.0  # pseudorapidity within which jets are taken, and 0.5 more for their particles
_SOFTEST = 0.2  # GeV, transverse momentum of a particle that is seen
_NEUTRINOS = (12, 14, 16)
_BATCH = 50  # collisions at a time


class Origin(NamedTuple):
    """What a jet is said to come from."""

    settings: tuple[str, ...]
    """Of Pythia: which collisions have it."""
    ids: tuple[int, ...]
    """Particle numbers of what must be at the jet's middle."""
    decays: bool = False
    """Whether the quarks that it decays to must be in the jet."""


_HADRONIC = ("24:onMode = off", "24:onIfAny = 1 2 3 4 5")
ORIGINS: dict[str, Origin] = {
    "quark": Origin(("HardQCD:qq2qq = on", "HardQCD:qqbar2qqbarNew = on", "HardQCD:gg2qqbar = on"), (1, 2, 3, 4, 5)),
    "gluon": Origin(("HardQCD:gg2gg = on", "HardQCD:qqbar2gg = on"), (21,)),
    "W": Origin(("WeakDoubleBoson:ffbar2WW = on", *_HADRONIC), (24,), True),
    "top": Origin(("Top:gg2ttbar = on", "Top:qqbar2ttbar = on", *_HADRONIC), (6,), True),
}
"""Classes of jets."""


@dataclass(frozen=True)
class Jets(Settings):
    """Which jets are made."""

    lowest: float = 500.0
    """Transverse momentum of a jet at least, in GeV."""
    highest: float = 600.0
    """And at most."""
    energy: float = 13_000.0
    """Of the two protons together, in GeV."""
    underlying: bool = True
    """Whether further partons of the two protons collide too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 20 <= self.lowest < self.highest <= self.energy / 3:
            raise InputError(
                f"lowest: found {self.lowest:g} to {self.highest:g} GeV, expected a range within 20 GeV and a third of "
                f"the protons' {self.energy:g} GeV"
            )


class Ragged(NamedTuple):
    """Jets with as many particles as each has, hardest first."""

    sizes: NDArray[np.int32]
    """`(jets,)`: particles of each jet."""
    particles: NDArray[np.float32]
    """`(particles, 5)`: η and φ relative to the jet's axis, ln p_T and ln E (GeV), electric charge (±1 or 0)."""
    axis: NDArray[np.float32]
    """`(jets, 2)`: η and φ of the jet's axis."""

    def joined(self, *others: "Ragged") -> "Ragged":
        """These and then those."""
        return Ragged(*(np.concatenate(parts) for parts in zip(self, *others, strict=True)))


def check_programs() -> None:
    """Raise `InputError` unless Pythia and FastJet are there."""
    for module in ("pythia8mc", "fastjet"):
        load_extra(module, "jets")


def make_jets(origin: str, count: int, jets: Jets, seed: int = 0, processes: int | None = None) -> Iterator[Ragged]:
    """So many jets of one origin, in portions, made by several processes.

    Args:
        origin: one of `ORIGINS`.
        seed: equal seeds make equal jets, whatever the number of processes.
        processes: as many as there are cores if not given.
    """
    check_choice("origin", origin, ORIGINS)
    if count < 1:
        raise InputError(f"count: found {count}, expected one jet or more")
    check_programs()
    sizes = [len(part) for part in np.array_split(np.arange(count), max(1, -(-count // _PORTION)))]
    seeds = np.random.SeedSequence([seed, list(ORIGINS).index(origin)]).generate_state(len(sizes)) % 900_000_000
    work = [(origin, size, jets, int(own)) for size, own in zip(sizes, seeds, strict=True)]
    workers = min(len(work), processes or os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_silently) as pool:
        yield from pool.map(_portion, work)


_PORTION = 250  # jets that a process makes before it tells of them


def _silently() -> None:
    """Keep the programs' greetings from the terminal."""
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _portion(work: tuple[str, int, Jets, int]) -> Ragged:
    """Jets of one origin from collisions of one seed."""
    import awkward as ak
    import fastjet

    origin, count, jets, seed = work
    pythia = _pythia(ORIGINS[origin], jets, seed)
    definition = fastjet.JetDefinition(fastjet.antikt_algorithm, RADIUS)
    found: list[Ragged] = []
    while sum(len(part.sizes) for part in found) < count:
        particles = pythia.nextBatch(_BATCH).prt
        hard = _hard(particles, ORIGINS[origin])
        seen = particles[_visible(particles)]
        momenta = ak.zip(
            {"px": seen.p.px, "py": seen.p.py, "pz": seen.p.pz, "E": seen.p.e, "charge": _charges(seen.id, pythia)},
            with_name="Momentum4D",
        )
        clusters = fastjet.ClusterSequence(momenta, definition)
        constituents = clusters.constituents(min_pt=jets.lowest)  # (collisions, jets, particles)
        for here, wanted in zip(constituents, hard, strict=True):
            found += [jet for each in here if (jet := _jet(each, wanted, jets)) is not None]
    whole = found[0].joined(*found[1:])
    last = int(whole.sizes[:count].sum())
    return Ragged(whole.sizes[:count], whole.particles[:last], whole.axis[:count])


def _pythia(origin: Origin, jets: Jets, seed: int) -> Any:
    import pythia8mc

    pythia = pythia8mc.Pythia("", False)
    settings = (
        "Print:quiet = on",
        "Random:setSeed = on",
        f"Random:seed = {1 + seed}",
        f"Beams:eCM = {jets.energy}",
        f"PhaseSpace:pTHatMin = {0.96 * jets.lowest}",  # radiation into the jet and out of it
        f"PhaseSpace:pTHatMax = {1.15 * jets.highest}",
        f"PartonLevel:MPI = {'on' if jets.underlying else 'off'}",
        *origin.settings,
    )
    for line in settings:
        if not pythia.readString(line):
            raise RuntimeError(f"Pythia does not know {line!r}")
    if not pythia.init():
        raise RuntimeError("Pythia could not be started")
    return pythia


def _visible(particles: Any) -> Any:
    """Particles that a detector would see."""
    ids, momentum = abs(particles.id), particles.p
    seen = (particles.status > 0) & (abs(_eta(momentum.px, momentum.py, momentum.pz)) < _REACH + 0.5)
    seen = seen & (np.hypot(momentum.px, momentum.py) > _SOFTEST)
    for neutrino in _NEUTRINOS:
        seen = seen & (ids != neutrino)
    return seen


def _charges(ids: Any, pythia: Any) -> Any:
    """Electric charges of particles by their numbers, in units of the proton's."""
    import awkward as ak

    kinds, which = np.unique(ak.to_numpy(ak.flatten(ids)), return_inverse=True)
    known = np.array([pythia.particleData.charge(int(kind)) for kind in kinds])
    return ak.unflatten(known[which], ak.num(ids))


def _hard(particles: Any, origin: Origin) -> list[NDArray[np.float64]]:
    """Of each collision what its jets may come from: η, φ, and those of the quarks it decays to, if they must be in."""
    return [_candidates(event, origin) for event in particles]


def _candidates(event: Any, origin: Origin) -> NDArray[np.float64]:
    ids, status = np.abs(np.asarray(event.id)), np.abs(np.asarray(event.status))
    momentum = np.stack([np.asarray(event.p[name]) for name in ("px", "py", "pz")])
    angles = np.stack([_eta(*momentum), np.arctan2(momentum[1], momentum[0])])  # (2, particles)
    first, last = np.asarray(event.daughter1), np.asarray(event.daughter2)
    if not origin.decays:
        rows = np.flatnonzero((status == 23) & np.isin(ids, origin.ids))
        return angles[:, rows].T
    found = []
    for row in np.flatnonzero(np.isin(ids, origin.ids)).tolist():
        quarks = _decayed(row, ids, first, last)
        if quarks is not None:
            found.append(angles[:, np.array([row, *quarks])].T.ravel())
    return np.array(found).reshape(len(found), -1)


def _decayed(row: int, ids: NDArray[Any], first: NDArray[Any], last: NDArray[Any]) -> list[int] | None:
    """The quarks that a W or a top decays to: two, or three through its W; None where it only radiates here."""
    own = range(first[row], last[row] + 1) if first[row] else ()
    if any(ids[i] == ids[row] for i in own):
        return None
    quarks: list[int] = []
    for i in own:
        if ids[i] == 24:
            while any(ids[j] == 24 for j in range(first[i], last[i] + 1)):  # the W as it radiates
                i = next(j for j in range(first[i], last[i] + 1) if ids[j] == 24)
            quarks += range(first[i], last[i] + 1)
        elif ids[i] <= 5:
            quarks.append(i)
    return [i for i in quarks if ids[i] <= 5] or None


def _jet(particles: Any, wanted: NDArray[np.float64], jets: Jets) -> Ragged | None:
    """A jet from its particles, if its momentum is wanted and what it must come from is in it."""
    px, py, pz, e = (np.asarray(particles[name]) for name in ("px", "py", "pz", "E"))
    pt = np.hypot(px.sum(), py.sum())
    axis = np.array([_eta(px.sum(), py.sum(), pz.sum()), np.arctan2(py.sum(), px.sum())])
    if not jets.lowest <= pt <= jets.highest or abs(axis[0]) > _REACH or not len(wanted):
        return None
    apart = _apart(wanted.reshape(len(wanted), -1, 2), axis)  # (candidates, it and its quarks, 2)
    near = np.hypot(apart[..., 0], apart[..., 1]) < np.array([RADIUS / 2] + [RADIUS] * (apart.shape[1] - 1))
    if not near.all(1).any():
        return None
    order = np.argsort(-np.hypot(px, py), kind="stable")
    px, py, pz, e = (values[order] for values in (px, py, pz, e))
    away = _apart(np.stack([_eta(px, py, pz), np.arctan2(py, px)], axis=-1), axis)
    rows = np.column_stack([away, np.log(np.hypot(px, py)), np.log(e), np.asarray(particles.charge)[order]])
    return Ragged(np.array([len(e)], np.int32), rows.astype(np.float32), axis.astype(np.float32)[None])


def _apart(angles: NDArray[np.float64], axis: NDArray[np.float64]) -> NDArray[np.float64]:
    """η and φ `(..., 2)` relative to an axis, φ the shorter way round."""
    found = angles - axis
    found[..., 1] = np.remainder(found[..., 1] + np.pi, 2 * np.pi) - np.pi
    return found


def _eta(px: Any, py: Any, pz: Any) -> Any:
    """Pseudorapidity; enormous along the beam."""
    return np.arcsinh(pz / (np.hypot(px, py) + 1e-9))
