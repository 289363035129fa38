/** The question which unit cell a powder pattern has: its fields, its request, and its answer. */

import { cellTable, latticeName, verdictCard } from "./cell-table.js";
import { element, newId } from "./dom.js";
import { downloadButton } from "./download.js";
import { formatPercent } from "./format.js";
import { secondPhase, symbolTable, unexplainedLines } from "./phase-details.js";
import { drawPattern } from "./powder-plot.js";
import { projectDownload } from "./project-download.js";

/** @typedef {import("./types.js").IndexResult} IndexResult */

/**
 * @param {import("./types.js").Powder} powder
 * @returns {import("./powder-panel.js").Question<IndexResult>}
 */
export function cellSearch(powder) {
  const systems = powder.systems.map((name) => element("input", { type: "checkbox", value: name, checked: true, id: newId() }));
  const peakList = element("input", { type: "checkbox", id: newId() });
  const chosen = () => systems.filter((box) => box.checked).map((box) => box.value);
  return {
    button: "Unit cell",
    title: "Unit cell from a powder pattern",
    path: "v1/index",
    scale: "linear",
    fields: element("div", {},
      element("fieldset", {}, element("legend", {}, "Crystal systems to search"),
        ...systems.map((box) => element("span", { class: "check" }, box, element("label", { for: box.id }, box.value)))),
      element("p", { class: "check" }, peakList, element("label", { for: peakList.id }, "The file is a list of peaks (2θ in °, intensity), not a pattern"))),
    progress: (name) => `Searching for the cell of ${name}`,
    fault() {
      if (chosen().length) return "";
      systems[0].focus();
      return "Select at least one crystal system.";
    },
    request: (isFile) => ({ system: chosen(), projects: powder.projects, ...(isFile && peakList.checked ? { peaks: true } : {}) }),
    focusFault: () => {},
    show: showCells,
  };
}

/**
 * @param {IndexResult} result
 * @param {import("./powder-panel.js").Place} place
 * @returns {import("./powder-panel.js").Shown}
 */
function showCells(result, { stem, plot, view, say }) {
  const wavelength = result.pattern?.wavelength ?? (result.peaks.length ? 2 * result.peaks[0].d * Math.sin((result.peaks[0].two_theta * Math.PI) / 360) : 1);
  let chosen = 0;
  const cif = downloadButton("CIF of cell 1", `${stem}.cif`, "chemical/x-cif", () => (chosen === 0 ? result.cif : result.cells[chosen].cif));
  const downloads = result.cells.length ? element("p", { class: "row" }, cif,
    downloadButton("All cells as CSV", `${stem}-cells.csv`, "text/csv", () => result.csv),
    downloadButton("Lines with indices as CSV", `${stem}-lines.csv`, "text/csv", () => result.lines_csv)) : null;
  const remarkLine = element("p", { class: "quiet" }, result.cells.length ? remarks(result, 0) : "");
  const choose = (/** @type {number} */ index) => {
    chosen = index;
    cif.textContent = `CIF of cell ${index + 1}`;
    drawPattern(plot, result, chosen, wavelength, view, true);
    remarkLine.textContent = remarks(result, index);
    say(`Cell ${index + 1}, ${latticeName(result.cells[index])}: ${result.cells[index].ticks.length} reflections marked.`);
  };
  return {
    parts: [
      verdictCard(result), result.peaks.length || result.pattern ? plot.element : null, remarkLine,
      secondPhase(result, stem), unexplainedLines(result),
      result.cells.length ? cellTable(result, choose) : null, symbolTable(result),
      downloads, projectDownload(result, stem),
    ],
    draw: () => drawPattern(plot, result, chosen, wavelength, view, false),
    summary: summary(result),
  };
}

/** @param {IndexResult} result @param {number} index @returns {string} remarks on the marked reflections */
function remarks(result, index) {
  if (index === 0 && result.fit) return "";
  const few = result.cells[index].ticks.length >= 400 ? "The first 400 reflections are marked. " : "";
  return few + (result.pattern ? "Only a likely first cell is refined; this cell has no fit and no standard errors." : "A peak list cannot be refined: there is no fit and no standard errors.");
}

/** @param {IndexResult} result @returns {string} */
function summary(result) {
  const best = result.cells[0];
  if (!best) return "No cell found.";
  return `${result.verdict === "likely" ? "Likely cell" : "Unsure"}: ${latticeName(best)}, probability ${formatPercent(best.probability)}.`;
}
