/** The panel of spectra: a file of them, a prediction for each, and where the model looked in the chosen one. */

import { dropPlace } from "./drop.js";
import { choice, element, field } from "./element.js";
import { Latest } from "./latest.js";
import { Notice } from "./notice.js";
import { named, short } from "./numbers.js";
import { Plot } from "./plot.js";
import { predictionCsv, predictionTable } from "./predictions.js";
import { radiationFields } from "./radiation.js";
import { saveButton } from "./save.js";
import { ServiceFault } from "./service.js";
import { drawSpectrum } from "./spectrum-plot.js";

/** @typedef {import("./answers.js").Model} Model */
/** @typedef {{files: File[]} | {samples: import("./answers.js").Sample[]}} Source */
/** @typedef {{source: Source, which: number, file: number, row: number}} Chosen a row of the table that is shown, and what that is of */

const COVERAGES = [0.5, 0.68, 0.8, 0.9, 0.95, 0.99];
const USUAL = 0.9;
const NO_MAP = "An exported file cannot be looked into: serve its run folder to see where it looked.";

/**
 * @param {import("./service.js").Service} service
 * @param {import("./answers.js").Served} served
 * @param {import("./answers.js").Examples} examples
 * @param {Model[]} models of spectra, patterns and sets
 * @returns {HTMLElement}
 */
