/** What follows a cell: its space groups, the lines that it leaves unexplained, and a second phase. */

import { latticeName, probabilityBar } from "./cell-table.js";
import { element } from "./dom.js";
import { downloadButton } from "./download.js";
import { formatNumber, formatPercent } from "./format.js";

/** @typedef {import("./types.js").IndexResult} IndexResult */

const SHOWN_LINES = 12;
const LEAST_SHARE = 0.005; // of the intensity: lines with less are not worth a look

/**
 * @param {IndexResult} result
 * @returns {HTMLElement | null} the extinction symbols of the first cell with their space groups
 */
export function symbolTable(result) {
  if (!result.symbols.length) return null;
  const rows = result.symbols.map((each) => element("tr", {},
    element("td", { class: "nowrap" }, each.symbol),
    element("td", {}, probabilityBar(each.probability)),
    element("td", { class: "number" }, each.absences),
    element("td", {}, each.space_groups.map((group) => `${group.name} (No. ${group.number}, ${formatPercent(group.share)})`).join(", "))));
  const headings = ["extinction symbol", "probability", "absent lines", "space groups, and how often crystals have them"];
  const table = element("table", {},
    element("caption", {}, "Which reflections of cell 1 are absent. Absences cannot tell the space groups of one symbol apart."),
    element("thead", {}, element("tr", {}, ...headings.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows));
  return element("div", { class: "wide symbols", tabindex: 0, role: "region", "aria-label": "Space groups" }, table);
}

/**
 * @param {IndexResult} result
 * @returns {HTMLElement | null} the angles of the unexplained lines, strongest first
 */
export function unexplainedLines(result) {
  const lines = result.unexplained;
  const share = lines.reduce((sum, line) => sum + (line.share ?? 0), 0);
  if (!lines.length || (lines[0].share !== null && share < LEAST_SHARE)) return null;
  const shown = strongestLines(lines, (line) => `${line.two_theta.toFixed(3)}°${line.share === null ? "" : ` (${formatPercent(line.share)})`}`);
  const count = `${lines.length} ${lines.length === 1 ? "line is" : "lines are"} at no reflection`;
  const total = lines[0].share === null ? "" : `, with ${formatPercent(share)} of the intensity`;
  return element("section", { class: "finding warn" }, element("h2", {}, "Unexplained lines"),
    element("p", {}, `${count}${total}: ${shown}`));
}

/**
 * @template {{intensity: number | null}} Line
 * @param {Line[]} lines
 * @param {(line: Line) => string} write
 * @returns {string} the strongest lines, strongest first
 */
export function strongestLines(lines, write) {
  const sorted = [...lines].sort((a, b) => (b.intensity ?? 0) - (a.intensity ?? 0));
  return sorted.slice(0, SHOWN_LINES).map(write).join(", ") + (lines.length > SHOWN_LINES ? ", …" : "");
}

/**
 * @param {IndexResult} result
 * @param {string} stem of the names of downloaded files
 * @returns {HTMLElement | null} the second phase
 */
export function secondPhase(result, stem) {
  const phase = result.second;
  if (!phase) return null;
  const details = [
    `${formatPercent(phase.share)} of the intensity, cell 1 has ${formatPercent(phase.first_share)}`,
    `probability ${formatPercent(phase.probability)}`, `M₂₀ = ${formatNumber(phase.m20, 3)}`,
  ];
  return element("section", { class: "finding good" }, element("h2", {}, "Second phase"),
    element("p", { class: "cell-line" }, element("b", {}, latticeName(phase)), ...phase.text.split(", ").flatMap((text) => [" ", element("span", {}, text)])),
    element("p", { class: "quiet" }, details.join("  ·  ")),
    element("p", { class: "quiet" }, "Both phases are refined together. A share of the intensity is not a mass fraction."),
    element("p", {}, downloadButton("CIF of the second phase", `${stem}-second.cif`, "chemical/x-cif", () => phase.cif)));
}
