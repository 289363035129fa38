"""Linear least squares in which some unknowns must not be negative."""

import numpy as np

from vitreous.powder.refinement.profile import Array, Mask

_RIDGE = 1e-9  # relative: separates reflections at the same position


def add_ridge(gram: Array) -> Array:
    """The matrix with a slightly larger diagonal."""
    return gram + np.diag(_RIDGE * np.diag(gram) + 1e-300)


def solve_nonnegative(gram: Array, right: Array, strict: Mask, present: Mask) -> tuple[Array, Mask]:
    """Block principal pivoting (Kim & Park 2011).

    Args:
        gram: normal matrix `(n, n)`.
        right: right-hand side `(n,)`.
        strict: which unknowns must be ≥ 0.
        present: first guess of those that are not zero.

    Returns:
        The solution, and which unknowns are not held at zero.
    """
    size = np.sqrt(np.maximum(np.diag(gram), 1e-30))
    gram, right = add_ridge(gram / size / size[:, None]), right / size
    present = present | ~strict
    fewest, patience = len(right) + 1, 3
    solution = np.zeros_like(right)
    for _ in range(60):
        solution = np.zeros_like(right)
        inside = np.flatnonzero(present)
        solution[inside] = np.linalg.solve(gram[np.ix_(inside, inside)], right[inside])
        pull = gram @ solution - right
        wrong = strict & np.where(present, solution < 0, pull < -1e-10)
        count = int(wrong.sum())
        if count == 0:
            break
        if count < fewest:
            fewest, patience = count, 3
        elif patience > 0:
            patience -= 1
        else:  # exchanging one at a time cannot cycle
            wrong &= np.arange(len(wrong)) == np.flatnonzero(wrong)[-1]
        present = present ^ wrong
    return np.maximum(solution, np.where(strict, 0, -np.inf)) / size, present
