/** Spectra panel: predictions of files of spectra, and the attribution map of a chosen one. */

import { fileDrop } from "./file-drop.js";
import { select, element, field } from "./dom.js";
import { LatestRequest } from "./latest-request.js";
import { StatusLine } from "./status.js";
import { labelWithUnit, formatNumber } from "./format.js";
import { Plot } from "./plot.js";
import { predictionCsv, predictionTable } from "./prediction-table.js";
import { radiationFields } from "./radiation-fields.js";
import { downloadButton } from "./download.js";
import { ApiError } from "./api.js";
import { drawSpectrum } from "./spectrum-plot.js";

/** @typedef {import("./types.js").Model} Model */
/** @typedef {{files: File[]} | {samples: import("./types.js").Sample[]}} Source */
/** @typedef {{source: Source, index: number, file: number, row: number}} Chosen the chosen row of the table and its source */

const COVERAGES = [0.5, 0.68, 0.8, 0.9, 0.95, 0.99];
const DEFAULT_COVERAGE = 0.9;
const NO_MAP = "An exported model has no attribution maps; serve its run folder to see them.";

/**
 * @param {import("./api.js").Api} api
 * @param {import("./types.js").ServiceInfo} info
 * @param {import("./types.js").Examples} examples
 * @param {Model[]} models that take spectra, patterns or sets
 * @returns {HTMLElement}
 */
export function spectraPanel(api, info, examples, models) {
  return new SpectraPanel(api, info, examples, models).element;
}

class SpectraPanel {
  /**
   * @param {import("./api.js").Api} api
   * @param {import("./types.js").ServiceInfo} info
   * @param {import("./types.js").Examples} examples
   * @param {Model[]} models
   */
  constructor(api, info, examples, models) {
    this.element = element("section");
    this._api = api;
    this._examples = examples;
    this._model = models[0];
    /** @type {Chosen | null} */
    this._chosen = null;
    this._status = new StatusLine();
    this._results = element("div", { class: "results", hidden: true });
    this._about = element("p", { class: "lead" });
    this._radiation = radiationFields(info.anodes);
    this._plot = new Plot("The chosen spectrum");
    this._title = element("h2");
    this._requests = new LatestRequest((/** @type {Chosen} */ chosen, signal) => this._draw(chosen, signal), 50);
    this._maps = select([], () => this._chosen && this._requests.put(this._chosen));
    this._mapField = field("Along the axis", this._maps);
    this._plot.tools.prepend(this._mapField);
    this._coverage = select([], () => this._chosen && this._predict(this._chosen.source));
    this._coverageField = field("Intervals", this._coverage);
    this._drop = fileDrop(this.element, {
      label: "Drop a file of spectra here", formats: this._model.formats, several: true, most: info.limits.body,
      take: (files) => this._predict({ files }),
      fail: (reason) => this._status.fail(reason),
    });
    this._exampleArea = element("div", { class: "examples" });
    const picker = models.length > 1 ? field("Model", select(models.map(({ name }) => [name, name]), (name) => {
      this._useModel(models.find((model) => model.name === name) ?? this._model);
    })) : null;
    this.element.append(...[
      element("h1", {}, "Quantities from spectra"), picker, this._about,
      element("div", { class: "start" }, this._drop.element, this._exampleArea), this._radiation.element, this._status.element, this._results,
    ].filter((part) => part !== null));
    this._useModel(this._model);
  }

  /** @param {Model} model */
  _useModel(model) {
    this._status.stop();
    this._hideResults();
    this._model = model;
    this._about.textContent = describeModel(model);
    this._drop.formats(model.formats);
    this._radiation.element.hidden = model.kind !== "pattern";
    this._maps.replaceChildren(...model.maps.map((name) => element("option", { value: name }, name)));
    this._mapField.hidden = !model.maps.length;
    const possible = COVERAGES.filter((share) => share <= (model.coverage ?? 0));
    this._coverage.replaceChildren(...possible.map((share) => element("option", { value: share }, `${Math.round(100 * share)} %`)));
    this._coverage.value = String(Math.max(0, ...possible.filter((share) => share <= DEFAULT_COVERAGE)));
    const samples = this._examples.samples.filter((sample) => sample.model === model.name);
    this._exampleArea.hidden = !samples.length;
    this._exampleArea.replaceChildren(element("h2", {}, "Examples"), element("button", { type: "button", class: "example", click: () => this._predict({ samples }) },
      element("b", {}, `${samples.length} samples of the run's test part`), element("span", { class: "quiet" }, "predictions beside the true values")));
  }

