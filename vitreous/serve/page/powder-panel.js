/** Powder panel: from a pattern to its unit cell. */

import { cellTable, latticeName, verdictCard } from "./cell-table.js";
import { fileDrop } from "./file-drop.js";
import { select, element, field, newId } from "./dom.js";
import { StatusLine } from "./status.js";
import { formatPercent } from "./format.js";
import { Plot } from "./plot.js";
import { drawPattern } from "./powder-plot.js";
import { radiationFields } from "./radiation-fields.js";
import { downloadButton } from "./download.js";
import { secondPhase, symbolTable, unexplainedLines } from "./phase-details.js";

/** @typedef {import("./types.js").IndexResult} IndexResult */
/** @typedef {{file: File} | {example: string}} Source */

/**
 * @param {import("./api.js").Api} api
 * @param {import("./types.js").ServiceInfo} info
 * @param {import("./types.js").Examples} examples
 * @returns {HTMLElement}
 */
export function powderPanel(api, info, examples) {
  const powder = /** @type {import("./types.js").Powder} */ (info.powder);
  const panel = element("section");
  const status = new StatusLine();
  const results = element("div", { class: "results", hidden: true });
  const radiation = radiationFields(info.anodes);
  const systems = powder.systems.map((name) => element("input", { type: "checkbox", value: name, checked: true, id: newId() }));
  const peakList = element("input", { type: "checkbox", id: newId() });
  const searchAgain = element("button", { type: "button", disabled: true, click: () => source && search(source) }, "Search again");
  /** @type {Source | null} */
  let source = null;

  const options = element("details", { class: "options" }, element("summary", {}, "Radiation and search"),
    radiation.element,
    element("fieldset", {}, element("legend", {}, "Crystal systems to search"),
      ...systems.map((box) => element("span", { class: "check" }, box, element("label", { for: box.id }, box.value)))),
    element("p", { class: "check" }, peakList, element("label", { for: peakList.id }, "The file is a list of peaks (2θ in °, intensity), not a pattern")),
    element("p", {}, searchAgain));

  const drop = fileDrop(panel, {
    label: "Drop a powder pattern here",
    formats: powder.formats,
    most: info.limits.body,
    take: ([file]) => search({ file }),
    fail: (reason) => status.fail(reason),
  });

  /** @param {Source} next */
  async function search(next) {
    source = next;
    searchAgain.disabled = false;
    const system = systems.filter((box) => box.checked).map((box) => box.value);
    if (!system.length) {
      status.stop();
      status.fail("Select at least one crystal system.");
      results.hidden = options.open = true;
      systems[0].focus();
      return;
    }
    const name = "file" in next ? next.file.name : next.example;
    const result = await status.during(`Searching for the cell of ${name}`, (signal) => {
      if ("example" in next) return api.post("v1/index", { example: next.example, system }, signal);
      const form = new FormData();
      form.set("file", next.file);
      form.set("system", system.join(","));
      if (peakList.checked) form.set("peaks", "true");
      radiation.fill(form);
      return api.post("v1/index", form, signal);
    });
    if (result) show(result, name);
    else results.hidden ||= status.reason !== "";
    if (/wavelength|anode/.test(status.reason)) {
      options.open = true;
      radiation.focus();
    }
  }

  const plot = new Plot("Powder pattern");
  /** @type {import("./powder-plot.js").View} */
  const view = { axis: "angle", scale: "linear" };
  let draw = () => {};
  plot.tools.prepend(
    field("Axis", select([["angle", "2θ (°)"], ["q", "q (Å⁻¹)"]], (value) => {
      view.axis = /** @type {"angle" | "q"} */ (value);
      draw();
    })),
    field("Height", select([["linear", "linear"], ["root", "√"]], (value) => {
      view.scale = /** @type {"linear" | "root"} */ (value);
      draw();
    })));

  /** @param {IndexResult} result @param {string} name */
  function show(result, name) {
    const wavelength = result.pattern?.wavelength ?? (result.peaks.length ? 2 * result.peaks[0].d * Math.sin((result.peaks[0].two_theta * Math.PI) / 360) : 1);
    let chosen = 0;
    draw = () => drawPattern(plot, result, chosen, wavelength, view, false);
    const stem = name.replace(/\.[^.]*$/, "");
    const cif = downloadButton("CIF of cell 1", `${stem}.cif`, "chemical/x-cif", () => (chosen === 0 ? result.cif : result.cells[chosen].cif));
    const downloads = result.cells.length ? element("p", { class: "row" }, cif,
      downloadButton("All cells as CSV", `${stem}-cells.csv`, "text/csv", () => result.csv),
      downloadButton("Lines with indices as CSV", `${stem}-lines.csv`, "text/csv", () => result.lines_csv)) : null;
    const remarkLine = element("p", { class: "quiet" });
    const choose = (/** @type {number} */ index) => {
      chosen = index;
      cif.textContent = `CIF of cell ${index + 1}`;
      drawPattern(plot, result, chosen, wavelength, view, true);
      remarkLine.textContent = remarks(result, index);
      status.say(`Cell ${index + 1}, ${latticeName(result.cells[index])}: ${result.cells[index].ticks.length} reflections marked.`);
    };
    results.replaceChildren(...[
      element("h2", { class: "file-name" }, name),
      verdictCard(result), result.peaks.length || result.pattern ? plot.element : null, remarkLine,
      secondPhase(result, stem), unexplainedLines(result),
      result.cells.length ? cellTable(result, choose) : null, downloads, symbolTable(result),
    ].filter((part) => part !== null));
    results.hidden = false;
    remarkLine.textContent = result.cells.length ? remarks(result, 0) : "";
    draw();
    status.say(summary(result));
  }

  panel.append(
    element("h1", {}, "Unit cell from a powder pattern"),
    element("div", { class: "start" }, drop.element,
      examples.patterns.length ? element("div", { class: "examples" }, element("h2", {}, "Examples"),
        ...examples.patterns.map(({ name, about }) => element("button", { type: "button", class: "example", click: () => search({ example: name }) },
          element("b", {}, name), element("span", { class: "quiet" }, about)))) : null),
    options, status.element, results);
  return panel;
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
