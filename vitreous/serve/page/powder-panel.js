/** Powder panel: from a pattern to its unit cell, or to the phases of its sample. */

import { cellSearch } from "./cell-search.js";
import { fileDrop } from "./file-drop.js";
import { select, element, field } from "./dom.js";
import { StatusLine } from "./status.js";
import { phaseSearch } from "./phase-search.js";
import { Plot } from "./plot.js";
import { radiationFields } from "./radiation-fields.js";

/**
 * @typedef {{file: File} | {example: string}} Source
 * @typedef {{stem: string, plot: Plot, view: import("./powder-axes.js").View, say: (text: string) => void}} Place where
 *   an answer is shown; `stem` begins the names of downloaded files
 * @typedef {{parts: (HTMLElement | null)[], draw: () => void, summary: string}} Shown
 */

/**
 * A question about a pattern, which the service answers.
 *
 * @template Answer
 * @typedef {object} Question
 * @property {string} button
 * @property {string} title of the panel
 * @property {string} path
 * @property {"linear" | "root"} scale of the heights at first
 * @property {HTMLElement} fields of the request
 * @property {(name: string) => string} progress
 * @property {() => string} fault what is wrong with the fields, which get the focus; empty if nothing is
 * @property {(isFile: boolean) => Record<string, string[] | number | boolean>} request
 * @property {() => void} focusFault focus the field of elements, which an error is about
 * @property {(answer: Answer, place: Place) => Shown} show
 */

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
  /** @type {Question<any>[]} */
  const questions = [cellSearch(powder), ...(info.database ? [phaseSearch(info.database)] : [])];
  let question = questions[0];
  /** @type {Source | null} */
  let source = null;
  /** @type {Map<Question<any>, Shown & {name: string}>} */
  const answers = new Map(); // about this source
  const title = element("h1", {}, question.title);
  const again = element("button", { type: "button", disabled: true, click: () => source && ask(source) }, "Search again");
  const options = element("details", { class: "options" }, element("summary", {}, "Radiation and search"),
    radiation.element, ...questions.map(({ fields }) => fields), element("p", {}, again));
  const choices = questions.map((each) => element("button", { type: "button", click: () => choose(each) }, each.button));

  /** @param {Question<any>} next */
  function choose(next) {
    const changed = next !== question;
    question = next;
    title.textContent = next.title;
    view.scale = height.value = next.scale;
    for (const [i, each] of questions.entries()) {
      choices[i].setAttribute("aria-pressed", String(each === next));
      each.fields.hidden = each !== next;
    }
    if (!source || !changed) return;
    const shown = answers.get(next);
    if (shown) {
      status.stop();
      status.fail("");
      show(shown);
      return;
    }
    results.hidden = true;
    void ask(source);
  }

  const drop = fileDrop(panel, {
    label: "Drop a powder pattern here",
    formats: powder.formats,
    most: info.limits.body,
    take: ([file]) => ask({ file }),
    fail: (reason) => status.fail(reason),
  });

  /** @param {Source} next */
  async function ask(next) {
    if (source !== next) answers.clear();
    source = next;
    again.disabled = false;
    const asked = question;
    if (asked.fault()) {
      options.open = results.hidden = true;
      status.stop();
      status.fail(asked.fault()); // which can focus a field now
      return;
    }
    const name = "file" in next ? next.file.name : next.example;
    const answer = await status.during(asked.progress(name), (signal) => {
      const fields = asked.request("file" in next);
      if ("example" in next) return api.post(asked.path, { example: next.example, ...fields }, signal);
      const form = new FormData();
      form.set("file", next.file);
      for (const [key, value] of Object.entries(fields)) form.set(key, String(value));
      radiation.fill(form);
      return api.post(asked.path, form, signal);
    });
    if (answer) {
      const place = { stem: name.replace(/\.[^.]*$/, ""), plot, view, say: (/** @type {string} */ text) => status.say(text) };
      const shown = { name, ...asked.show(answer, place) };
      answers.set(asked, shown);
      show(shown);
    } else results.hidden ||= status.reason !== "";
    if (/wavelength|anode/.test(status.reason)) {
      options.open = true;
      radiation.focus();
    } else if (/^elements/.test(status.reason)) {
      options.open = true;
      asked.focusFault();
    }
  }

  const plot = new Plot("Powder pattern");
  /** @type {import("./powder-axes.js").View} */
  const view = { axis: "angle", scale: "linear" };
  let draw = () => {};
  const height = select([["linear", "linear"], ["root", "√"]], (value) => {
    view.scale = /** @type {"linear" | "root"} */ (value);
    draw();
  });
  plot.tools.prepend(
    field("Axis", select([["angle", "2θ (°)"], ["q", "q (Å⁻¹)"]], (value) => {
      view.axis = /** @type {"angle" | "q"} */ (value);
      draw();
    })),
    field("Height", height));

  /** @param {Shown & {name: string}} shown */
  function show(shown) {
    results.replaceChildren(element("h2", { class: "file-name" }, shown.name), ...shown.parts.filter((part) => part !== null));
    results.hidden = false;
    draw = shown.draw;
    draw();
    status.say(shown.summary);
  }

  choose(question);
  panel.append(title,
    ...(questions.length > 1 ? [element("div", { class: "question", role: "group", "aria-label": "Question" }, ...choices)] : []),
    element("div", { class: "start" }, drop.element,
      examples.patterns.length ? element("div", { class: "examples" }, element("h2", {}, "Examples"),
        ...examples.patterns.map(({ name, about }) => element("button", { type: "button", class: "example", click: () => ask({ example: name }) },
          element("b", {}, name), element("span", { class: "quiet" }, about)))) : null),
    options, status.element, results);
  return panel;
}
