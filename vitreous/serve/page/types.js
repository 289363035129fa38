/**
 * Types of the service's responses; docs/serve.md describes them.
 *
 * @typedef {{name: string, unit: string, origin: number, spacing: number, count: number}} Axis
 * @typedef {{name: string, unit: string}} Target
 * @typedef {{name: string, kind: string, task: string, data: string, input: number[], axes: Axis[], channels: string[],
 *   white: number | null, classes: string[], targets: Target[], intervals: boolean, coverage: number | null, maps: string[],
 *   formats: string[]}} Model
 * @typedef {{formats: string[], systems: string[], projects: string[]}} Powder
 * @typedef {{body: number, points: number, rows: number, seconds: number, search_seconds: number}} Limits
 * @typedef {{name: string, phases: number}} PhaseDatabase
 * @typedef {{models: Model[], powder: Powder | null, database: PhaseDatabase | null, anodes: string[], limits: Limits}} ServiceInfo
 * @typedef {{model: string, name: string, truth: string, sample: any}} Sample
 * @typedef {{patterns: {name: string, about: string}[], samples: Sample[]}} Examples
 *
 * @typedef {{name: string, unit: string, value: number, lower: number | null, upper: number | null}} Value
 * @typedef {{file: number, row: number, values?: Value[], class?: string, probability?: number,
 *   probabilities?: number[], familiarity?: number | null}} Row
 * @typedef {{model: string, task: string, coverage: number | null, targets: Target[], classes: string[],
 *   rows: Row[]}} Predictions
 * @typedef {{name: string, values: any}} Map
 * @typedef {{answer: string, row: Row, on: "grid" | "tokens", axes: Axis[], channels: string[], sample: any,
 *   places: number[], maps: Map[], heads: Map[]}} Explanation
 *
 * @typedef {{two_theta: number, hkl: number[]}} Tick
 * @typedef {{a: number, b: number, c: number, alpha: number, beta: number, gamma: number}} Lengths
 * @typedef {Lengths & {system: string, centring: string, volume: number, m20: number, f20: number, indexed: number,
 *   lines: number, zero: number, probability: number, ticks: Tick[], cif: string}} Cell
 * @typedef {Lengths & {errors: Lengths, text: string, zero: number, rwp: number, chi2: number, two_theta: number[],
 *   observed: number[], calculated: number[], background: number[], ticks: Tick[]}} Fit
 * @typedef {{wavelength: number, wavelength2: number | null, points: number, two_theta: number[],
 *   intensity: number[]}} Pattern
 * @typedef {{two_theta: number, error: number, intensity: number, d: number}} Peak
 * @typedef {{symbol: string, probability: number, absences: number,
 *   space_groups: {number: number, name: string, share: number}[]}} ExtinctionSymbol
 * @typedef {{two_theta: number, intensity: number | null, share: number | null}} UnexplainedLine
 * @typedef {Cell & {errors: Lengths, refined: Lengths, text: string, share: number, first_share: number}} SecondPhase
 * @typedef {{program: string, phases: number, files: string[], advice: string, archive: string}} Project a ZIP archive in base64
 * @typedef {{verdict: "likely" | "unsure" | "none", hints: string[], pattern: Pattern | null, peaks: Peak[],
 *   cells: Cell[], fit: Fit | null, symbols: ExtinctionSymbol[], unexplained: UnexplainedLine[],
 *   second: SecondPhase | null, csv: string, lines_csv: string, cif: string,
 *   projects: Project[]}} IndexResult
 *
 * @typedef {{name: string, formula: string, source: string, space_group: string, system: string, cell: number[],
 *   cell_errors: number[], text: string, probability: number, mass_fraction: number | null,
 *   mass_fraction_error: number | null, mass_text: string, intensity_share: number, texture: number,
 *   rivals: {name: string, formula: string, source: string, probability: number}[], ticks: Tick[]}} IdentifiedPhase
 * @typedef {{verdict: "likely" | "unsure" | "none", hints: string[], database: string, phases: IdentifiedPhase[],
 *   rwp: number, chi2: number, zero_shift: number, unexplained_lines: {two_theta: number, intensity: number}[],
 *   unexplained_share: number, unknown_phase_probability: number, unknown_phase: string,
 *   amorphous_fraction: number | null,
 *   measured: {wavelength: number, wavelength2: number | null, radiation: string | null, points: number},
 *   curves: {two_theta: number[], observed: number[], background: number[], parts: number[][]},
 *   csv: string}} Identification
 */
export {};
