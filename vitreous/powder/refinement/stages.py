"""The stages of a refinement: fits of growing ranges, with more and more free parameters.

Reflections at high angles enter only when the cell is good enough to separate them.
"""

import math
from collections.abc import Sequence

import numpy as np

from vitreous.powder.peaks.matched_filter import typical_width
from vitreous.powder.refinement.problem import Data, Problem, State
from vitreous.powder.refinement.profile import Array, Shape
from vitreous.powder.refinement.shifts import Shifts
from vitreous.powder.tuning import PEAK_TUNING, REFINEMENT_TUNING, RefinementTuning

_SHIFTS = Shifts(0.03, 0.02, 0.02)  # degrees: expected size of zero shift and displacement
_SPREAD = Shape(math.inf, 0.4, 0.4, math.inf, 0.3, 0.01, 0.2)  # expected size of the profile parameters
_METRIC_SPREAD = 0.005  # relative error of the first reciprocal metric
EDGE = 0.2  # degrees: lines are fitted this far beyond the end of a range
_SAME_PLACE = 0.1  # of the width of a line
_TRIALS = 3  # starting points that are followed through the first range
_EARLY = frozenset({"metric", "zero", "log_width", "mixing"})  # parameters of the first stage
_LATER = frozenset({"slope", "dip", "axial"})


class Stages:
    """Fits of growing ranges, with more and more free parameters; the last one is of all points.

    Before that, neighbouring points are averaged where lines are sampled more finely than these fits need.
    """

    def __init__(
        self, data: Data, form: Array, angles: Array, wavelengths: tuple[float, float | None], expected: Array,
        tuning: RefinementTuning = REFINEMENT_TUNING,
    ) -> None:  # fmt: skip
        self.form, self.angles, self.wavelengths, self.expected = form, angles, wavelengths, expected
        step = float(np.median(np.diff(data.x)))
        self.width = typical_width(data.x, data.y, data.variance, step, PEAK_TUNING)
        self.data, self.coarse = data, data.averaged(int(self.width / step / tuning.points_per_width))

    def run(self, displaced: bool) -> tuple[Problem, State, bool]:
        """The last problem, its solution, and whether it converged."""
        late = _EARLY | _LATER | ({"ratio"} if self.wavelengths[1] is not None else set())
        final = late | {"drift"} | ({"displacement"} if displaced else set())
        every = len(self.form)
        counts = [n for n in self._counts() if n < every and len(self._range(n, self.coarse).x) > n + 40]
        problem = self._problem([*counts, every][0], _EARLY)
        state, converged = problem.evaluate(self.expected), False
        first = [problem.minimise(start, 8)[0] for start in self._starts(problem)]
        begun = [(each, problem) for each in _distinct(first)]
        for count in [*counts[1:], every]:
            last = count == every
            ends = []
            for before, old in begun:
                problem = self._problem(count, final if last else late, old.excess(before))
                ends.append((*problem.minimise(problem.evaluate(before.theta), 25 if last else 8), problem))
            state, converged, problem = min(ends, key=lambda end: end[0].cost)
            begun = [(state, problem)]
        if self.data.counted or self.coarse is not self.data:
            problem = self._on_all_points(problem, state, final)
            state, converged = problem.minimise(problem.evaluate(state.theta), 25)
        return problem, state, converged

    def _on_all_points(self, problem: Problem, state: State, free: frozenset[str]) -> Problem:
        """The problem of all points, with variances by the fitted curve if they are counts."""
        data, excess, every = self.data, problem.excess(state), len(self.form)
        if self.coarse is not data:
            problem = self._problem(every, free, excess, data)
            state = problem.evaluate(state.theta)
        if data.counted:
            problem = self._problem(every, free, excess, data._replace(variance=np.maximum(state.calculated, 1.0)))
        return problem

    @property
    def _metric(self) -> int:
        """Free elements of the metric."""
        return int(self.form.shape[1])

    def _counts(self) -> list[int]:
        """Reflections of each range: as far as a cell with an error of 0.3 % leaves lines near their positions."""
        ranges = ((30, 35.0), (70, 55.0), (140, 75.0))  # reflections, and degrees
        return sorted({max(2 * self._metric + 3, min(n, int((self.angles < end).sum()))) for n, end in ranges})

    def _range(self, count: int, data: Data) -> Data:
        """The points of the first reflections."""
        return data if count == len(self.form) else data.before(self.angles[count - 1] - EDGE)

    def _problem(self, count: int, free: frozenset[str], excess: float = 1.0, data: Data | None = None) -> Problem:
        """The problem of the first reflections, by default with averaged points."""
        names = np.array(["metric"] * self._metric + [*Shifts._fields, *Shape._fields])
        metric_spread = np.inf if count == len(self.form) else _METRIC_SPREAD
        spread = np.array([*[metric_spread] * self._metric, *_SHIFTS, *_SPREAD]) / math.sqrt(excess)
        chosen = np.array([name in free for name in names])
        data = self._range(count, self.coarse if data is None else data)
        return Problem(data, self.form[:count], self.wavelengths, self.expected, spread, chosen)

    def _starts(self, problem: Problem) -> list[State]:
        """For several zero shifts, the best of several widths; the best of these."""

        def start(shift: float, width: float) -> State:
            theta = self.expected.copy()
            theta[self._metric] += shift
            theta[problem.first_shape] = math.log(width)
            return problem.evaluate(theta)

        shifts, widths = (0.0, -0.04, 0.04, -0.08, 0.08), (self.width, 2 * self.width)
        best = [min((start(shift, width) for width in widths), key=lambda state: state.cost) for shift in shifts]
        return sorted(best, key=lambda state: state.cost)[:_TRIALS]


def _distinct(states: Sequence[State]) -> list[State]:
    """The states by ascending cost, without those whose lines are all where another one has them."""
    distinct: list[State] = []
    for state in sorted(states, key=lambda state: state.cost):
        moves = (np.abs(state.positions - other.positions) / other.lines.width for other in distinct)
        if all(float(move.max()) > _SAME_PLACE for move in moves):
            distinct.append(state)
    return distinct
