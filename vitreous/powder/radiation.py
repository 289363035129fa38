"""Wavelengths of X-rays and neutrons: the lines of the usual anodes, and the radiation of one measurement."""

from dataclasses import dataclass, replace

from vitreous.core.errors import InputError, check_choice

# Kα1 and Kα2 in ångström: International Tables for Crystallography, volume C (2004), section 4.2.2, direct measurements
# (Deslattes, Kessler, Indelicato & Lindroth).
ANODES: dict[str, tuple[float, float]] = {
    "Cr": (2.289726, 2.293651),
    "Fe": (1.936041, 1.939973),
    "Co": (1.788996, 1.792835),
    "Cu": (1.5405929, 1.5444274),
    "Ga": (1.340127, 1.344026),
    "Mo": (0.70931715, 0.713607),
    "Ag": (0.55942178, 0.5638131),
    "W": (0.20901314, 0.21383304),
}
CU_KALPHA1, CU_KALPHA2 = 1.540598, 1.544426  # as many instruments write them, 3 ppm from `ANODES`; for the simulator
WAVELENGTH_RANGE = (0.1, 10.0)  # ångström, of a powder pattern
KEV_ANGSTROM = 12.398420  # energy of a photon times its wavelength
_ELECTRONS = (0.0085, 0.049)  # ångström, of 1 MV to 59 kV
_STATISTICAL_RATIO = 0.5  # Kα2 to Kα1: two electrons in 2p1/2, four in 2p3/2
_LARGEST_SPLITTING = 1.05  # Kα2 over Kα1; 1.023 for W
_ANODE_TOLERANCE = 1e-3  # relative
X_RAYS, NEUTRONS = "X-rays", "neutrons"
PROBES = {X_RAYS: "x-ray", NEUTRONS: "neutron"}
"""Kinds of radiation, and their names in CIF (`_diffrn_radiation_probe`)."""


@dataclass(frozen=True)
class Radiation:
    """Wavelength in ångström (Kα1 of a doublet), that of Kα2, the intensity of Kα2 relative to Kα1, and the kind."""

    wavelength: float | None = None
    wavelength2: float | None = None
    ratio: float = 0.0
    name: str | None = None  # `X-rays` or `neutrons`, if that is known


UNKNOWN = Radiation()


def radiation_from_file(first: float | None, second: float | None = None, ratio: float | None = None) -> Radiation:
    """The radiation that a file states. Values out of range, such as 0, mean unknown and are dropped."""
    low, high = WAVELENGTH_RANGE
    if first is None or not low <= first <= high:
        return Radiation()
    ratio = _STATISTICAL_RATIO if ratio is None else ratio
    if second is None or not 1 < second / first < _LARGEST_SPLITTING or not 0 < ratio <= 1:
        return Radiation(first)
    return Radiation(first, second, ratio)


def radiation_from_user(wavelength: float | None, anode: str | None, neutrons: bool = False) -> Radiation:
    """The radiation that a user states by a wavelength in ångström or by an anode; raises `InputError` if invalid."""
    if neutrons and anode is not None:
        raise InputError(f"found both neutrons and anode {anode}, expected neutrons with a wavelength")
    if wavelength is not None and anode is not None:
        raise InputError(f"found both wavelength {wavelength:g} and anode {anode}, expected one of them")
    if anode is not None:
        check_choice("anode", anode.strip().capitalize(), ANODES)
        return replace(radiation_from_file(*ANODES[anode.strip().capitalize()]), name=X_RAYS)
    low, high = WAVELENGTH_RANGE
    if wavelength is not None and not low <= wavelength <= high:
        units = (unit for unit, scale in (("nm", 10), ("pm", 0.01)) if low <= wavelength * scale <= high)
        hint = next((f"; is that in {unit}?" for unit in units), "")
        if _ELECTRONS[0] <= wavelength <= _ELECTRONS[1]:
            hint = "; for electrons, give the rings as a list of d with any wavelength in this range"
        raise InputError(f"wavelength: found {wavelength:g}, expected {low:g} to {high:g} ångström{hint}")
    return Radiation(wavelength, name=NEUTRONS if neutrons else None)


def stated_wavelength(wavelength: float | None, energy: float | None, neutrons: bool = False) -> float | None:
    """The wavelength in ångström that a user states, or that of an energy of photons in keV; None for neither."""
    if energy is None:
        return wavelength
    if neutrons:
        raise InputError(f"found energy {energy:g} of photons and neutrons, expected a wavelength in ångström")
    if wavelength is not None:
        raise InputError(f"found both energy {energy:g} and wavelength {wavelength:g}, expected one of them")
    return wavelength_of_energy(energy)


def wavelength_of_energy(energy: float) -> float:
    """The wavelength in ångström of photons of an energy in keV; raises `InputError` if it is out of range."""
    low, high = (KEV_ANGSTROM / wavelength for wavelength in reversed(WAVELENGTH_RANGE))
    if not low <= energy <= high:
        raise InputError(f"energy: found {energy:g}, expected {low:.3g} to {high:.3g} keV")
    return KEV_ANGSTROM / energy


def doublet_of(wavelength: float) -> tuple[float, float] | None:
    """Kα1 and Kα2 in ångström of the anode whose Kα1 this wavelength is; None if it is no anode's."""
    return next((pair for pair in ANODES.values() if abs(pair[0] / wavelength - 1) < _ANODE_TOLERANCE), None)
