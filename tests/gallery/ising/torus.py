"""Exact partition function of Ising spins on a torus: four products over fermion momenta (Kaufman 1949).

A skewed boundary changes the momenta, an antiperiodic one the signs of the products. At low temperatures the result for
an antiperiodic lattice is a small difference of large numbers, so that many digits are needed.
"""

import itertools
from collections import Counter

import mpmath as mp

from vitreous.gallery.ising.simulate import Lattice

_DIGITS = 120


def log_z(lattice: Lattice, beta: float | mp.mpf) -> mp.mpf:
    """ln Z at the inverse temperature `beta`; antiferromagnets must have a size on which a checkerboard fits."""
    with mp.workdps(_DIGITS):
        k = mp.mpf(beta)
        square, sine = mp.cosh(2 * k) ** 2, mp.sinh(2 * k)
        count = lattice.size**2
        total = mp.mpf(0)
        for kind in itertools.product((0, 1), repeat=2):
            odd = (1, 1) if lattice.boundary == "antiperiodic" else (0, 0)
            product = mp.mpf(1)
            for (a, b), times in _momenta(lattice, *kind).items():
                if a == b == 0:
                    product *= (1 - sine) ** times
                else:
                    product *= (square - sine * (mp.cospi(mp.mpf(a) / count) + mp.cospi(mp.mpf(b) / count))) ** (
                        mp.mpf(times) / 2
                    )
            total += -product if kind == odd else product
        return mp.log(total / 2) + count * mp.log(2)


def _momenta(lattice: Lattice, across: int, down: int) -> Counter[tuple[int, int]]:
    """How often each pair of momenta occurs, in units of π / size²; `across` and `down` select half-integer momenta."""
    size, whole = lattice.size, 2 * lattice.size**2
    counts: Counter[tuple[int, int]] = Counter()
    for m, n in itertools.product(range(size), repeat=2):
        b = 2 * m + down
        a = (2 * n + across) * size + (b if lattice.boundary == "skewed" else 0)
        pair = (min(k % whole, -k % whole) for k in (a, b * size))
        counts[next(pair), next(pair)] += 1
    return counts


def mean_energy(lattice: Lattice, temperature: float) -> float:
    """⟨E⟩ = -∂ ln Z / ∂β, in |J|."""
    with mp.workdps(_DIGITS):
        beta, step = 1 / mp.mpf(temperature), mp.mpf(10) ** -20
        return float((log_z(lattice, beta - step) - log_z(lattice, beta + step)) / (2 * step))
