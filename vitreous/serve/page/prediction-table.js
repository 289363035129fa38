/** Table of predictions, to choose a sample. */

import { probabilityBar } from "./cell-table.js";
import { element, newId, svg } from "./dom.js";
import { toCsv, labelWithUnit, formatPercent, formatNumber } from "./format.js";

const UNFAMILIAR = 0.01; // as in vitreous/run/familiarity.py

/** @typedef {import("./types.js").Predictions} Predictions */

/**
 * @param {Predictions} predictions
 * @param {string[]} names of the samples
 * @param {string[] | null} truths true values, if known
 * @param {(chosen: number) => void} choose
 * @returns {HTMLElement}
 */
export function predictionTable(predictions, names, truths, choose) {
  const group = newId();
  const hasIntervals = predictions.coverage !== null;
  const headings = predictions.classes.length ? ["class", "probability"] : predictions.targets.flatMap((target) => [
    labelWithUnit(target.name, target.unit), ...(hasIntervals ? [`${formatPercent(predictions.coverage ?? 0).replace(".0", "")} interval${target.unit ? ` (${target.unit})` : ""}`, ""] : []),
  ]);
  const ranges = predictions.targets.map((_, i) => valueRange(predictions, i));
  const rows = predictions.rows.map((row, i) => {
    const pick = element("input", { type: "radio", name: group, value: i, checked: i === 0, change: () => choose(i), "aria-label": names[i] });
    const cells = row.values ? row.values.flatMap((value, k) => [
      element("td", { class: "number" }, element("b", {}, formatNumber(value.value))),
      ...(hasIntervals ? [
        element("td", { class: "number" }, `${formatNumber(value.lower ?? 0)} to ${formatNumber(value.upper ?? 0)}`),
        element("td", {}, whisker(value.value, value.lower ?? value.value, value.upper ?? value.value, ranges[k])),
      ] : []),
    ]) : [element("td", {}, element("b", {}, row.class ?? "")), element("td", {}, probabilityBar(row.probability ?? 0))];
    return element("tr", { click: (/** @type {Event} */ event) => event.target !== pick && pick.click() },
      element("td", {}, element("span", { class: "pick" }, pick, names[i]), familiarityNote(row)), ...cells, truths ? element("td", {}, truths[i]) : null);
  });
  const columns = ["spectrum", ...headings, ...(truths ? ["true value"] : [])];
  return element("div", { class: "wide tall", tabindex: 0, role: "region", "aria-label": "Predictions" }, element("table", { class: "choose" },
    element("caption", {}, `${predictions.rows.length === 1 ? "One spectrum" : `${predictions.rows.length} spectra`}. Choose one to see it.`),
    element("thead", {}, element("tr", {}, ...columns.map((name) => (name ? element("th", { scope: "col" }, name) : element("td"))))),
    element("tbody", {}, ...rows)));
}

/** @param {import("./types.js").Row} row @returns {HTMLElement | null} a warning if a sample is unlike the training data */
export function familiarityNote({ familiarity }) {
  if (familiarity === null || familiarity === undefined || familiarity >= UNFAMILIAR) return null;
  const title = `Familiarity ${familiarity.toPrecision(2)}: fewer than 1 % of samples like the training data are as unusual`;
  return element("span", { class: "unfamiliar", title }, "unlike the training data");
}

/** @param {Predictions} predictions @param {number} index target @returns {[number, number]} lowest and highest bound */
function valueRange(predictions, index) {
  const limits = predictions.rows.flatMap(({ values }) => {
    const value = values?.[index];
    return value ? [value.lower ?? value.value, value.upper ?? value.value] : [];
  });
  return [Math.min(...limits), Math.max(...limits)];
}

/**
 * @param {number} value @param {number} lower @param {number} upper
 * @param {[number, number]} limits lowest and highest bound of all rows
 * @returns {SVGElement} a dot with its interval
 */
function whisker(value, lower, upper, limits) {
  const x = (/** @type {number} */ at) => (4 + (172 * (at - limits[0])) / (limits[1] - limits[0] || 1)).toFixed(1);
  return svg("svg", { class: "whisker", viewBox: "0 0 180 12", width: 180, height: 12, "aria-hidden": "true" },
    svg("line", { x1: x(lower), x2: x(upper), y1: 6, y2: 6 }), svg("circle", { cx: x(value), cy: 6, r: 2.6 }));
}

/**
 * @param {Predictions} predictions
 * @param {string[]} names
 * @returns {string} the predictions as CSV
 */
export function predictionCsv(predictions, names) {
  const familiar = typeof predictions.rows[0]?.familiarity === "number" ? ["familiarity"] : [];
  if (predictions.classes.length) {
    return toCsv([["spectrum", "class", ...predictions.classes.map((name) => `p(${name})`), ...familiar],
      ...predictions.rows.map((row, i) => [names[i], row.class ?? "", ...(row.probabilities ?? []), ...familiar.map(() => row.familiarity ?? null)])]);
  }
  const hasIntervals = predictions.coverage !== null;
  return toCsv([
    ["spectrum", ...predictions.targets.flatMap(({ name, unit }) => [labelWithUnit(name, unit), ...(hasIntervals ? [labelWithUnit(`${name} lower`, unit), labelWithUnit(`${name} upper`, unit)] : [])]), ...familiar],
    ...predictions.rows.map((row, i) => [names[i], ...(row.values ?? []).flatMap(({ value, lower, upper }) => [value, ...(hasIntervals ? [lower, upper] : [])]), ...familiar.map(() => row.familiarity ?? null)]),
  ]);
}