  /** Hide the results, which would otherwise stand below a message about another file. */
  _hideResults() {
    this._requests.cancel();
    this._chosen = null;
    this._results.hidden = true;
  }

  /** @param {Source} source */
  async _predict(source) {
    this._requests.cancel();
    const model = this._model;
    const interval = this._coverage.value ? { coverage: Number(this._coverage.value) } : {};
    const result = await this._status.during("Predicting", (signal) => {
      if ("samples" in source) return this._api.post("v1/predict", { model: model.name, samples: source.samples.map(({ sample }) => sample), ...interval }, signal);
      const form = new FormData();
      form.set("model", model.name);
      for (const [name, value] of Object.entries(interval)) form.set(name, String(value));
      for (const file of source.files) form.append("file", file);
      if (model.kind === "pattern") this._radiation.fill(form);
      return this._api.post("v1/predict", form, signal);
    });
    if (model !== this._model) return;
    if (result) this._show(result, source);
    else if (this._status.reason) this._hideResults();
  }

  /** @param {import("./types.js").Predictions} result @param {Source} source */
  _show(result, source) {
    const model = this._model;
    const names = result.rows.map(({ file, row }, i) => {
      if ("samples" in source) return source.samples[i].name;
      return source.files.length > 1 ? `${source.files[file].name} ${row + 1}` : `${row + 1}`;
    });
    const choose = (/** @type {number} */ index) => {
      const { file, row } = result.rows[index];
      this._chosen = { source, index, file, row };
      this._title.textContent = /^\d+$/.test(names[index]) ? `Spectrum ${names[index]}` : names[index];
      this._requests.put(this._chosen);
    };
    const hasPlot = "samples" in source || model.maps.length > 0;
    this._results.replaceChildren(...[
      predictionTable(result, names, "samples" in source ? source.samples.map(({ truth }) => truth) : null, choose),
      element("div", { class: "row" }, downloadButton("Predictions as CSV", `${model.name}-predictions.csv`, "text/csv", () => predictionCsv(result, names)),
        this._coverage.value ? this._coverageField : null),
      ...(hasPlot ? [this._title, this._plot.element] : []), model.maps.length ? null : element("p", { class: "quiet" }, NO_MAP),
    ].filter((part) => part !== null));
    this._results.hidden = false;
    this._status.say(`${result.rows.length} predictions.`);
    choose(0);
  }

  /** @param {Chosen} chosen @param {AbortSignal} signal */
  async _draw(chosen, signal) {
    try {
      const result = await this._explain(chosen, signal);
      if (!signal.aborted && result) drawSpectrum(this._plot, result);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this._status.fail(error.message);
    }
  }

  /** @param {Chosen} chosen @param {AbortSignal} signal @returns {Promise<any>} */
  async _explain({ source, index, file, row }, signal) {
    const model = this._model;
    if ("samples" in source) {
      const { sample } = source.samples[index];
      if (model.maps.length) return this._api.post("v1/explain", { model: model.name, sample, maps: [this._maps.value] }, signal);
      return { on: "grid", axes: model.axes, channels: model.channels, sample, maps: [], places: [] };
    }
    if (!model.maps.length) return null;
    const form = new FormData();
    form.set("file", source.files[file]);
    form.set("row", String(row));
    form.set("model", model.name);
    form.set("maps", this._maps.value);
    if (model.kind === "pattern") this._radiation.fill(form);
    return this._api.post("v1/explain", form, signal);
  }
}

/** @param {Model} model @returns {string} input and output of the model */
function describeModel(model) {
  const output = model.classes.length ? `one of ${model.classes.length} classes` : model.targets.map(({ name, unit }) => labelWithUnit(name, unit)).join(", ");
  const [axis] = model.axes;
  if (model.kind === "pattern") return `${model.name} predicts ${output} from powder patterns, one per file.`;
  if (model.kind === "set") return `${model.name} predicts ${output} from sets of at most ${axis.count} elements.`;
  const last = axis.origin + axis.spacing * (axis.count - 1);
  return `${model.name} predicts ${output} from spectra of ${axis.count} points, ${formatNumber(axis.origin)} to ${formatNumber(last)}${axis.unit ? ` ${axis.unit}` : ""}. One spectrum per row; the first row of a CSV file is the axis.`;
}