export function spectraPanel(service, served, examples, models) {
  const panel = element("section");
  const notice = new Notice();
  const results = element("div", { class: "results", hidden: true });
  const about = element("p", { class: "lead" });
  const radiation = radiationFields(served.anodes);
  let model = models[0];
  /** @type {Chosen | null} */
  let chosen = null;

  const plot = new Plot("The chosen spectrum");
  const title = element("h2");
  const maps = choice([], () => chosen && latest.put(chosen));
  const mapField = field("Along the axis", maps);
  plot.tools.prepend(mapField);
  const coverage = choice([], () => chosen && predict(chosen.source));
  const coverageField = field("Intervals", coverage);

  const latest = new Latest(async (/** @type {Chosen} */ wanted, signal) => {
    try {
      const found = await explain(wanted, signal);
      if (!signal.aborted && found) drawSpectrum(plot, found);
    } catch (fault) {
      if (signal.aborted) return;
      if (!(fault instanceof ServiceFault)) throw fault;
      notice.fail(fault.message);
    }
  }, 50);

  /** @param {Chosen} wanted @param {AbortSignal} signal @returns {Promise<any>} */
  async function explain({ source, which, file, row }, signal) {
    if ("samples" in source) {
      const { sample } = source.samples[which];
      if (model.maps.length) return service.post("v1/explain", { model: model.name, sample, maps: [maps.value] }, signal);
      return { on: "grid", axes: model.axes, channels: model.channels, sample, maps: [], places: [] };
    }
    if (!model.maps.length) return null;
    const form = new FormData();
    form.set("file", source.files[file]);
    form.set("row", String(row));
    form.set("model", model.name);
    form.set("maps", maps.value);
    if (model.kind === "pattern") radiation.fill(form);
    return service.post("v1/explain", form, signal);
  }

  /** @param {Source} wanted */
  async function predict(wanted) {
    latest.drop();
    const asked = model;
    const spread = coverage.value ? { coverage: Number(coverage.value) } : {};
    const found = await notice.during("Predicting", (signal) => {
      if ("samples" in wanted) return service.post("v1/predict", { model: asked.name, samples: wanted.samples.map(({ sample }) => sample), ...spread }, signal);
      const form = new FormData();
      form.set("model", asked.name);
      for (const [name, value] of Object.entries(spread)) form.set(name, String(value));
      for (const file of wanted.files) form.append("file", file);
      if (asked.kind === "pattern") radiation.fill(form);
      return service.post("v1/predict", form, signal);
    });
    if (asked !== model) return;
    if (found) show(found, wanted);
    else if (notice.reason) forget();
  }

  /** @param {import("./answers.js").Predicted} found @param {Source} wanted */
  function show(found, wanted) {
    const names = found.rows.map(({ file, row }, i) => {
      if ("samples" in wanted) return wanted.samples[i].name;
      return wanted.files.length > 1 ? `${wanted.files[file].name} ${row + 1}` : `${row + 1}`;
    });
    const choose = (/** @type {number} */ which) => {
      const { file, row } = found.rows[which];
      chosen = { source: wanted, which, file, row };
      title.textContent = /^\d+$/.test(names[which]) ? `Spectrum ${names[which]}` : names[which];
      latest.put(chosen);
    };
    const seen = "samples" in wanted || model.maps.length > 0;
    results.replaceChildren(...[
      predictionTable(found, names, "samples" in wanted ? wanted.samples.map(({ truth }) => truth) : null, choose),
      element("div", { class: "row" }, saveButton("Predictions as CSV", `${model.name}-predictions.csv`, "text/csv", () => predictionCsv(found, names)),
        coverage.value ? coverageField : null),
      ...(seen ? [title, plot.element] : []), model.maps.length ? null : element("p", { class: "quiet" }, NO_MAP),
    ].filter((part) => part !== null));
    results.hidden = false;
    notice.say(`${found.rows.length} predictions.`);
    choose(0);
  }

  /** Show no results: those of one file are not to stand below what is said of another. */
  function forget() {
    latest.drop();
    chosen = null;
    results.hidden = true;
  }

  const place = dropPlace(panel, {
    label: "Drop a file of spectra here", formats: model.formats, several: true, most: served.limits.body,
    take: (files) => predict({ files }),
    fail: (reason) => notice.fail(reason),
  });
  const tried = element("div", { class: "examples" });

  /** @param {Model} wanted */
  function use(wanted) {
    notice.stop();
    forget();
    model = wanted;
    about.textContent = described(model);
    place.formats(model.formats);
    radiation.element.hidden = model.kind !== "pattern";
    maps.replaceChildren(...model.maps.map((name) => element("option", { value: name }, name)));
    mapField.hidden = !model.maps.length;
    const most = model.coverage ?? 0;
    const possible = COVERAGES.filter((share) => share <= most);
    coverage.replaceChildren(...possible.map((share) => element("option", { value: share }, `${Math.round(100 * share)} %`)));
    coverage.value = String(Math.max(0, ...possible.filter((share) => share <= USUAL)));
    const samples = examples.samples.filter((sample) => sample.model === model.name);
    tried.hidden = !samples.length;
    tried.replaceChildren(element("h2", {}, "Or try it"), element("button", { type: "button", class: "example", click: () => predict({ samples }) },
      element("b", {}, `${samples.length} samples of the run's own test part`), element("span", { class: "quiet" }, "with what is known of them beside the prediction")));
  }

  const picker = models.length > 1 ? field("Model", choice(models.map(({ name }) => [name, name]), (name) => use(models.find((each) => each.name === name) ?? model))) : null;
  panel.append(...[
    element("h1", {}, "Quantities from spectra"), picker, about,
    element("div", { class: "start" }, place.element, tried), radiation.element, notice.element, results,
  ].filter((part) => part !== null));
  use(model);
  return panel;
}

/** @param {Model} model @returns {string} what it takes and gives */
function described(model) {
  const gives = model.classes.length ? `one of ${model.classes.length} classes` : model.targets.map(({ name, unit }) => named(name, unit)).join(", ");
  const [axis] = model.axes;
  if (model.kind === "pattern") return `${model.name} predicts ${gives} from powder patterns, a file each.`;
  if (model.kind === "set") return `${model.name} predicts ${gives} from sets of ${axis.count} elements at most.`;
  const last = axis.origin + axis.spacing * (axis.count - 1);
  return `${model.name} predicts ${gives} from spectra of ${axis.count} points, ${short(axis.origin)} to ${short(last)}${axis.unit ? ` ${axis.unit}` : ""}. One spectrum a row; the first row of a CSV file holds the axis.`;
}
