"""FullProf: a control file `.pcr` for a Le Bail fit (profile matching, Jbt 2) and its data, instrument type 10.

Line structure after the appendix "Detailed description of input files" of the FullProf manual (single pattern, COMM).
Widths are those of Npr 7, where X is the factor of tan θ and Y that of 1/cos θ.
"""

from vitreous.powder.projects.numbers import data_columns, decimal
from vitreous.powder.projects.start import RefinementStart
from vitreous.powder.refinement.profile import Array

_CYCLES = 20
_REACH = 30  # FWHM: range of a line
_PROFILE = 7  # Npr: Thompson-Cox-Hastings with axial divergence
_SHARED = {  # parameters of a cell that are one: numbers of the refined ones in order, None for a fixed one
    "triclinic": (0, 1, 2, 3, 4, 5),
    "monoclinic": (0, 1, 2, None, 3, None),
    "orthorhombic": (0, 1, 2, None, None, None),
    "tetragonal": (0, 0, 1, None, None, None),
    **dict.fromkeys(("trigonal", "hexagonal"), (0, 0, 1, None, None, 0)),
    "cubic": (0, 0, 0, None, None, None),
}


class _Codes:
    """Code words of refined parameters: ten times the number of the parameter, plus its factor 1."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, number: int) -> list[str]:
        """Code words of the next parameters."""
        first, self.count = self.count, self.count + number
        return [f"{10 * (first + k + 1) + 1:.2f}" for k in range(number)]


def fullprof_files(start: RefinementStart, name: str) -> dict[str, str]:
    """Control file and data, by suffix."""
    header = f"XYDATA\nINTER 1.0 1.0 0 0.0\nTITLE {name}\n! 2theta, intensity, standard error\n!\n!\n"
    return {".pcr": _control_file(start, name), ".dat": header + data_columns(start)}


def _control_file(start: RefinementStart, name: str) -> str:
    codes = _Codes()
    angles, background = start.background_points()
    lines = [
        f"COMM {name}: Le Bail fit, start written by vitreous",
        f"! Files => DAT-file: {name}.dat,  PCR-file: {name}",
        *_general(start, len(angles)),
        "!",
        "!2Theta/TOF/E(Kev)   Background  for Pattern#  1",
        *_background(angles, background, codes),
        *(["! Excluded regions (LowT  HighT) for Pattern#  1"] * bool(start.excluded)),
        *(f"{decimal(low)} {decimal(high)}" for low, high in start.excluded),
    ]
    zero, phase = _zero(start, codes), _phase(start, name, codes)
    last = [
        "!  2Th1/TOF1    2Th2/TOF2  Pattern # 1",
        f"{decimal(start.limits[0])} {decimal(start.limits[1])} 1",
    ]
    return "\n".join([*lines, "!", f"{codes.count}    !Number of refined parameters", *zero, *phase, *last]) + "\n"


def _general(start: RefinementStart, background_count: int) -> list[str]:
    """Flags, wavelengths and range."""
    second = start.wavelength if start.wavelength2 is None else start.wavelength2
    waves = (start.wavelength, second, start.ratio, sum(start.limits) / 2)
    first, last = float(start.two_theta[0]), float(start.two_theta[-1])
    step = (last - first) / max(1, len(start.two_theta) - 1)
    return [
        "!Job Npr Nph Nba Nex Nsc Nor Dum Iwg Ilo Ias Res Ste Nre Cry Uni Cor Opt Aut",
        f"{int(start.neutrons)} {_PROFILE} 1 {background_count} {len(start.excluded)} 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
        "!",
        "!Ipr Ppl Ioc Mat Pcr Ls1 Ls2 Ls3 NLI Prf Ins Rpa Sym Hkl Fou Sho Ana",
        "0 0 1 0 1 0 4 0 0 3 10 0 0 0 0 0 0",
        "!",
        "! lambda1 Lambda2    Ratio    Bkpos    Wdt    Cthm     muR   AsyLim   Rpolarz  2nd-muR -> Patt# 1",
        " ".join(map(decimal, waves)) + f" {_REACH}.0 1.0 0.0 180.0 0.0 0.0",
        "!",
        "!NCY  Eps  R_at  R_an  R_pr  R_gl     Thmin       Step       Thmax    PSD    Sent0",
        f"{_CYCLES} 0.05 1.0 1.0 1.0 1.0 {decimal(first)} {decimal(step)} {decimal(last)} 0.0 0.0",
    ]


def _background(angles: Array, background: Array, codes: _Codes) -> list[str]:
    points = zip(angles, background, codes.take(len(angles)), strict=True)
    return [f"{decimal(angle)} {decimal(value)} {code}" for angle, value, code in points]


def _zero(start: RefinementStart, codes: _Codes) -> list[str]:
    """Zero, SyCos and SySin: shifts that are constant, with cos θ and with sin 2θ, all added to the calculated 2θ."""
    (code,) = codes.take(1)
    zero, cosine, sine = map(decimal, start.shifts)
    return [
        "!",
        "!  Zero    Code    SyCos    Code   SySin    Code  Lambda     Code MORE ->Patt# 1",
        f"{zero} {code} {cosine} 0.0 {sine} 0.0 0.0 0.0 0",
    ]


def _phase(start: RefinementStart, name: str, codes: _Codes) -> list[str]:
    shape, shared = start.shape, _SHARED[start.system]
    cell_codes = codes.take(1 + max(number for number in shared if number is not None))
    widths = (shape.u, shape.v, shape.w, shape.strain, shape.size)
    axial = decimal(shape.axial)
    return [
        "!-------------------------------------------------------------------------------",
        "!  Data for PHASE number:   1  ==> Current R_Bragg for Pattern#  1:     0.0",
        "!-------------------------------------------------------------------------------",
        name,
        "!",
        "!Nat Dis Ang Pr1 Pr2 Pr3 Jbt Irf Isy Str Furth       ATZ    Nvk Npr More",
        f"0 0 0 0.0 0.0 1.0 2 0 0 0 0 0.0 0 {_PROFILE} 0",
        "!",
        f"{start.group.name}                  <--Space group symbol",
        "!-------> Profile Parameters for Pattern #  1",
        "!  Scale        Shape1      Bov      Str1      Str2      Str3   Strain-Model",
        "1.0 0.0 0.0 0.0 0.0 0.0 0",
        "0.0 0.0 0.0 0.0 0.0 0.0",
        "!       U         V          W           X          Y        GauSiz   LorSiz Size-Model",
        " ".join(map(decimal, widths)) + " 0.0 0.0 0",
        " ".join(codes.take(len(widths))) + " 0.0 0.0",
        "!     a          b         c        alpha      beta       gamma      #Cell Info",
        " ".join(map(decimal, start.cell)),
        " ".join("0.0" if number is None else cell_codes[number] for number in shared),
        "!  Pref1    Pref2      Asy1     Asy2     Asy3     Asy4      S_L      D_L",
        f"0.0 0.0 0.0 0.0 0.0 0.0 {axial} {axial}",
        "0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0",
    ]
