/** Image panel: draw or drop an image, and see its classes and attention. */

import { fileDrop } from "./file-drop.js";
import { select, element, field } from "./dom.js";
import { rasterize, measureFraming } from "./rasterize.js";
import { LatestRequest } from "./latest-request.js";
import { StatusLine } from "./status.js";
import { formatPercent, formatNumber } from "./format.js";
import { paintImage } from "./paint-image.js";
import { familiarityNote } from "./prediction-table.js";
import { ApiError } from "./api.js";
import { DrawingCanvas } from "./drawing-canvas.js";

/** @typedef {import("./types.js").Model} Model */
/** @typedef {import("./types.js").Row} Row */
/** @typedef {{sample: any} | {file: File}} Subject */

const PAUSE = 60; // milliseconds between two requests
const MAX_BARS = 10;

/**
 * @param {import("./api.js").Api} api
 * @param {import("./types.js").ServiceInfo} info
 * @param {import("./types.js").Examples} examples
 * @param {Model[]} models that take images
 * @returns {HTMLElement}
 */
export function imagePanel(api, info, examples, models) {
  return new ImagePanel(api, info, examples, models).element;
}

class ImagePanel {
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
    /** @type {Subject | null} */
    this._subject = null;
    /** @type {import("./rasterize.js").Framing} */
    this._framing = { fill: 1, mass: false };
    this._status = new StatusLine();
    this._prediction = new PredictionView(() => this._ask());
    this._requests = new LatestRequest((/** @type {Subject} */ subject, signal) => this._predict(subject, signal), PAUSE);
    this._canvas = new DrawingCanvas(0.09, (strokes) => this._onDraw(strokes));
    this._drawArea = element("div", { class: "draw" }, element("h2", {}, "Your drawing"), this._canvas.canvas, element("p", { class: "row" },
      element("button", { type: "button", click: () => this._canvas.undo() }, "Undo"), element("button", { type: "button", click: () => this._canvas.clear() }, "Clear")));
    this._drop = fileDrop(this.element, {
      label: "Drop an image", formats: this._model.formats, most: info.limits.body,
      take: ([file]) => this._replace({ file }),
      fail: (reason) => this._status.fail(reason),
    });
    this._thumbs = element("div", { class: "thumbs" });
    this._exampleArea = element("div", {}, element("h2", {}, "Or choose an example"), this._thumbs);
    this._fill(models);
    this._useModel(this._model);
  }

  /** @param {Model[]} models */
  _fill(models) {
    const canDraw = models.some(({ white }) => white !== null);
    const picker = models.length > 1 ? field("Model", select(models.map(({ name }) => [name, name]), (name) => {
      this._useModel(models.find((model) => model.name === name) ?? this._model);
    })) : null;
    this.element.append(...[
      element("h1", {}, canDraw ? "Draw a digit, or drop an image" : "Drop an image"), picker, this._status.element,
      element("div", { class: "image-flow" }, this._drawArea, this._prediction.view, this._prediction.classes),
      element("div", { class: "start" }, this._drop.element, this._exampleArea),
    ].filter((part) => part !== null));
  }

  /** @param {Model} model */
  _useModel(model) {
    this._model = model;
    this._drop.formats(model.formats);
    const samples = this._examples.samples.filter((sample) => sample.model === model.name);
    this._framing = measureFraming(samples.map(({ sample }) => sample), Math.min(model.input[1], model.input[2]));
    this._drawArea.hidden = model.white === null;
    this._prediction.useModel(model);
    this._thumbs.replaceChildren(...samples.map(({ name, truth, sample }) => {
      const thumb = element("canvas", { "aria-hidden": "true" });
      paintImage(thumb, sample, model.white, null);
      return element("button", { type: "button", class: "thumb", "aria-label": `Example: ${name}, true class ${truth}`, click: () => this._replace({ sample }) },
        thumb, element("span", { class: "quiet" }, truth));
    }));
    this._exampleArea.hidden = !samples.length;
    this._canvas.clear();
  }

  /** @param {import("./drawing-canvas.js").Stroke[]} strokes */
  _onDraw(strokes) {
    if (!strokes.length) {
      this._requests.cancel();
      this._subject = null;
      this._prediction.clear();
      return;
    }
    const [, rows, columns] = this._model.input;
    const ink = rasterize(strokes, this._canvas.width, rows, columns, this._framing);
    const white = this._model.white ?? 1;
    this._ask({ sample: this._model.channels.map(() => ink.map((row) => row.map((value) => round(value * white)))) });
  }

  /** Replace the drawing by a file or an example. @param {Subject} subject */
  _replace(subject) {
    this._canvas.clear();
    this._ask(subject);
  }

  /** @param {Subject | null} [subject] default: the previous subject */
  _ask(subject = this._subject) {
    this._subject = subject;
    if (subject) this._requests.put(subject);
  }

  /** @param {Subject} subject @param {AbortSignal} signal */
  async _predict(subject, signal) {
    const model = this._model;
    try {
      const result = await request(this._api, model, this._prediction.map, subject, signal);
      if (signal.aborted || model !== this._model) return;
      this._status.fail("");
      const sample = result.sample ?? ("sample" in subject ? subject.sample : null);
      this._status.say(this._prediction.show(model, result.row, sample, result.maps?.[0]?.values ?? null));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this._status.fail(error.message);
    }
  }
}

