"""Levenberg-Marquardt: the nonlinear least-squares loop of every powder fit (Levenberg 1944, Marquardt 1963).

The loop knows nothing of the model. A caller linearises its problem and tries damped steps; see `minimise`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

State = TypeVar("State")


class Trial(NamedTuple, Generic[State]):
    """The result of one damped step."""

    state: State  # after the step; any state if the step was rejected
    accepted: bool  # whether the step lowered the cost
    gain: float  # decrease of the cost
    negligible: bool = False  # of a rejected step, whether the predicted decrease is too small to matter


@dataclass(frozen=True)
class Damping:
    """How the damping changes from step to step."""

    start: float = 1e-3  # of the first step, relative to the diagonal of the normal matrix
    decrease: float = 10.0  # divisor after an accepted step
    increase: float = 10.0  # factor after a rejected step
    least: float = 0.0  # lower bound after an accepted step
    least_rejected: float = 0.0  # lower bound after a rejected step


_DEFAULT_DAMPING = Damping()


def minimise(
    state: State,
    linearise: Callable[[State], Callable[[float], Trial[State]]],
    settled: Callable[[State, float], bool],
    *,
    steps: int,
    retries: int | None = None,
    damping: Damping = _DEFAULT_DAMPING,
) -> tuple[State, bool]:
    """Take damped steps until the cost settles; returns the last state and whether it settled.

    Args:
        linearise: builds the normal equations at a state and returns a function that tries one step at a damping.
        settled: whether an accepted step to this state with this gain is small enough to stop.
        retries: rejected steps in a row after which the loop stops; without it, a rejected step counts as a step.
    """
    amount, taken, rejected = damping.start, 0, 0
    attempt = linearise(state)
    while taken < steps:
        trial = attempt(amount)
        if trial.accepted:
            state, rejected = trial.state, 0
            taken += 1
            amount = max(amount / damping.decrease, damping.least)
            if settled(state, trial.gain):
                return state, True
            if taken < steps:
                attempt = linearise(state)
            continue
        amount = max(amount * damping.increase, damping.least_rejected)
        rejected += 1
        if retries is None:
            taken += 1
        elif rejected == retries:
            return state, trial.negligible
    return state, False
