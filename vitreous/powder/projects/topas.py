"""TOPAS: an input file `.inp` for a Pawley fit (hkl_Is) and its data `.xye`.

Keywords after the TOPAS Technical Reference. The widths are equations, so that no macro's order of parameters matters.
"""

from vitreous.powder.projects.numbers import data_columns, decimal
from vitreous.powder.projects.start import RefinementStart
from vitreous.powder.projects.symmetry import ChosenGroup

_RADIUS = 217.5  # mm: only ratios to it matter
_CELL = ("a", "b", "c", "al", "be", "ga")
_TIED = {  # free parameters of a cell, and those that equal a
    "triclinic": (_CELL, ()),
    "monoclinic": (("a", "b", "c", "be"), ()),
    "orthorhombic": (("a", "b", "c"), ()),
    **dict.fromkeys(("tetragonal", "trigonal", "hexagonal"), (("a", "c"), ("b",))),
    "cubic": (("a",), ("b", "c")),
}
_ONE_ORIGIN = (50, 68)  # space groups in whose settings TOPAS knows no choice of the origin
_GAUSS = "Sqrt(Max(width_u*Tan(Th)^2 + width_v*Tan(Th) + width_w, 1e-8))"
_LORENTZ = "(width_size/Cos(Th) + width_strain*Tan(Th))"
_WIDTH = (
    f"({_GAUSS}^5 + 2.69269*{_GAUSS}^4*{_LORENTZ} + 2.42843*{_GAUSS}^3*{_LORENTZ}^2"
    f" + 4.47163*{_GAUSS}^2*{_LORENTZ}^3 + 0.07842*{_GAUSS}*{_LORENTZ}^4 + {_LORENTZ}^5)^0.2"
)
_RATIO = f"({_LORENTZ}/{_WIDTH})"


def topas_files(start: RefinementStart, name: str) -> dict[str, str]:
    """Input file and data, by suffix."""
    lines = [
        f"' {name}: Pawley fit, start written by vitreous",
        "' lebail 1 in the hkl_Is block makes it a Le Bail fit",
        "r_wp 0 r_exp 0 r_p 0 gof 0",
        "iters 100000",
        "do_errors",
        *_instrument(start, name),
        *_phase(start, name),
    ]
    return {".inp": "\n".join(lines) + "\n", ".xye": data_columns(start)}


def _instrument(start: RefinementStart, name: str) -> list[str]:
    """Data, range, background, wavelengths, shifts of the lines and axial divergence."""
    low, high = map(decimal, start.limits)
    inside = [each for each in start.excluded if start.limits[0] < each[0] and each[1] < start.limits[1]]
    emission = [(1.0, start.wavelength)]
    if start.wavelength2 is not None:
        emission.append((start.ratio, start.wavelength2))
    names = ("line_zero", "line_displacement", "line_transparency")
    return [
        f'xdd "{name}.xye" xye_format',
        f"  start_X {low} finish_X {high}",
        *(f"  exclude {decimal(first)} {decimal(last)}" for first, last in inside),
        f"  bkg @ {' '.join(map(decimal, start.chebyshev()))}",
        f"  Rp {_RADIUS} Rs {_RADIUS}",
        "  lam ymin_on_ymax 0.000001",
        *(f"    la {decimal(area)} lo {decimal(wave)} lh 0.000001" for area, wave in emission),
        *(["  neutron_data"] * start.neutrons),
        "  ' shifts of all lines in degrees: constant, with cos(Th) and with sin(2 Th); ! fixes a parameter",
        *(
            f"  prm {'!' * (k > 0)}{each} {decimal(value)}"
            for k, (each, value) in enumerate(zip(names, start.shifts, strict=True))
        ),
        "  th2_offset = line_zero + line_displacement*Cos(Th) + line_transparency*Sin(2*Th);",
        "  ' axial divergence: sample and slit lengths in mm",
        f"  prm axial_length {decimal(2 * _RADIUS * start.shape.axial)} min 0",
        "  Finger_et_al(=axial_length;, =axial_length;)",
    ]


def _space_group(group: ChosenGroup) -> str:
    """The symbol as TOPAS knows it, with S for the first choice of the origin."""
    name = group.extended_name
    if not name.endswith(":1"):
        return name
    return name[:-2] if group.number in _ONE_ORIGIN else name[:-2].replace(" ", "") + "S"


def _phase(start: RefinementStart, name: str) -> list[str]:
    shape, (free, tied) = start.shape, _TIED[start.system]
    names = ("u", "v", "w", "size", "strain")
    cell = []
    for parameter, value in zip(_CELL, start.cell, strict=True):
        number = "= Get(a);" if parameter in tied else f"{'@ ' * (parameter in free)}{decimal(value)}"
        cell.append(f"    {parameter} {number}")
    return [
        "  hkl_Is",
        f'    phase_name "{name}"',
        f'    space_group "{_space_group(start.group)}"',
        *cell,
        "    ' Thompson-Cox-Hastings pseudo-Voigt; widths in degrees",
        *(f"    prm width_{each} {decimal(getattr(shape, each))}" for each in names),
        "    peak_type pv",
        f"    pv_fwhm = {_WIDTH};",
        f"    pv_lor = 1.36603*{_RATIO} - 0.47719*{_RATIO}^2 + 0.11116*{_RATIO}^3;",
    ]
