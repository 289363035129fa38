"""Jets of quarks, gluons, W bosons and top quarks from proton collisions (S2.10).

Pythia 8 simulates the collisions and FastJet finds the jets (anti-k_T, R = 0.8): `pip install 'vitreous[jets]'`. A
collision takes 10 to 20 ms, so jets are simulated once, by all cores, and stored (`vitreous.gallery.jets.source`).
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

from vitreous.core.errors import InputError, check_choice
from vitreous.core.extras import load_extra
from vitreous.core.settings import Settings

RADIUS = 0.8
_MAX_ETA = 2.0  # largest pseudorapidity of jets; 0.5 more for their particles
_MIN_PT = 0.2  # GeV, least transverse momentum of a visible particle
_NEUTRINOS = (12, 14, 16)
_BATCH = 50  # collisions simulated at a time
_PORTION = 250  # jets that a process simulates before it returns them


class Origin(NamedTuple):
    """The particle that a jet comes from."""

    settings: tuple[str, ...]  # of Pythia, which select the collisions
    ids: tuple[int, ...]  # PDG numbers of the particles, one of which must be near the axis of the jet
    decays: bool = False  # whether its decay quarks must be in the jet


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
    """Kinematics of the simulated jets.

    Args:
        lowest, highest: range of the transverse momentum of a jet, in GeV.
        energy: centre-of-mass energy of the two protons, in GeV.
        underlying: whether to simulate the underlying event (multiparton interactions).
    """

    lowest: float = 500.0
    highest: float = 600.0
    energy: float = 13_000.0
    underlying: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 20 <= self.lowest < self.highest <= self.energy / 3:
            limits = f"20 GeV and a third of the protons' {self.energy:g} GeV"
            raise InputError(f"lowest: found {self.lowest:g} to {self.highest:g} GeV, expected a range within {limits}")


class RaggedJets(NamedTuple):
    """Jets with different numbers of particles, in order of falling p_T."""

    sizes: NDArray[np.int32]  # (jets,): number of particles of each jet
    # (particles, 5): η and φ relative to the jet's axis, ln p_T and ln E (GeV), electric charge (±1 or 0)
    particles: NDArray[np.float32]
    axis: NDArray[np.float32]  # (jets, 2): η and φ of the jet's axis

    def join(self, *others: "RaggedJets") -> "RaggedJets":
        """These jets followed by the others."""
        return RaggedJets(*(np.concatenate(parts) for parts in zip(self, *others, strict=True)))


def check_programs() -> None:
    """Raise `InputError` unless Pythia and FastJet are installed."""
    for module in ("pythia8mc", "fastjet"):
        load_extra(module, "jets")


def simulate_jets(
    origin: str, count: int, jets: Jets, seed: int = 0, processes: int | None = None
) -> Iterator[RaggedJets]:
    """Simulate jets of one of `ORIGINS` in several processes, and yield them in portions.

    Equal seeds give equal jets, for any number of processes; by default there is one for each core.
    """
    check_choice("origin", origin, ORIGINS)
    if count < 1:
        raise InputError(f"count: found {count}, expected at least one jet")
    check_programs()
    sizes = [len(part) for part in np.array_split(np.arange(count), max(1, -(-count // _PORTION)))]
    seeds = np.random.SeedSequence([seed, list(ORIGINS).index(origin)]).generate_state(len(sizes)) % 900_000_000
    work = [(origin, size, jets, int(portion_seed)) for size, portion_seed in zip(sizes, seeds, strict=True)]
    workers = min(len(work), processes or os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_silence) as pool:
        yield from pool.map(_simulate_portion, work)


def _silence() -> None:
    """Discard standard output, to which the programs print banners."""
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _simulate_portion(work: tuple[str, int, Jets, int]) -> RaggedJets:
    import awkward as ak
    import fastjet

    origin, count, jets, seed = work
    pythia = _start_pythia(ORIGINS[origin], jets, seed)
    definition = fastjet.JetDefinition(fastjet.antikt_algorithm, RADIUS)
    portion: list[RaggedJets] = []
    while sum(len(jet.sizes) for jet in portion) < count:
        particles = pythia.nextBatch(_BATCH).prt
        candidates = [_candidates(event, ORIGINS[origin]) for event in particles]
        visible = particles[_visible(particles)]
        parts = {"px": visible.p.px, "py": visible.p.py, "pz": visible.p.pz, "E": visible.p.e}
        momenta = ak.zip(parts | {"charge": _charges(visible.id, pythia)}, with_name="Momentum4D")
        clusters = fastjet.ClusterSequence(momenta, definition)
        constituents = clusters.constituents(min_pt=jets.lowest)  # (collisions, jets, particles)
        for event_jets, origins in zip(constituents, candidates, strict=True):
            portion += [jet for each in event_jets if (jet := _select_jet(each, origins, jets)) is not None]
    whole = portion[0].join(*portion[1:])
    last = int(whole.sizes[:count].sum())
    return RaggedJets(whole.sizes[:count], whole.particles[:last], whole.axis[:count])


def _start_pythia(origin: Origin, jets: Jets, seed: int) -> Any:
    import pythia8mc

    pythia = pythia8mc.Pythia("", False)
    settings = (
        "Print:quiet = on",
        "Random:setSeed = on",
        f"Random:seed = {1 + seed}",
        f"Beams:eCM = {jets.energy}",
        f"PhaseSpace:pTHatMin = {0.96 * jets.lowest}",  # margin for radiation into and out of the jet
        f"PhaseSpace:pTHatMax = {1.15 * jets.highest}",
        f"PartonLevel:MPI = {'on' if jets.underlying else 'off'}",
        *origin.settings,
    )
    for line in settings:
        if not pythia.readString(line):
            raise RuntimeError(f"Pythia refused the setting {line!r}")
    if not pythia.init():
        raise RuntimeError("Pythia failed to start")
    return pythia


def _visible(particles: Any) -> Any:
    """Mask of particles that a detector would see."""
    ids, momentum = abs(particles.id), particles.p
    visible = (particles.status > 0) & (abs(_eta(momentum.px, momentum.py, momentum.pz)) < _MAX_ETA + 0.5)
    visible = visible & (np.hypot(momentum.px, momentum.py) > _MIN_PT)
    for neutrino in _NEUTRINOS:
        visible = visible & (ids != neutrino)
    return visible


def _charges(ids: Any, pythia: Any) -> Any:
    """Electric charges of particles by their PDG numbers, in units of the proton charge."""
    import awkward as ak

    kinds, which = np.unique(ak.to_numpy(ak.flatten(ids)), return_inverse=True)
    charges = np.array([pythia.particleData.charge(int(kind)) for kind in kinds])
    return ak.unflatten(charges[which], ak.num(ids))


def _candidates(event: Any, origin: Origin) -> NDArray[np.float64]:
    """η and φ of the possible origins of jets in a collision, each followed by those of its decay quarks if needed."""
    ids, status = np.abs(np.asarray(event.id)), np.abs(np.asarray(event.status))
    momentum = np.stack([np.asarray(event.p[name]) for name in ("px", "py", "pz")])
    angles = np.stack([_eta(*momentum), np.arctan2(momentum[1], momentum[0])])  # (2, particles)
    first, last = np.asarray(event.daughter1), np.asarray(event.daughter2)
    if not origin.decays:
        return angles[:, np.flatnonzero((status == 23) & np.isin(ids, origin.ids))].T
    rows = np.flatnonzero(np.isin(ids, origin.ids)).tolist()
    decays = [(row, *quarks) for row in rows if (quarks := _decay_quarks(row, ids, first, last))]
    return np.array([angles[:, decay].T.ravel() for decay in decays]).reshape(len(decays), -1)


def _decay_quarks(row: int, ids: NDArray[Any], first: NDArray[Any], last: NDArray[Any]) -> list[int]:
    """Indices of the decay quarks of a W (two) or a top (three, through its W); none where it only radiates."""
    daughters = range(first[row], last[row] + 1) if first[row] else ()
    if any(ids[i] == ids[row] for i in daughters):
        return []
    quarks: list[int] = []
    for i in daughters:
        if ids[i] == 24:
            while any(ids[j] == 24 for j in range(first[i], last[i] + 1)):  # follow the W as it radiates
                i = next(j for j in range(first[i], last[i] + 1) if ids[j] == 24)
            quarks += range(first[i], last[i] + 1)
        elif ids[i] <= 5:
            quarks.append(i)
    return [i for i in quarks if ids[i] <= 5]


def _select_jet(particles: Any, origins: NDArray[np.float64], jets: Jets) -> RaggedJets | None:
    """A jet from its particles, if its momentum is in range and one of the origins is inside; else None."""
    px, py, pz, e = (np.asarray(particles[name]) for name in ("px", "py", "pz", "E"))
    pt = np.hypot(px.sum(), py.sum())
    axis = np.array([_eta(px.sum(), py.sum(), pz.sum()), np.arctan2(py.sum(), px.sum())])
    if not jets.lowest <= pt <= jets.highest or abs(axis[0]) > _MAX_ETA or not len(origins):
        return None
    apart = _relative_angles(origins.reshape(len(origins), -1, 2), axis)  # (origins, it and its quarks, 2)
    near = np.hypot(apart[..., 0], apart[..., 1]) < np.array([RADIUS / 2] + [RADIUS] * (apart.shape[1] - 1))
    if not near.all(1).any():
        return None
    order = np.argsort(-np.hypot(px, py), kind="stable")
    px, py, pz, e = (values[order] for values in (px, py, pz, e))
    away = _relative_angles(np.stack([_eta(px, py, pz), np.arctan2(py, px)], axis=-1), axis)
    rows = np.column_stack([away, np.log(np.hypot(px, py)), np.log(e), np.asarray(particles.charge)[order]])
    return RaggedJets(np.array([len(e)], np.int32), rows.astype(np.float32), axis.astype(np.float32)[None])


def _relative_angles(angles: NDArray[np.float64], axis: NDArray[np.float64]) -> NDArray[np.float64]:
    """η and φ `(..., 2)` relative to an axis, φ from -π to π."""
    relative = angles - axis
    relative[..., 1] = np.remainder(relative[..., 1] + np.pi, 2 * np.pi) - np.pi
    return relative


def _eta(px: Any, py: Any, pz: Any) -> Any:
    """Pseudorapidity; very large, but finite, along the beam."""
    return np.arcsinh(pz / (np.hypot(px, py) + 1e-9))
