/** Predictions of many samples as a table in which one is chosen. */

import { probabilityBar } from "./cells.js";
import { drawing, element, fresh } from "./element.js";
import { csv, named, percent, short } from "./numbers.js";

/** @typedef {import("./answers.js").Predicted} Predicted */

/**
 * @param {Predicted} found
 * @param {string[]} names of the samples
 * @param {string[] | null} truths where they are known
 * @param {(chosen: number) => void} choose
 * @returns {HTMLElement}
 */
export function predictionTable(found, names, truths, choose) {
  const group = fresh();
  const spread = found.coverage !== null;
  const headings = found.classes.length ? ["class", "probability"] : found.targets.flatMap((target) => [
    named(target.name, target.unit), ...(spread ? [`${percent(found.coverage ?? 0).replace(".0", "")} interval${target.unit ? ` (${target.unit})` : ""}`, ""] : []),
  ]);
  const ranges = found.targets.map((_, i) => range(found, i));
  const rows = found.rows.map((row, i) => {
    const pick = element("input", { type: "radio", name: group, value: i, checked: i === 0, change: () => choose(i), "aria-label": names[i] });
    const cells = row.values ? row.values.flatMap((value, k) => [
      element("td", { class: "number" }, element("b", {}, short(value.value))),
      ...(spread ? [
        element("td", { class: "number" }, `${short(value.lower ?? 0)} to ${short(value.upper ?? 0)}`),
        element("td", {}, whisker(value.value, value.lower ?? value.value, value.upper ?? value.value, ranges[k])),
      ] : []),
    ]) : [element("td", {}, element("b", {}, row.class ?? "")), element("td", {}, probabilityBar(row.probability ?? 0))];
    return element("tr", { click: (/** @type {Event} */ event) => event.target !== pick && pick.click() },
      element("td", {}, element("span", { class: "pick" }, pick, names[i])), ...cells, truths ? element("td", {}, truths[i]) : null);
  });
  const columns = ["spectrum", ...headings, ...(truths ? ["known"] : [])];
  return element("div", { class: "wide tall", tabindex: 0, role: "region", "aria-label": "Predictions" }, element("table", { class: "choose" },
    element("caption", {}, `${found.rows.length === 1 ? "One spectrum" : `${found.rows.length} spectra`}. Choose one to see it.`),
    element("thead", {}, element("tr", {}, ...columns.map((name) => (name ? element("th", { scope: "col" }, name) : element("td"))))),
    element("tbody", {}, ...rows)));
}

/** @param {Predicted} found @param {number} which target @returns {[number, number]} from the lowest to the highest */
function range(found, which) {
  const ends = found.rows.flatMap(({ values }) => {
    const value = values?.[which];
    return value ? [value.lower ?? value.value, value.upper ?? value.value] : [];
  });
  return [Math.min(...ends), Math.max(...ends)];
}

/**
 * @param {number} value @param {number} lower @param {number} upper
 * @param {[number, number]} ends of all rows
 * @returns {SVGElement} a dot on its interval
 */
function whisker(value, lower, upper, ends) {
  const x = (/** @type {number} */ at) => (4 + (172 * (at - ends[0])) / (ends[1] - ends[0] || 1)).toFixed(1);
  return drawing("svg", { class: "whisker", viewBox: "0 0 180 12", width: 180, height: 12, "aria-hidden": "true" },
    drawing("line", { x1: x(lower), x2: x(upper), y1: 6, y2: 6 }), drawing("circle", { cx: x(value), cy: 6, r: 2.6 }));
}

/**
 * @param {Predicted} found
 * @param {string[]} names
 * @returns {string} the same as CSV
 */
export function predictionCsv(found, names) {
  if (found.classes.length) {
    return csv([["spectrum", "class", ...found.classes.map((name) => `p(${name})`)],
      ...found.rows.map((row, i) => [names[i], row.class ?? "", ...(row.probabilities ?? [])])]);
  }
  const spread = found.coverage !== null;
  return csv([
    ["spectrum", ...found.targets.flatMap(({ name, unit }) => [named(name, unit), ...(spread ? [named(`${name} lower`, unit), named(`${name} upper`, unit)] : [])])],
    ...found.rows.map((row, i) => [names[i], ...(row.values ?? []).flatMap(({ value, lower, upper }) => [value, ...(spread ? [lower, upper] : [])])]),
  ]);
}
