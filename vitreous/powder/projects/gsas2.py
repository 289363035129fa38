"""GSAS-II: instrument parameters `.instprm`, a CIF for each phase, the data `.xye`, and a script that fits them.

rietx writes the instrument parameters and the CIFs. The script uses GSASIIscriptable and makes the project `.gpx`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vitreous.core.extras import load_extra
from vitreous.powder.cell import NAMES
from vitreous.powder.projects.numbers import data_columns, decimal
from vitreous.powder.projects.start import RefinementStart

_RADIUS = 200.0  # mm, the default of GSAS-II: only ratios to it matter
_PHASES = {"_phase.cif": "", "_second.cif": "_second"}  # ends of the files and of the names of the phases
_POLARISATION = {"bragg_brentano": 0.5, "debye_scherrer": 0.99}  # without effect on a Le Bail fit

_SCRIPT = '''"""{name}: Le Bail fit in GSAS-II, start written by vitreous; run it with the Python of GSAS-II."""

try:
    from GSASII import GSASIIscriptable as G2sc
except ImportError:
    import G2script as G2sc

project = G2sc.G2Project(newgpx="{name}.gpx")
histogram = project.add_powder_histogram("{name}.xye", "{name}.instprm")
phases = [
    project.add_phase(file, phasename=name, histograms=[histogram], fmthint="CIF")
    for file, name in {phases}
]

histogram.set_refinements({{"Limits": [{low}, {high}]}})
{excluded}coefficients = {coefficients}
histogram.set_refinements(
    {{"Background": {{"type": "chebyschev-1", "no. coeffs": len(coefficients), "coeffs": coefficients}}}}
)
# Shifts of the lines: zero in degrees; displacements in micrometres at a radius of {radius} mm, which are not refined.
histogram.data["Instrument Parameters"][0]["Zero"][1] = {zero}
sample = histogram.data["Sample Parameters"]
sample["Type"], sample["Gonio. radius"] = "{geometry}", {radius}
{displacements}
sample["Scale"][1] = False
for phase in phases:  # no broadening beyond that of the instrument parameters
    phase.setSampleProfile(0, "size", "isotropic", 10.0)
    phase.setSampleProfile(0, "microstrain", "isotropic", 0.0)

project.set_Controls("cycles", 5)
project.do_refinements([{{}}])  # makes the list of reflections
for phase in phases:
    phase.set_refinements({{"LeBail": True}})
project.do_refinements(
    [
        {{"set": {{"Background": {{"refine": True}}}}}},
        {{"set": {{"Cell": True, "Instrument Parameters": ["Zero"]}}}},
        {{"set": {{"Instrument Parameters": ["U", "V", "W", "X", "Y", "SH/L"]}}}},
        {{}},
    ]
)
print("Rwp", histogram.get_wR(), "%, cells", [phase.get_cell() for phase in phases])
'''


def gsas2_files(starts: Sequence[RefinementStart], name: str) -> dict[str, str]:
    """Instrument parameters, phases, data and script, by the end of their names; the first phase has the instrument."""
    rietx = load_extra("rietx", "refine")
    instrument = load_extra("rietx.io.instrument_profile", "refine")
    projects = load_extra("rietx.io.projects.gsas2", "refine")
    first, phases = starts[0], dict(zip(_PHASES, starts, strict=False))
    return {
        ".instprm": str(instrument.from_instrument_gsas2(_instrument(rietx, first))),
        **{
            end: str(projects.from_structure(_structure(rietx, each, name + _PHASES[end])))
            for end, each in phases.items()
        },
        ".xye": data_columns(first),
        "_gsas2.py": _script(first, name, [(name + end, name + _PHASES[end]) for end in phases]),
    }


def _geometry(start: RefinementStart) -> str:
    """A doublet is of a laboratory diffractometer, which usually has a flat plate; a single line of a synchrotron."""
    return "debye_scherrer" if start.wavelength2 is None else "bragg_brentano"


def _instrument(rietx: Any, start: RefinementStart) -> Any:
    schema, kind, shape = load_extra("rietx.schemas.instrument", "refine"), _geometry(start), start.shape
    first = rietx.Parameter(value=start.wavelength)
    lines = [schema.EmissionLine(wavelength=first)]
    if start.wavelength2 is not None:
        second, weight = (rietx.Parameter(value=value) for value in (start.wavelength2, start.ratio))
        lines.append(schema.EmissionLine(wavelength=second, weight=weight))
    source = schema.Source(lines=lines, polarization=rietx.Parameter(value=_POLARISATION[kind]))
    if start.neutrons:
        source = schema.NeutronSource(wavelength=first)
    geometry = schema.Geometry(kind=kind, goniometer_radius_mm=_RADIUS)
    instrument = rietx.Instrument(source=source, geometry=geometry)
    widths = {"u": shape.u, "v": shape.v, "w": shape.w, "x": shape.size, "y": shape.strain}
    for name, value in widths.items():
        getattr(instrument.profile, name).value = value
    instrument.geometry.axial_sl.value = instrument.geometry.axial_hl.value = shape.axial
    instrument.zero_shift.value = start.mean_shift
    return instrument


def _structure(rietx: Any, start: RefinementStart, name: str) -> Any:
    """The phase with one atom that stands for all, because GSAS-II imports no phase without any."""
    cell = rietx.Cell(**{each: rietx.Parameter(value=value) for each, value in zip(NAMES, start.cell, strict=True)})
    origin = {axis: rietx.Parameter(value=0.0) for axis in "xyz"}
    atom = rietx.Atom(label="C1", species="C", **origin)
    return rietx.Structure(phases=[rietx.Phase(name=name, space_group=start.group.name, cell=cell, atoms=[atom])])


def _script(start: RefinementStart, name: str, phases: Sequence[tuple[str, str]]) -> str:
    low, high = start.limits
    inside = [each for each in start.excluded if low < each[0] and each[1] < high]
    ranges = ", ".join(f"[{decimal(first)}, {decimal(last)}]" for first, last in inside)
    zero, displacements = _displacements(start)
    return _SCRIPT.format(
        name=name,
        phases="[" + ", ".join(f'("{file}", "{phase}")' for file, phase in phases) + "]",
        low=decimal(low),
        high=decimal(high),
        excluded=f'histogram.data["Limits"][2:] = [{ranges}]  # excluded\n' * bool(inside),
        coefficients="[" + ", ".join(map(decimal, start.chebyshev())) + "]",
        zero=decimal(zero),
        radius=_RADIUS,
        geometry={"bragg_brentano": "Bragg-Brentano", "debye_scherrer": "Debye-Scherrer"}[_geometry(start)],
        displacements="\n".join(f'sample["{key}"][0] = {decimal(value)}' for key, value in displacements.items()),
    )


def _displacements(start: RefinementStart) -> tuple[float, dict[str, float]]:
    """Zero in degrees, and the shifts of the sample in GSAS-II's units, which are subtracted from 2θ (GetReflPos).

    Δ2θ = -c (4 Shift cos θ + 100 Transparency sin 2θ) for a flat plate and -c (DisplaceX cos 2θ + DisplaceY sin 2θ) for
    a capillary, with c = 0.09 / (π radius).
    """
    factor = 0.09 / (math.pi * _RADIUS)
    if _geometry(start) == "bragg_brentano":
        zero, displacement, transparency = start.shifts
        return zero, {"Shift": -displacement / (4 * factor), "Transparency": -transparency / (100 * factor)}
    angle = np.radians(start.positions)
    zero, cosine, sine = start.projected_shifts(np.column_stack([np.ones_like(angle), np.cos(angle), np.sin(angle)]))
    return float(zero), {"DisplaceX": -float(cosine) / factor, "DisplaceY": -float(sine) / factor}
