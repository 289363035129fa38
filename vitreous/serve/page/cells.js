/** Candidate cells: the verdict in words, and a table in which one is chosen. */

import { element, fresh } from "./element.js";
import { percent, short, withError } from "./numbers.js";

/** @typedef {import("./answers.js").Indexed} Indexed */
/** @typedef {import("./answers.js").Cell} Cell */
/** @typedef {import("./answers.js").Fit} Fit */

const LENGTHS = /** @type {const} */ (["a", "b", "c"]);
const ANGLES = /** @type {const} */ (["alpha", "beta", "gamma"]);
const GREEK = { alpha: "α", beta: "β", gamma: "γ" };

/** @param {Cell} cell */
export function lattice(cell) {
  return `${cell.centring === "R" ? "trigonal" : cell.system} ${cell.centring}`;
}

/**
 * @param {Indexed} found
 * @returns {HTMLElement} what to make of it
 */
export function verdict(found) {
  const best = found.cells[0];
  const words = {
    likely: ["good", "Likely cell"],
    unsure: ["warn", "Unsure: do not rely on this cell"],
    none: ["warn", "No cell found"],
  }[found.verdict];
  const title = element("h2", {}, words[1]);
  if (!best) return element("section", { class: `verdict ${words[0]}` }, title, hints(found));
  const numbers = found.fit ? refined(found.fit) : unrefined(best);
  const facts = [
    `probability ${percent(best.probability)}`, `M₂₀ = ${short(best.m20, 3)}`, `${best.indexed} of ${best.lines} lines indexed`,
    ...(found.fit ? [`Rwp = ${percent(found.fit.rwp)}`, `χ² = ${short(found.fit.chi2, 3)}`] : []),
  ];
  return element("section", { class: `verdict ${words[0]}` }, title,
    element("p", { class: "cell-line" }, element("b", {}, lattice(best)), ...numbers.flatMap((text) => [" ", element("span", {}, text)])),
    element("p", { class: "quiet" }, facts.join("  ·  ")),
    found.fit ? element("p", { class: "quiet" }, "Refined on the whole pattern; standard errors of the last digits in brackets.") : null,
    hints(found));
}

/** @param {Indexed} found */
function hints(found) {
  return found.hints.length ? element("ul", {}, ...found.hints.map((hint) => element("li", {}, hint))) : null;
}

/** @param {Fit} fit @returns {string[]} all that the system leaves free */
function refined(fit) {
  return [
    ...LENGTHS.filter((name) => fit.errors[name] > 0).map((name) => `${name} = ${withError(fit[name], fit.errors[name], 4)} Å`),
    ...ANGLES.filter((name) => fit.errors[name] > 0).map((name) => `${GREEK[name]} = ${withError(fit[name], fit.errors[name], 3)}°`),
  ];
}

/** @param {Cell} cell @returns {string[]} */
function unrefined(cell) {
  return [
    ...LENGTHS.map((name) => `${name} = ${cell[name].toFixed(4)} Å`),
    ...ANGLES.map((name) => `${GREEK[name]} = ${plainAngle(cell[name])}°`),
  ];
}

/** @param {number} angle */
function plainAngle(angle) {
  return Number.isInteger(angle) ? String(angle) : angle.toFixed(3);
}

const COLUMNS = [
  "cell", "lattice", "a, b, c (Å)", "α, β, γ (°)", "V (Å³)", "probability", "M₂₀", "F₂₀ (1/°)", "lines indexed", "zero (°)",
];

/**
 * @param {Indexed} found
 * @param {(chosen: number) => void} choose
 * @returns {HTMLElement}
 */
export function cellTable(found, choose) {
  const group = fresh();
  const rows = found.cells.map((cell, i) => {
    const fit = i === 0 ? found.fit : null;
    const errors = fit?.errors;
    const pick = element("input", { type: "radio", name: group, value: i, checked: i === 0, change: () => choose(i), "aria-label": `Cell ${i + 1}, ${lattice(cell)}` });
    const shown = fit ?? cell;
    return element("tr", { click: (/** @type {Event} */ event) => event.target !== pick && pick.click() },
      element("td", {}, element("span", { class: "pick" }, pick, i + 1)),
      element("td", { class: "nowrap" }, lattice(cell)),
      element("td", {}, ...stacked(LENGTHS.map((name) => withError(shown[name], errors?.[name] ?? 0, 4)))),
      element("td", {}, ...stacked(ANGLES.map((name) => (errors?.[name] ? withError(shown[name], errors[name], 3) : plainAngle(shown[name]))))),
      element("td", { class: "number" }, cell.volume.toFixed(1)),
      element("td", {}, probabilityBar(cell.probability)),
      element("td", { class: "number" }, short(cell.m20, 3)),
      element("td", { class: "number" }, short(cell.f20, 3)),
      element("td", { class: "number" }, `${cell.indexed} of ${cell.lines}`),
      element("td", { class: "number" }, withError(fit?.zero ?? cell.zero, 0, 4)),
    );
  });
  const table = element("table", { class: "choose" },
    element("caption", {}, "Candidates, likeliest first. Choose one to see its reflections."),
    element("thead", {}, element("tr", {}, ...COLUMNS.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows));
  return element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Candidate cells" }, table);
}

/** @param {string[]} texts */
function stacked(texts) {
  return texts.flatMap((text, i) => [i ? " " : "", element("span", { class: "nowrap" }, text)]);
}

/** @param {number} share */
export function probabilityBar(share) {
  const fill = element("span", { class: "fill" });
  fill.style.inlineSize = `${100 * share}%`;
  return element("span", { class: "share" }, element("span", { class: "track", "aria-hidden": "true" }, fill), element("span", {}, percent(share)));
}