/** The input of the model with its attention, and the predicted classes or quantities. */
class PredictionView {
  /** @param {() => void} change called after another map was chosen */
  constructor(change) {
    this._image = element("canvas", { class: "picture", role: "img", "aria-label": "Input of the model" });
    this._answer = element("p", { class: "answer" });
    this._bars = element("ol", { class: "bars", "aria-label": "Probability of each class" });
    this._maps = select([], change);
    this._mapField = field("Show", this._maps);
    this._scale = element("p", { class: "heat-scale quiet" }, element("span", {}, "least"), element("span", { class: "heat", "aria-hidden": "true" }), element("span", {}, "most"));
    this.view = element("figure", { class: "view" }, element("figcaption", {}, "Input of the model, and its attention"), this._image, this._scale, this._mapField);
    this.classes = element("div", { class: "classes" }, this._answer, this._bars);
  }

  /** @returns {string} the chosen map; empty for none */
  get map() {
    return this._maps.value;
  }

  /** @param {Model} model */
  useModel(model) {
    this._maps.replaceChildren(...[...model.maps, ""].map((name) => element("option", { value: name }, name || "image only")));
    this._mapField.hidden = !model.maps.length;
  }

  clear() {
    [this._image.width, this._image.height] = [1, 1];
    this._scale.hidden = true;
    this._bars.replaceChildren();
    this._answer.replaceChildren(element("span", { class: "quiet" }, "The prediction appears here."));
  }

  /**
   * @param {Model} model @param {Row} row @param {any} sample @param {any} map
   * @returns {string} the prediction in words
   */
  show(model, row, sample, map) {
    this._scale.hidden = !map;
    if (sample) paintImage(this._image, sample, model.white, map);
    this._bars.replaceChildren(...(row.probabilities ? classBars(model.classes, row.probabilities) : []));
    const notes = [familiarityNote(row)].filter((note) => note !== null);
    if (row.values) {
      this._answer.replaceChildren(...row.values.map((value) => element("span", { class: "value" }, `${value.name} ${formatNumber(value.value)} ${value.unit}`)), ...notes);
      return this._answer.textContent ?? "";
    }
    const probability = `probability ${formatPercent(row.probability ?? 0)}`;
    this._answer.replaceChildren(element("b", {}, row.class ?? ""), element("span", { class: "quiet" }, probability), ...notes);
    return [`${row.class}, ${probability}`, ...notes.map((note) => note.textContent)].join(", ");
  }
}

/**
 * @param {import("./api.js").Api} api
 * @param {Model} model
 * @param {string} map name of the map to show; empty for none
 * @param {Subject} subject
 * @param {AbortSignal} signal
 * @returns {Promise<{row: Row, sample?: any, maps?: import("./types.js").Map[]}>}
 */
async function request(api, model, map, subject, signal) {
  const explain = model.maps.length > 0;
  const path = explain ? "v1/explain" : "v1/predict";
  const maps = explain ? [map || model.maps[0]] : [];
  let reply;
  if ("file" in subject) {
    const form = new FormData();
    form.set("file", subject.file);
    form.set("model", model.name);
    if (explain) form.set("maps", maps.join(","));
    reply = await api.post(path, form, signal);
  } else if (explain) reply = await api.post(path, { model: model.name, sample: subject.sample, maps }, signal);
  else reply = await api.post(path, { model: model.name, samples: [subject.sample] }, signal);
  return explain ? { ...reply, maps: map ? reply.maps : [] } : { row: reply.rows[0] };
}

/** @param {string[]} classes @param {number[]} probabilities @returns {HTMLElement[]} */
function classBars(classes, probabilities) {
  const best = probabilities.indexOf(Math.max(...probabilities));
  let order = classes.map((_, i) => i);
  if (order.length > MAX_BARS) order = order.sort((a, b) => probabilities[b] - probabilities[a]).slice(0, MAX_BARS);
  return order.map((i) => {
    const fill = element("span", { class: "fill" });
    fill.style.inlineSize = `${100 * probabilities[i]}%`;
    return element("li", { class: i === best ? "best" : null }, element("span", { class: "name" }, classes[i]),
      element("span", { class: "track", "aria-hidden": "true" }, fill), element("span", { class: "number" }, formatPercent(probabilities[i])));
  });
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 1e4) / 1e4;
}
