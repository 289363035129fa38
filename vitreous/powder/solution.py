"""The answers of indexing: a `Solution` is one unit cell, an `IndexResult` all solutions of one pattern."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.powder.cell import NAMES, volumes
from vitreous.powder.cell_text import cell_line, refined_parameters, with_error
from vitreous.powder.peaks import Peaks
from vitreous.powder.refinement import Fit, reflections

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KEYS = (
    "cell", "conventional", "system", "centring", "volume", "m20", "f20", "indexed", "lines", "zero", "evidence",
    "probability",
)  # fmt: skip


class IndexedLine(NamedTuple):
    """An observed line with its Miller indices and calculated angle, both None if the cell does not explain it."""

    two_theta: float
    hkl: tuple[int, int, int] | None
    calculated: float | None


@dataclass(frozen=True)
class Solution:
    """A unit cell that explains a pattern.

    Attributes:
        cell: a, b, c (Å), α, β, γ (°) of the Niggli-reduced primitive cell.
        conventional: the same of the conventional cell.
        system: crystal system of the lattice; hexagonal also stands for trigonal crystals with a primitive lattice.
        centring: centring of the lattice.
        volume: volume of the conventional cell, Å³.
        m20: de Wolff's figure of merit over the first 20 lines, or as many as there are.
        f20: Smith and Snyder's figure of merit, in 1/°.
        indexed: number of lines that the cell explains.
        lines: number of lines that were used.
        zero: zero shift in degrees.
        evidence: log-likelihood ratio of the lines under this cell and under chance.
        probability: probability that this is the right lattice.
        margin: of the best solution, its evidence above that of the next.
        wavelength: ångström.
        two_theta: angles of the lines that were used, in degrees.
        tolerance: largest distances in degrees at which a cell explains these lines.
        fit: refinement on the whole pattern, if there was one.
    """

    cell: tuple[float, ...]
    conventional: tuple[float, ...]
    system: str
    centring: str
    volume: float
    m20: float
    f20: float
    indexed: int
    lines: int
    zero: float
    evidence: float
    probability: float
    margin: float = field(default=0.0, repr=False)
    wavelength: float = field(default=0.0, repr=False)
    two_theta: tuple[float, ...] = field(default=(), repr=False)
    tolerance: tuple[float, ...] = field(default=(), repr=False)
    fit: Fit | None = field(default=None, repr=False, compare=False)

    @property
    def crystal_system(self) -> str:
        """The crystal system in which a rhombohedral lattice is trigonal."""
        return "trigonal" if self.centring == "R" else self.system

    @property
    def refined(self) -> tuple[float, ...]:
        """The conventional cell, as refined on the whole pattern if it was."""
        return self.conventional if self.fit is None else self.fit.cell

    @property
    def errors(self) -> tuple[float, ...] | None:
        """Standard errors of `refined`, 0 where the system fixes a parameter; None if it was not refined."""
        return None if self.fit is None else self.fit.errors

    @property
    def why(self) -> str:
        """The reasons for the probability."""
        reasons = [
            f"{self.indexed} of {self.lines} lines explained", f"M20 {self.m20:.1f}", f"F20 {self.f20:.1f}",
            f"evidence {self.evidence:.1f}",
        ]  # fmt: skip
        return ", ".join(reasons) + (f", {self.margin:.1f} above the next lattice" if self.margin > 0 else "")

    @property
    def text(self) -> str:
        """The solution in a few lines of plain text."""
        cell = cell_line(self.conventional) if self.fit is None else refined_parameters(self.fit.cell, self.fit.errors)
        return "\n".join(
            [
                f"{self.system} {self.centring}, probability {self.probability:.3f}",
                f"{cell}, V = {float(volumes([self.refined])[0]):.1f} Å³, zero shift {self.zero:.3f}°",
                self.why,
            ]
        )

    def __str__(self) -> str:
        return self.text

    def reflections(self, limits: tuple[float, float], most: int = 200) -> tuple[np.ndarray, np.ndarray]:
        """Miller indices `(n, 3)` and observed 2θ `(n,)` in degrees, zero shift included, of the first reflections.

        Args:
            limits: first and last 2θ in degrees.
            most: largest number of reflections.
        """
        try:
            hkl, angle = reflections(
                self.conventional, self.crystal_system, self.centring, self.wavelength, limits, most
            )
        except InputError:  # no reflection in the range
            return np.zeros((0, 3), dtype=np.int64), np.zeros(0)
        return hkl, angle + self.zero

    def indexed_lines(self) -> list[IndexedLine]:
        """The observed lines with the indices of the nearest reflections."""
        if not self.two_theta:
            return []
        hkl, calculated = self.reflections((0.1, min(179.0, self.two_theta[-1] + 1)), 2000)
        assigned = []
        for angle, tolerance in zip(self.two_theta, self.tolerance, strict=True):
            miss = np.abs(calculated - angle)
            if not len(miss) or miss.min() > tolerance:
                assigned.append(IndexedLine(angle, None, None))
                continue
            nearest = int(miss.argmin())
            h, k, l = hkl[nearest].tolist()  # noqa: E741
            assigned.append(IndexedLine(angle, (h, k, l), float(calculated[nearest])))
        return assigned

    def to_dict(self) -> dict[str, Any]:
        """The solution as JSON values."""
        return {key: getattr(self, key) for key in _KEYS}

    def plot(self, title: str = "") -> "Figure":
        """A figure of the refinement, or of observed and calculated lines if there was none."""
        from vitreous.powder.figures.fit import fit_figure, lines_figure

        return lines_figure(self, title) if self.fit is None else fit_figure(self.fit, title)

    def to_cif(self, refined: bool = True) -> str:
        """The cell as a CIF.

        Args:
            refined: write the cell refined on the whole pattern, with standard errors, if there is one.
        """
        cif = load_extra("gemmi", "powder").cif
        document = cif.Document()
        block = document.add_new_block("cell")
        fit = self.fit if refined else None
        cell, errors = (fit.cell, fit.errors) if fit is not None else (self.conventional, (0.0,) * 6)
        for name, value, error in zip(NAMES, cell, errors, strict=True):
            label = f"_cell_length_{name}" if name in "abc" else f"_cell_angle_{name}"
            block.set_pair(label, with_error(value, error) if error > 0 else f"{value:.5f}")
        block.set_pair("_cell_volume", f"{float(volumes([cell])[0]):.3f}")
        block.set_pair("_space_group_crystal_system", self.crystal_system)
        block.set_pair("_space_group_centring_type", self.centring)
        block.set_pair("_diffrn_radiation_wavelength", f"{self.wavelength:g}")
        if fit is not None:
            block.set_pair("_pd_proc_ls_prof_wR_factor", f"{fit.rwp:.4f}")
        text: str = document.as_string()
        return text


@dataclass(frozen=True)
class IndexResult:
    """The solutions of one pattern or peak list, best first; or the error that prevented them.

    Attributes:
        name: name of the file or pattern.
        solutions: unit cells, best first; the first one holds the refinement on the whole pattern.
        hints: what may be wrong, one sentence each.
        error: message of the error.
        peaks: lines found in the pattern; None for a peak list.
    """

    name: str
    solutions: list[Solution]
    hints: Sequence[str] = ()
    error: str | None = None
    peaks: Peaks | None = None

    @property
    def best(self) -> Solution | None:
        """The first solution."""
        return self.solutions[0] if self.solutions else None

    @property
    def fit(self) -> Fit | None:
        """The refinement of the first solution on the whole pattern, if there was one."""
        return self.solutions[0].fit if self.solutions else None

    @property
    def text(self) -> str:
        """Hints and solutions as plain text."""
        remarks = [self.error] if self.error is not None else list(self.hints)
        return "\n".join([*(f"{self.name}: {remark}" for remark in remarks), *(s.text for s in self.solutions)])

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        record: dict[str, Any] = {"file": self.name, "solutions": [solution.to_dict() for solution in self.solutions]}
        if self.hints:
            record["hints"] = list(self.hints)
        if self.error is not None:
            record["fault"] = self.error
        if self.fit is not None:
            record["refined"] = {name: getattr(self.fit, name) for name in ("cell", "errors", "zero", "rwp", "chi2")}
        return record
