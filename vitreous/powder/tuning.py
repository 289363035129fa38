"""Tuned constants of powder indexing, each set with what it was tuned on; a test or a user can vary them.

index(two_theta, intensity, wavelength=1.5406, tuning=SearchTuning(sure_evidence=2.5))
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PeakTuning:
    """Constants of the peak search.

    Set by hand on simulated laboratory patterns of every crystal system (`vitreous.powder.sim`) and the seven measured
    patterns of `tests/powder/peaks/test_find.py`. Heights and areas are relative to the strongest peak, distances in
    full widths at half maximum (FWHM), unless another unit is stated.
    """

    detection: float = 4.5  # signal-to-noise ratio of a candidate in the matched filter
    edge: float = 1.0  # distance from the ends of the pattern within which peaks are ignored
    widest: float = 1.2  # degrees: FWHM above which a maximum is amorphous
    spare: int = 8  # candidates that are fitted beyond the number of peaks requested
    significance: float = 5.0  # area over its standard error of a reported peak
    faintest: float = 0.003  # height of the weakest reported peak
    candidate_share: float = 0.3  # candidates need this share of `faintest` and of `tail`
    misfit: float = 0.03  # relative error of the profile: no pseudo-Voigt function describes a real peak better
    tail: float = 0.6  # peaks below this share of the Lorentzian tail of a stronger one belong to that tail
    shoulder: float = 1.1  # peaks this near to a stronger one are not reported if weaker than `shoulder_area`
    shoulder_area: float = 0.35  # area relative to the stronger peak
    weak: float = 0.01  # three successive peaks below this height are one broad maximum
    row_distance: float = 2.5  # largest distance between such peaks
    merge_distance: float = 0.6  # of two peaks nearer than this, one is dropped
    position_error: float = 0.25  # largest standard error of the position of a reported peak
    rounds: int = 3  # rounds of adding peaks found in the residual
    width_spread: float = 0.05  # standard deviation of the log widths of single peaks about the common width
    individual_width: float = 30.0  # height over noise from which a peak has a width of its own
    strong_divergence: float = 16.0  # 1e-4: an axial divergence that is tried beside the usual one
    strong_divergence_error: float = 8.0  # 1e-4: its standard deviation
    strong_divergence_gain: float = 0.1  # relative decrease of the cost for which it is taken
    axial_error: float = 0.6  # 1e-4: smallest error of the axial divergence, which shifts positions


PEAK_TUNING = PeakTuning()


@dataclass(frozen=True)
class RefinementTuning:
    """Constants of the refinement on the whole pattern.

    The sizes of the shifts and of the systematic errors were chosen on `benchmarks/refinement_pulls.py`: at least 90 %
    of the parameters are within three standard errors, also on measured patterns whose cell others have refined on the
    same pattern.
    """

    shift_spread: tuple[float, float, float] = (0.05, 0.05, 0.02)  # degrees: usual zero, displacement, transparency
    zero_rounds: int = 3  # in which the spread of an unusual zero shift grows to its size
    position_shares: tuple[float, ...] = (0.025, 0.05, 0.1)  # systematic errors of positions that are tried, in FWHM
    common_part: float = 0.5  # of the variance of systematic errors: common to lines at similar angles
    common_range: float = 15.0  # degrees of 2θ over which the common part changes
    points_per_width: int = 5  # of narrow lines, to which finer patterns are averaged for the first fits


REFINEMENT_TUNING = RefinementTuning()


@dataclass(frozen=True)
class TrialReflections:
    """Reflections and lines from which the cells of one crystal system are constructed."""

    simple: int  # reflections tried for a line, the simplest ones
    first_lines: int  # lines tried, those of lowest angle
    weights: tuple[float, ...]  # of the metric's free parameters in the order of simplicity; small for a long axis


@dataclass(frozen=True)
class TrialEffort:
    """How thoroughly trial cells are tried."""

    zero_shifts: tuple[float, ...]  # degrees
    more_lines: int  # lines tried beyond `TrialReflections.first_lines`
    cells: int  # trial cells kept, of each lattice other than triclinic
    zone_cells: int  # triclinic trial cells kept
    zone_angles: int  # angles tried for each pair of lines of a triclinic cell


Levels = tuple[tuple[float, float], ...]
"""Values of an unknown number, each with its prior probability."""


@dataclass(frozen=True)
class ErrorModel:
    """What is unknown about a list of lines; `merit.evidence` averages over all combinations.

    Set by hand from what measured lists show, before any benchmark was run with it: errors of positions are rarely
    better than stated and often several times worse, and up to 40 % of the lines may be foreign.
    """

    detection: Levels = ((0.95, 0.2), (0.85, 0.25), (0.7, 0.25), (0.5, 0.2), (0.3, 0.1))  # observed reflections
    weak_detection: Levels = ((0.5, 0.2), (0.2, 0.3), (0.08, 0.3), (0.03, 0.2))  # reflections of a superstructure
    foreign: Levels = ((0.3, 0.4), (1.5, 0.25), (6.0, 0.2), (18.0, 0.15))  # factors of the odds of foreign lines
    scale: Levels = ((0.7, 0.2), (1.4, 0.35), (2.5, 0.3), (5.0, 0.15))  # errors relative to the stated ones
    tail: tuple[float, float] = (0.05, 3.0)  # share of positions with larger errors, and how many times larger
    zero: Levels = ((0.03, 0.6), (0.12, 0.4))  # standard deviations of zero shifts, degrees


@dataclass(frozen=True)
class ComparisonTuning:
    """Constants of the comparison of lattices on the whole pattern, set by hand on about fifty simulated minerals."""

    candidates: int = 3  # lattices that are refined
    margin: float = 40.0  # evidence below the best lattice up to which others are refined
    reflections: int = 150  # largest number of reflections of a refinement
    misfit: float = 0.03  # relative error of the profile: no model describes a real line better
    segment: float = 2.0  # full widths at half maximum: parts of the pattern in which a foreign line counts once
    least_foreign: float = 0.003  # probability of a foreign line in a segment, beyond those that are left unexplained
    seen: float = 2.5  # standard errors of its area from which a reflection is seen
    reflection_cost: float = 1.0  # log-likelihood cost of a reflection that is seen
    absence_cost: float = 0.1  # log-likelihood cost of a reflection that is not
    switch: float = 3.0  # log-likelihood by which another lattice must be better
    left_lines: int = 1  # lines that another lattice may leave unexplained
    remaining_misfit: float = 0.5  # of the misfit of the first lattice, at most, under another one
    least_misfit: float = 0.04  # χ² - 1 of a fit below which there is nothing left to explain

    # Related lattices that are tried on the residual of a fit.
    related_rounds: int = 2  # of trying them
    related: int = 2  # superlattices that are refined
    related_distortions: int = 4  # distortions that are refined
    hopeless_chi2: float = 400.0  # χ² of a fit above which no distortion is tried
    related_chi2: float = 3.0  # χ² of the fit of one of them, at most: a poor profile says little about lattices
    largest_multiple: int = 6  # volume of a superlattice
    apart: float = 1.0  # full widths at half maximum: nearer reflections are one line
    clear_signal: float = 5.0  # signal-to-noise ratio of a line in the residual
    position_tolerance: float = 0.2  # full widths at half maximum within which a superlattice explains it
    least_covered: float = 0.01  # probability that a superlattice explains a line by chance, at least
    most_covered: float = 0.25  # share of the pattern that is near additional reflections, at most
    unexplained_cost: float = 1.5  # log-likelihood cost of a line that a superlattice leaves unexplained
    superlattice_cost: float = 3.0  # log-likelihood cost of twice the volume
    width_spread: float = 0.05  # of the logarithms of line widths, from which a distortion is possible
    points_per_width: int = 5  # of a line, at most, on which distortions are tried
    distortions: tuple[float, ...] = (0.0005, 0.0015, 0.004)  # relative changes of the reciprocal metric that are tried
    remaining_distorted: float = 0.2  # of the misfit, at most: a poor profile gains by any splitting
    distortion_gain: float = 0.1  # share of the misfit that one of them must remove without any refinement


COMPARISON_TUNING = ComparisonTuning()


@dataclass(frozen=True)
class SymmetryTuning:
    """Constants of the evidence of extinction symbols, set by hand on simulated minerals.

    `trust` calibrates the probability of the first symbol on 130 of them: expected calibration error 0.07.
    """

    misfit: float = 0.03  # relative error of the profile
    smooth: float = 0.2  # of the range of 1/d: over which the mean intensity is taken
    strengths: tuple[tuple[float, float], ...] = ((0.6, 1.3), (0.4, 0.15))  # weights of intensities, over the mean
    weakest_mean: float = 1e-4  # of the largest intensity
    overlap: float = 0.05  # correlation from which lines are treated together
    largest_block: int = 8  # lines that are treated together, if there are weaker overlaps to cut
    foreign: float = 0.01  # probability that an absent reflection carries the line of another phase
    trust: float = 0.3  # power of the likelihood: misfits of the profile look like intensity


SYMMETRY_TUNING = SymmetryTuning()


@dataclass(frozen=True)
class ProfileTuning:
    """Constants of what the raw profile says about the symmetry, set by hand on simulated minerals."""

    few_lines: int = 15  # fewer lines: the profile guides the choice of a cell
    trust: float = 0.5  # power of the model's probabilities beside those of the lines, which it sees, too


PROFILE_TUNING = ProfileTuning()


ERROR_MODEL = ErrorModel()
QUICK_ERROR_MODEL = ErrorModel(
    detection=((0.85, 0.5), (0.5, 0.5)), foreign=((1.0, 0.6), (8.0, 0.4)), scale=((1.0, 0.5), (2.5, 0.5))
)
"""For the choice among many trial cells."""


@dataclass(frozen=True)
class DoubtLimits:
    """Beyond which values `Solution.doubts` names a reason against a solution."""

    probability: float = 0.9  # above it, no reasons are shown
    unexplained_lines: float = 0.1  # share, weak lines count less
    unexplained_intensity: float = 0.05  # share
    misfit: float = 4.0  # Rwp over its expectation
    margin: float = 5.0  # evidence
    density: float = 2.5  # possible lines per observed line
    few_lines: int = 12


DOUBTS = DoubtLimits()


@dataclass(frozen=True)
class SearchTuning:
    """Constants of the search, its ranking and its hints.

    They were tuned on the first hundred random triclinic patterns, about a hundred minerals and the seven measured
    patterns of `benchmarks/index_table.py`. The weights of the probability were fitted by
    `tools/fit_index_probability.py`. Angles are in degrees of 2θ unless stated otherwise.
    """

    # Observed lines.
    usual_zero: float = 0.1  # standard deviation of zero shifts in least squares
    default_error: float = 0.01  # standard error of an angle if none is stated
    least_error: float = 0.002  # added in quadrature: systematic errors of instruments
    foreign_odds: float = 0.03  # odds that a line is foreign if intensities are unknown
    faint: float = 0.01  # of the strongest line: intensity at which a line is as likely foreign as not
    faint_power: float = 1.3  # how fast these odds rise for weaker peaks of a pattern,
    faint_power_of_lists: float = 0.65  # and for weaker lines of a list
    fewest_lines: int = 3  # fewer lines are refused
    deciding_lines: int = 20  # lines of the crystal that the search uses
    coarse_lines: int = 13  # lines of the crystal for the first refinement of candidates

    # Evidence of a cell.
    errors: ErrorModel = ERROR_MODEL
    quick_errors: ErrorModel = QUICK_ERROR_MODEL
    resolution: float = 0.7  # full widths at half maximum: closer reflections are observed as one line
    default_resolution: float = 0.05  # the same in degrees, if the width is not known
    parameter_cost: float = 5.0  # of a free parameter, in units of log-likelihood
    unexplained_errors: float = 4.0  # standard errors from the nearest reflection beyond which a line is unexplained

    # Trial cells. The last effort is for lists with many foreign lines and large shifts.
    efforts: tuple[TrialEffort, ...] = (
        TrialEffort((-0.06, -0.04, -0.02, 0.0, 0.02, 0.04, 0.06), 0, 500, 3000, 6),
        TrialEffort((-0.06, -0.04, -0.02, 0.0, 0.02, 0.04, 0.06), 0, 500, 12000, 12),
        TrialEffort(tuple(0.03 * step for step in range(-6, 7)), 3, 4000, 12000, 12),
    )

    # Factors of the odds of foreign lines of further searches, among strong lines; another phase has the weak ones.
    mixture_odds: tuple[float, ...] = (8.0, 34.0)

    # Trial cells from the first lines, for all systems but triclinic.
    cubic: TrialReflections = TrialReflections(24, 6, (1.0,))
    tetragonal: TrialReflections = TrialReflections(36, 5, (1.0, 0.2))
    hexagonal: TrialReflections = TrialReflections(36, 5, (1.0, 0.15))
    orthorhombic: TrialReflections = TrialReflections(20, 5, (1.0, 1.0, 1.0))
    monoclinic: TrialReflections = TrialReflections(14, 6, (1.0, 1.0, 1.0, 0.0))
    last_line: int = 14  # later lines tried with the lowest ones: with a short axis, the first lines lie in a plane
    scored_reflections: int = 40  # simplest reflections by which a trial cell is scored
    least_own: float = 0.6  # probability of belonging to the crystal of the lines that trial cells are built from
    lines_per_observed: tuple[float, float] = (0.6, 5.0)  # calculated lines of a trial cell per observed line
    volume: tuple[float, float] = (10.0, 15_000.0)  # Å³
    length: tuple[float, float] = (2.0, 45.0)  # Å

    # Triclinic trial cells by zones.
    zone_first: int = 10  # lines tried as a*, b* and c*
    zone_last: int = 20  # lines tried as the last of these, with two of the
    zone_lowest: int = 6  # lowest lines: with a short axis, the first lines lie in a plane
    zone_lines_per_observed: tuple[float, float] = (0.5, 6.0)

    # Proposals of the trained model.
    proposals: int = 3000  # lattices proposed if high symmetry leaves a doubt; 0 does without the model
    weakest: tuple[float, ...] = (0.0, 0.01, 0.03)  # the list is read without lines below these shares of the strongest
    snapped: float = 0.75  # probability that a proposed length is moved to the nearest line
    largest_zero: float = 0.3  # degrees, of a proposal

    # Refinement of candidates.
    simple_reflections: int = 150  # lowest reflections for the first refinement
    all_reflections: int = 500  # lowest reflections for the last refinement
    promising: int = 500  # candidates of a lattice that are refined on few lines
    refined: int = 60  # candidates of a lattice that are refined on all lines
    best: int = 5  # candidates of a lattice that are returned
    reach: float = 0.02  # largest misfit of a candidate's lines that matters

    # A candidate settles the search, and slower steps are skipped, if it has at most
    densest: float = 3.0  # calculated lines per observed line, and either
    sure_evidence: float = 1.75  # more evidence per line than this, with
    most_left: float = 1.5  # fewer of the crystal's own lines left unexplained; or
    ample_evidence: float = 50.0  # more evidence in all, with
    ample_left: float = 0.2  # a smaller share of the crystal's own lines left.

    # Ranking.
    same_lattice: float = 5e-3  # relative difference of lengths of equal lattices
    symmetry_strain: float = 3e-3  # relative change of lengths by imposing a symmetry that is tried
    distortion_cost: float = 5.0  # log-likelihood cost of each parameter that a lower symmetry adds to the highest one
    distortions: tuple[float, ...] = (0.003, 0.01)  # relative changes of 1/d² from which lower symmetries are refined
    exact_strain: float = 5e-4  # of one that is always imposed: no list of lines shows the difference
    related: int = 5  # related lattices that are refined
    longest_related: float = 30.0  # Å, axes of related lattices
    highest_index: int = 24  # Miller index of a reflection
    shoulder: float = 2.0  # resolutions from a reflection within which a line may be a shoulder of the profile
    superlattice_left: float = 0.4  # share of the unexplained lines that a superstructure may leave unexplained
    superlattice_cost: float = 4.0  # log-likelihood cost of a superstructure of twice the volume
    # Weights of `probability.features`, fitted on 420 simulated and measured cases of eleven kinds. The last one is set
    # by hand: a cell that leaves most of the intensity unexplained is at best that of a minor phase.
    logistic: tuple[float, ...] = (0.59, 1.7, 0.17, 0.25, -1.09, -7.57, -1.02, -15.0)

    # Hints.
    hopeless: float = 0.05  # probability by its lines below which a cell is not refined on the whole pattern
    doubt: float = 0.5  # probability below which a cell is doubtful
    few_lines: int = 12  # fewer lines do not determine a cell of low symmetry


SEARCH_TUNING = SearchTuning()


@dataclass(frozen=True)
class CalibrationTuning:
    """Constants of the calibration with a standard, set by hand on simulated mixtures of minerals with standards.

    Angles are in degrees, intensities relative to the strongest line of the pattern or of the standard.
    """

    zero: tuple[float, float] = (-0.3, 0.3)  # zero shifts that are tried
    displacements: tuple[float, ...] = (-0.2, -0.1, 0.0, 0.1, 0.2)  # with them
    step: float = 0.01  # of the zero shifts
    spread: tuple[float, float] = (0.15, 0.1)  # usual zero shift and displacement
    rounds: int = 12  # of least squares
    least_error: float = 0.002  # of a position
    tolerance: float = 0.03  # largest miss of a line of the standard
    strong: float = 0.04  # intensity of the standard's lines that must be there,
    strong_lines: int = 12  # at most so many of the strongest,
    share: float = 0.6  # of which this share must be observed,
    fewest: int = 3  # and so many
    area_factor: float = 5.0  # by which texture may change an intensity
    visible: float = 0.002  # expected intensity of a line that is left out
    least_distance: float = 0.03  # of a line of the sample from one of the standard,
    overlap: float = 0.6  # and the same in full widths at half maximum
    reach: float = 3.0  # full widths at half maximum from a strong line at which a window of the pattern ends
    reach_area: float = 0.3  # intensity of such a line


CALIBRATION_TUNING = CalibrationTuning()


@dataclass(frozen=True)
class FormulaTuning:
    """Constants of the evidence of density and formula.

    Hofmann's volumes are those of organic crystals. The logarithm of the volumes of 1,497 minerals relative to them
    follows a straight line in the share of hydrogen among the atoms, with a standard deviation of 0.29.
    """

    density_error: float = 0.04  # relative, of a measured density
    floor: float = 0.05  # probability that density or formula are wrong: no cell loses more than its logarithm
    organic_error: float = 0.1  # relative, of Hofmann's volumes of organic crystals
    inorganic: tuple[float, float] = (-0.54, 0.67)  # of that line: without hydrogen, and per share of hydrogen
    inorganic_error: float = 0.3
    estimate_floor: float = 0.1  # the same as `floor` for a volume that is only estimated


FORMULA_TUNING = FormulaTuning()


@dataclass(frozen=True)
class SecondPhaseTuning:
    """When a second phase is looked for and believed, set by hand on eighteen simulated pairs of minerals.

    `benchmarks/two_phases.py` reports on other pairs.
    """

    fewest_lines: int = 4  # that the first cell leaves unexplained,
    least_share: float = 0.02  # and their share of the intensity, from which they are indexed
    lines: int = 100  # largest number of lines, of both phases
    position_errors: float = 4.0  # standard errors, and
    position_share: float = 0.2  # full widths at half maximum, within which a line is at a reflection
    first_cells: int = 3  # that are tried as one of the phases, if the best one leads to no pair
    searches: int = 5  # for one pattern, at most
    refined_left: float = 0.8  # of the intensity that a cell leaves by its lines, at most, by a refinement that is used
    zero_spread: float = 0.006  # degrees: standard deviation of the zero shift that the first cell has on the lines
    good_chi2: float = 2.0  # χ² of the refinement of both above which rivals are tried,
    rivals: int = 3  # so many of each phase, and
    rival_gain: float = 10.0  # evidence that one gains by removing most of the misfit
    fewest_phase_lines: int = 4  # that a phase must explain
    probability: float = 0.5  # of either phase, given the other, from which both are reported
    certain: float = 0.9  # probability of the first cell above which it is not searched again without the other's lines
    remaining_misfit: float = 0.5  # of the misfit of the better single phase that both together may leave
    least_area: float = 0.01  # share of the intensity of a phase
    reflections: int = 200  # of one phase in the refinement of both
    largest_multiple: int = 6  # of the volume: a multiple or fraction of a lattice is no second phase


SECOND_PHASE_TUNING = SecondPhaseTuning()
