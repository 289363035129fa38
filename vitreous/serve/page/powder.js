/** The panel of powder patterns: from a file to its unit cell. */

import { cellTable, lattice, verdict } from "./cells.js";
import { dropPlace } from "./drop.js";
import { choice, element, field, fresh } from "./element.js";
import { Notice } from "./notice.js";
import { percent } from "./numbers.js";
import { Plot } from "./plot.js";
import { drawPattern } from "./powder-plot.js";
import { radiationFields } from "./radiation.js";
import { saveButton } from "./save.js";

/** @typedef {import("./answers.js").Indexed} Indexed */
/** @typedef {{file: File} | {example: string}} Source */

/**
 * @param {import("./service.js").Service} service
 * @param {import("./answers.js").Served} served
 * @param {import("./answers.js").Examples} examples
 * @returns {HTMLElement}
 */
export function powderPanel(service, served, examples) {
  const powder = /** @type {import("./answers.js").Powder} */ (served.powder);
  const panel = element("section");
  const notice = new Notice();
  const results = element("div", { class: "results", hidden: true });
  const radiation = radiationFields(served.anodes);
  const systems = powder.systems.map((name) => element("input", { type: "checkbox", value: name, checked: true, id: fresh() }));
  const lines = element("input", { type: "checkbox", id: fresh() });
  const again = element("button", { type: "button", disabled: true, click: () => source && search(source) }, "Search again");
  /** @type {Source | null} */
  let source = null;

  const options = element("details", { class: "options" }, element("summary", {}, "Radiation and search"),
    radiation.element,
    element("fieldset", {}, element("legend", {}, "Crystal systems to search"),
      ...systems.map((box) => element("span", { class: "check" }, box, element("label", { for: box.id }, box.value)))),
    element("p", { class: "check" }, lines, element("label", { for: lines.id }, "The file is a list of lines (2θ in °, intensity), not a pattern")),
    element("p", {}, again));

  const place = dropPlace(panel, {
    label: "Drop a powder pattern here",
    formats: powder.formats,
    most: served.limits.body,
    take: ([file]) => search({ file }),
    fail: (reason) => notice.fail(reason),
  });

  /** @param {Source} wanted */
  async function search(wanted) {
    source = wanted;
    again.disabled = false;
    const system = systems.filter((box) => box.checked).map((box) => box.value);
    if (!system.length) {
      notice.stop();
      notice.fail("Tick a crystal system to search.");
      results.hidden = options.open = true;
      systems[0].focus();
      return;
    }
    const name = "file" in wanted ? wanted.file.name : wanted.example;
    const found = await notice.during(`Searching for the cell of ${name}`, (signal) => {
      if ("example" in wanted) return service.post("v1/index", { example: wanted.example, system }, signal);
      const form = new FormData();
      form.set("file", wanted.file);
      form.set("system", system.join(","));
      if (lines.checked) form.set("peaks", "true");
      radiation.fill(form);
      return service.post("v1/index", form, signal);
    });
    if (found) show(found, name);
    else results.hidden ||= notice.reason !== "";
    if (/wavelength|anode/.test(notice.reason)) {
      options.open = true;
      radiation.focus();
    }
  }

  const plot = new Plot("Powder pattern");
  /** @type {import("./powder-plot.js").View} */
  const view = { axis: "angle", scale: "linear" };
  let draw = () => {};
  plot.tools.prepend(
    field("Axis", choice([["angle", "2θ (°)"], ["q", "q (Å⁻¹)"]], (value) => {
      view.axis = /** @type {"angle" | "q"} */ (value);
      draw();
    })),
    field("Height", choice([["linear", "linear"], ["root", "√"]], (value) => {
      view.scale = /** @type {"linear" | "root"} */ (value);
      draw();
    })));

  /** @param {Indexed} found @param {string} name */
  function show(found, name) {
    const wavelength = found.pattern?.wavelength ?? (found.peaks.length ? 2 * found.peaks[0].d * Math.sin((found.peaks[0].two_theta * Math.PI) / 360) : 1);
    let chosen = 0;
    draw = () => drawPattern(plot, found, chosen, wavelength, view, false);
    const stem = name.replace(/\.[^.]*$/, "");
    const cif = saveButton("CIF of cell 1", `${stem}.cif`, "chemical/x-cif", () => (chosen === 0 ? found.cif : found.cells[chosen].cif));
    const saves = found.cells.length ? element("p", { class: "row" }, cif,
      saveButton("All cells as CSV", `${stem}-cells.csv`, "text/csv", () => found.csv)) : null;
    const remark = element("p", { class: "quiet" });
    const choose = (/** @type {number} */ which) => {
      chosen = which;
      cif.textContent = `CIF of cell ${which + 1}`;
      drawPattern(plot, found, chosen, wavelength, view, true);
      remark.textContent = remarks(found, which);
      notice.say(`Cell ${which + 1}, ${lattice(found.cells[which])}: ${found.cells[which].ticks.length} reflections are marked.`);
    };
    results.replaceChildren(...[
      verdict(found), found.peaks.length || found.pattern ? plot.element : null, remark,
      found.cells.length ? cellTable(found, choose) : null, saves,
    ].filter((part) => part !== null));
    results.hidden = false;
    remark.textContent = found.cells.length ? remarks(found, 0) : "";
    draw();
    notice.say(spoken(found));
  }

  panel.append(
    element("h1", {}, "Unit cell from a powder pattern"),
    element("div", { class: "start" }, place.element,
      examples.patterns.length ? element("div", { class: "examples" }, element("h2", {}, "Or try one of these"),
        ...examples.patterns.map(({ name, about }) => element("button", { type: "button", class: "example", click: () => search({ example: name }) },
          element("b", {}, name), element("span", { class: "quiet" }, about)))) : null),
    options, notice.element, results);
  return panel;
}

/** @param {Indexed} found @param {number} which @returns {string} what is to be known about a candidate's marks */
function remarks(found, which) {
  if (which === 0 && found.fit) return "";
  const few = found.cells[which].ticks.length >= 400 ? "The first 400 reflections are marked. " : "";
  return few + (found.pattern ? "Only a likely first cell is refined; this one has no fit and no standard errors." : "A list of lines cannot be refined: there is no fit, and there are no standard errors.");
}

/** @param {Indexed} found @returns {string} */
function spoken(found) {
  const best = found.cells[0];
  if (!best) return "No cell found.";
  return `${found.verdict === "likely" ? "Likely cell" : "Unsure"}: ${lattice(best)}, probability ${percent(best.probability)}.`;
}
