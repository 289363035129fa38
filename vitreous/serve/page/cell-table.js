/** Candidate unit cells: a card with the verdict, and a table to choose a cell. */

import { element, newId } from "./dom.js";
import { formatPercent, formatNumber, formatWithError } from "./format.js";

/** @typedef {import("./types.js").IndexResult} IndexResult */
/** @typedef {import("./types.js").Cell} Cell */
/** @typedef {import("./types.js").Fit} Fit */

const LENGTHS = /** @type {const} */ (["a", "b", "c"]);
const ANGLES = /** @type {const} */ (["alpha", "beta", "gamma"]);
const SHOWN_GROUPS = 3; // space groups of the likeliest extinction symbol
const GREEK = { alpha: "α", beta: "β", gamma: "γ" };

/** @param {Cell} cell */
export function latticeName(cell) {
  return `${cell.centring === "R" ? "trigonal" : cell.system} ${cell.centring}`;
}

/**
 * @param {IndexResult} result
 * @returns {HTMLElement} a card with the verdict, the best cell and hints
 */
export function verdictCard(result) {
  const best = result.cells[0];
  const text = {
    likely: ["good", "Likely cell"],
    unsure: ["warn", "Unsure: do not rely on this cell"],
    none: ["warn", "No cell found"],
  }[result.verdict];
  const title = element("h2", {}, text[1]);
  if (!best) return element("section", { class: `verdict ${text[0]}` }, title, hintList(result));
  const numbers = result.fit ? refinedParameters(result.fit) : cellParameters(best);
  const details = [
    `probability ${formatPercent(best.probability)}`, `M₂₀ = ${formatNumber(best.m20, 3)}`, `${best.indexed} of ${best.lines} lines indexed`,
    ...(result.fit ? [`Rwp = ${formatPercent(result.fit.rwp)}`, `χ² = ${formatNumber(result.fit.chi2, 3)}`] : []),
  ];
  return element("section", { class: `verdict ${text[0]}` }, title,
    element("p", { class: "cell-line" }, element("b", {}, latticeName(best)), ...numbers.flatMap((text) => [" ", element("span", {}, text)])),
    element("p", { class: "quiet" }, details.join("  ·  ")),
    spaceGroups(result),
    result.fit ? element("p", { class: "quiet" }, "Refined on the whole pattern; standard errors of the last digits in brackets.") : null,
    hintList(result));
}

/** @param {IndexResult} result @returns {HTMLElement | null} the space groups of the likeliest extinction symbol */
function spaceGroups(result) {
  if (!result.symbols.length) return null;
  const { symbol, probability, space_groups: groups } = result.symbols[0];
  const names = groups.slice(0, SHOWN_GROUPS).map(({ name, number }) => `${name} (No. ${number})`).join(", ");
  const more = groups.length > SHOWN_GROUPS ? ", …" : "";
  return element("p", {}, `Space group ${names}${more}: extinction symbol ${symbol}, ${formatPercent(probability)}`);
}

/** @param {{hints: string[]}} result */
export function hintList(result) {
  return result.hints.length ? element("ul", {}, ...result.hints.map((hint) => element("li", {}, hint))) : null;
}

/** @param {Fit} fit @returns {string[]} the refined parameters */
function refinedParameters(fit) {
  return [
    ...LENGTHS.filter((name, i) => fit.errors[name] > 0 && !LENGTHS.slice(0, i).some((other) => fit[other] === fit[name])).map((name) => `${name} = ${formatWithError(fit[name], fit.errors[name], 4)} Å`),
    ...ANGLES.filter((name) => fit.errors[name] > 0).map((name) => `${GREEK[name]} = ${formatWithError(fit[name], fit.errors[name], 3)}°`),
  ];
}

/** @param {Cell} cell @returns {string[]} */
function cellParameters(cell) {
  return [
    ...LENGTHS.map((name) => `${name} = ${cell[name].toFixed(4)} Å`),
    ...ANGLES.map((name) => `${GREEK[name]} = ${formatAngle(cell[name])}°`),
  ];
}

/** @param {number} angle */
function formatAngle(angle) {
  return Number.isInteger(angle) ? String(angle) : angle.toFixed(3);
}

const COLUMNS = [
  "cell", "lattice", "a, b, c (Å)", "α, β, γ (°)", "V (Å³)", "probability", "M₂₀", "F₂₀ (1/°)", "lines indexed", "zero (°)",
];

/**
 * @param {IndexResult} result
 * @param {(chosen: number) => void} choose
 * @returns {HTMLElement}
 */
export function cellTable(result, choose) {
  const group = newId();
  const rows = result.cells.map((cell, i) => {
    const fit = i === 0 ? result.fit : null;
    const errors = fit?.errors;
    const pick = element("input", { type: "radio", name: group, value: i, checked: i === 0, change: () => choose(i), "aria-label": `Cell ${i + 1}, ${latticeName(cell)}` });
    const values = fit ?? cell;
    return element("tr", { click: (/** @type {Event} */ event) => event.target !== pick && pick.click() },
      element("td", {}, element("span", { class: "pick" }, pick, i + 1)),
      element("td", { class: "nowrap" }, latticeName(cell)),
      element("td", {}, ...unbroken(LENGTHS.map((name) => formatWithError(values[name], errors?.[name] ?? 0, 4)))),
      element("td", {}, ...unbroken(ANGLES.map((name) => (errors?.[name] ? formatWithError(values[name], errors[name], 3) : formatAngle(values[name]))))),
      element("td", { class: "number" }, cell.volume.toFixed(1)),
      element("td", {}, probabilityBar(cell.probability)),
      element("td", { class: "number" }, formatNumber(cell.m20, 3)),
      element("td", { class: "number" }, formatNumber(cell.f20, 3)),
      element("td", { class: "number" }, `${cell.indexed} of ${cell.lines}`),
      element("td", { class: "number" }, formatWithError(fit?.zero ?? cell.zero, 0, 4)),
    );
  });
  const table = element("table", { class: "choose" },
    element("caption", {}, "Candidates, likeliest first. Choose one to see its reflections."),
    element("thead", {}, element("tr", {}, ...COLUMNS.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows));
  return element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Candidate cells" }, table);
}

/** @param {string[]} texts */
function unbroken(texts) {
  return texts.flatMap((text, i) => [i ? " " : "", element("span", { class: "nowrap" }, text)]);
}

/** @param {number} share */
export function probabilityBar(share) {
  const fill = element("span", { class: "fill" });
  fill.style.inlineSize = `${100 * share}%`;
  return element("span", { class: "share" }, element("span", { class: "track", "aria-hidden": "true" }, fill), element("span", {}, formatPercent(share)));
}
