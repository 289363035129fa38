/** The phases of a sample: a card with the verdict, and a card for each phase with its rivals. */

import { hintList } from "./cell-table.js";
import { element } from "./dom.js";
import { formatNumber, formatPercent } from "./format.js";
import { phaseColour } from "./phase-plot.js";
import { strongestLines } from "./phase-details.js";

/** @typedef {import("./types.js").Identification} Identification */
/** @typedef {import("./types.js").IdentifiedPhase} IdentifiedPhase */

const LIKELY = 0.5; // probability of a phase below which the answer is unsure

/**
 * @param {Identification} result
 * @returns {HTMLElement} a card with the verdict, the amounts and hints
 */
export function phasesVerdict(result) {
  const count = result.phases.length;
  const text = {
    likely: ["good", count === 1 ? "One phase explains the pattern" : `${count} phases explain the pattern`],
    unsure: ["warn", "Unsure: check this answer"],
    none: ["warn", "No phase of the database explains the pattern"],
  }[result.verdict];
  const details = [
    ...(count ? [`Rwp = ${formatPercent(result.rwp)}`, `χ² = ${formatNumber(result.chi2, 3)}`] : []),
    `database ${result.database}`,
  ];
  const amounts = result.phases.some((phase) => phase.mass_fraction !== null);
  return element("section", { class: `verdict ${text[0]}` }, element("h2", {}, text[1]),
    count ? element("p", { class: "cell-line" }, ...result.phases.flatMap((phase) => [" ", element("span", {}, element("b", {}, phase.name), ` ${shortAmount(phase)}`)])) : null,
    amounts ? composition(result) : null,
    result.amorphous_fraction === null ? null : element("p", {}, `Not crystalline: ${formatPercent(result.amorphous_fraction)} of the mass`),
    element("p", { class: "quiet" }, details.join("  ·  ")),
    amounts ? element("p", { class: "quiet" }, "Percent of the mass of the phases found; standard errors of the last digits in brackets.") : null,
    hintList({ hints: result.hints.map((hint) => hint[0].toUpperCase() + hint.slice(1)) }));
}

/** @param {IdentifiedPhase} phase @returns {string} */
function shortAmount(phase) {
  return phase.mass_fraction === null ? "" : formatPercent(phase.mass_fraction);
}

/** @param {Identification} result @returns {HTMLElement} a bar with the mass fractions */
function composition(result) {
  const parts = result.phases.map((phase, i) => {
    const part = element("span", { class: `part ${phaseColour(i)}` });
    part.style.flexGrow = String(phase.mass_fraction ?? 0);
    return part;
  });
  return element("div", { class: "composition", "aria-hidden": "true" }, ...parts);
}

/**
 * @param {Identification} result
 * @returns {HTMLElement | null} a card for each phase
 */
export function phaseList(result) {
  if (!result.phases.length) return null;
  return element("ol", { class: "phases", "aria-label": "Phases" }, ...result.phases.map(phaseCard));
}

/** @param {IdentifiedPhase} phase @param {number} index */
function phaseCard(phase, index) {
  const unsure = phase.probability < LIKELY;
  const about = [`${phase.system}${phase.space_group ? `, ${phase.space_group}` : ""}`, phase.source];
  const facts = [
    phase.mass_fraction === null ? ["mass", "unknown: the entry has no atoms"] : ["mass", phase.mass_text],
    ["probability", formatPercent(phase.probability)],
    ["intensity share", formatPercent(phase.intensity_share)],
  ];
  return element("li", { class: phaseColour(index) },
    element("div", { class: "phase-name" },
      element("h3", {}, element("span", { class: "sign phase", "aria-hidden": "true" }), phase.name,
        ...(phase.formula === phase.name ? [] : [" ", element("span", { class: "formula" }, ...formula(phase.formula))])),
      unsure ? element("p", { class: "unsure" }, "Unsure: something else may be there instead") : null),
    element("dl", { class: "facts" }, ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)))),
    element("p", { class: "refined" }, ...phase.text.split(", ").flatMap((text) => [" ", element("span", { class: "nowrap" }, text)])),
    element("p", { class: "quiet" }, about.filter(Boolean).join("  ·  ")),
    rivals(phase));
}

/** @param {string} text @returns {(string | HTMLElement)[]} a chemical formula with subscripts */
function formula(text) {
  return text.split(/(?<=[A-Za-z)\]])(\d+(?:\.\d+)?)/).filter(Boolean).map((part) => (/^\d/.test(part) ? element("sub", {}, part) : part));
}

/** @param {IdentifiedPhase} phase @returns {HTMLElement | null} */
function rivals(phase) {
  const count = phase.rivals.length;
  if (!count) return null;
  return element("details", {}, element("summary", {}, count === 1 ? "One other phase fits, too" : `${count} other phases fit, too`),
    element("ul", {}, ...phase.rivals.map((rival) => element("li", {},
      element("b", {}, rival.name), " ", ...formula(rival.formula), `  ·  ${formatPercent(rival.probability)}`, rival.source ? `  ·  ${rival.source}` : ""))));
}

/**
 * @param {Identification} result
 * @returns {HTMLElement | null} the lines of no phase, and whether they are those of an unknown phase
 */
export function linesOfNoPhase(result) {
  const { unexplained_lines: lines, unknown_phase_probability: unknown } = result;
  if (!lines.length) return null;
  const count = lines.length === 1 ? "One line belongs to no phase" : `${lines.length} lines belong to no phase`;
  return element("section", { class: `finding ${unknown >= LIKELY ? "warn" : "next"}` }, element("h2", {}, "Unexplained lines"),
    element("p", {}, `${count}, with ${formatPercent(result.unexplained_share)} of the intensity: ${strongestLines(lines, (line) => `${line.two_theta.toFixed(2)}°`)}`),
    element("p", {}, `The sample has a phase that the database lacks with a probability of ${formatPercent(unknown)}.`),
    result.unknown_phase ? element("p", {}, result.unknown_phase) : null);
}
