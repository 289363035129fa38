/** The panel of images: draw or drop one, and see classes and attention as it grows. */

import { dropPlace } from "./drop.js";
import { choice, element, field } from "./element.js";
import { framed, framingOf } from "./frame.js";
import { Latest } from "./latest.js";
import { Notice } from "./notice.js";
import { percent, short } from "./numbers.js";
import { paintPicture } from "./picture.js";
import { ServiceFault } from "./service.js";
import { Sketch } from "./sketch.js";

/** @typedef {import("./answers.js").Model} Model */
/** @typedef {import("./answers.js").Row} Row */
/** @typedef {{sample: any} | {file: File}} Subject */

const PAUSE = 60; // milliseconds between two questions
const MOST = 10; // classes with a bar

/**
 * @param {import("./service.js").Service} service
 * @param {import("./answers.js").Served} served
 * @param {import("./answers.js").Examples} examples
 * @param {Model[]} models of images
 * @returns {HTMLElement}
 */
export function imagePanel(service, served, examples, models) {
  const panel = element("section");
  const notice = new Notice();
  let model = models[0];
  /** @type {Subject | null} */
  let subject = null;
  /** @type {import("./frame.js").Framing} */
  let framing = { fill: 1, mass: false };
  /** @type {any} */
  let seen = null;

  const picture = element("canvas", { class: "picture", role: "img", "aria-label": "What the model sees" });
  const answer = element("p", { class: "answer" });
  const bars = element("ol", { class: "bars", "aria-label": "Probability of each class" });
  const maps = choice([], () => ask());
  const mapField = field("Show", maps);
  const scale = element("p", { class: "heat-scale quiet" }, element("span", {}, "least"), element("span", { class: "heat", "aria-hidden": "true" }), element("span", {}, "most"));
  const view = element("figure", { class: "view" }, element("figcaption", {}, "What the model sees, and where it looks"), picture, scale, mapField);
  const result = element("div", { class: "classes" }, answer, bars);

  const sketch = new Sketch(0.09, (strokes) => {
    if (!strokes.length) return clear();
    const [, rows, columns] = model.input;
    const ink = framed(strokes, sketch.width, rows, columns, framing);
    ask({ sample: model.channels.map(() => ink.map((row) => row.map((value) => round(value * (model.white ?? 1))))) });
  });
  const slate = element("div", { class: "draw" }, element("h2", {}, "Your drawing"), sketch.canvas, element("p", { class: "row" },
    element("button", { type: "button", click: () => sketch.undo() }, "Undo"), element("button", { type: "button", click: () => sketch.clear() }, "Clear")));

  const latest = new Latest(async (/** @type {Subject} */ wanted, signal) => {
    const asked = model;
    try {
      const found = await question(service, asked, maps.value, wanted, signal);
      if (signal.aborted || asked !== model) return;
      notice.fail("");
      seen = { sample: found.sample ?? ("sample" in wanted ? wanted.sample : null), map: found.maps?.[0]?.values ?? null };
      show(found.row);
    } catch (fault) {
      if (signal.aborted) return;
      if (!(fault instanceof ServiceFault)) throw fault;
      notice.fail(fault.message);
    }
  }, PAUSE);

  /** @param {Subject | null} [wanted] what was asked about before, if not given */
  function ask(wanted = subject) {
    subject = wanted;
    if (wanted) latest.put(wanted);
  }

  /** @param {Row} row */
  function show(row) {
    scale.hidden = !seen.map;
    if (seen.sample) paintPicture(picture, seen.sample, model.white, seen.map);
    bars.replaceChildren(...(row.probabilities ? classBars(model.classes, row.probabilities) : []));
    if (row.values) answer.replaceChildren(...row.values.map((value) => element("span", { class: "value" }, `${value.name} ${short(value.value)} ${value.unit}`)));
    else answer.replaceChildren(element("b", {}, row.class ?? ""), element("span", { class: "quiet" }, `probability ${percent(row.probability ?? 0)}`));
    notice.say(row.values ? answer.textContent ?? "" : `${row.class}, probability ${percent(row.probability ?? 0)}`);
  }

  function clear() {
    latest.drop();
    subject = seen = null;
    [picture.width, picture.height] = [1, 1];
    scale.hidden = true;
    bars.replaceChildren();
    answer.replaceChildren(element("span", { class: "quiet" }, "The answer appears here."));
  }

  const place = dropPlace(panel, {
    label: "Drop an image", formats: model.formats, most: served.limits.body,
    take: ([file]) => { sketch.clear(); ask({ file }); },
    fail: (reason) => notice.fail(reason),
  });
  const samples = element("div", { class: "thumbs" });

  /** @param {Model} wanted */
  function use(wanted) {
    model = wanted;
    place.formats(model.formats);
    const own = examples.samples.filter((sample) => sample.model === model.name);
    framing = framingOf(own.map(({ sample }) => sample), Math.min(model.input[1], model.input[2]));
    slate.hidden = model.white === null;
    maps.replaceChildren(...[...model.maps, ""].map((name) => element("option", { value: name }, name || "the picture alone")));
    mapField.hidden = !model.maps.length;
    samples.replaceChildren(...own.map(({ name, truth, sample }) => {
      const thumb = element("canvas", { "aria-hidden": "true" });
      paintPicture(thumb, sample, model.white, null);
      return element("button", { type: "button", class: "thumb", "aria-label": `Example: ${name}, which is ${truth}`, click: () => { sketch.clear(); ask({ sample }); } },
        thumb, element("span", { class: "quiet" }, truth));
    }));
    more.hidden = !own.length;
    sketch.clear();
  }

  const more = element("div", {}, element("h2", {}, "Or choose an example"), samples);
  const picker = models.length > 1 ? field("Model", choice(models.map(({ name }) => [name, name]), (name) => use(models.find((each) => each.name === name) ?? model))) : null;
  panel.append(...[
    element("h1", {}, models.some(({ white }) => white !== null) ? "Draw a digit, or drop an image" : "Drop an image"), picker, notice.element,
    element("div", { class: "image-flow" }, slate, view, result),
    element("div", { class: "start" }, place.element, more),
  ].filter((part) => part !== null));
  use(model);
  return panel;
}

/**
 * @param {import("./service.js").Service} service
 * @param {Model} model
 * @param {string} map to draw; none if empty
 * @param {Subject} subject
 * @param {AbortSignal} signal
 * @returns {Promise<{row: Row, sample?: any, maps?: import("./answers.js").Map[]}>}
 */
async function question(service, model, map, subject, signal) {
  const explain = model.maps.length > 0;
  const path = explain ? "v1/explain" : "v1/predict";
  const maps = explain ? [map || model.maps[0]] : [];
  let reply;
  if ("file" in subject) {
    const form = new FormData();
    form.set("file", subject.file);
    form.set("model", model.name);
    if (explain) form.set("maps", maps.join(","));
    reply = await service.post(path, form, signal);
  } else if (explain) reply = await service.post(path, { model: model.name, sample: subject.sample, maps }, signal);
  else reply = await service.post(path, { model: model.name, samples: [subject.sample] }, signal);
  return explain ? { ...reply, maps: map ? reply.maps : [] } : { row: reply.rows[0] };
}

/** @param {string[]} classes @param {number[]} probabilities @returns {HTMLElement[]} */
function classBars(classes, probabilities) {
  const best = probabilities.indexOf(Math.max(...probabilities));
  let order = classes.map((_, i) => i);
  if (order.length > MOST) order = order.sort((a, b) => probabilities[b] - probabilities[a]).slice(0, MOST);
  return order.map((i) => {
    const fill = element("span", { class: "fill" });
    fill.style.inlineSize = `${100 * probabilities[i]}%`;
    return element("li", { class: i === best ? "best" : null }, element("span", { class: "name" }, classes[i]),
      element("span", { class: "track", "aria-hidden": "true" }, fill), element("span", { class: "number" }, percent(probabilities[i])));
  });
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 1e4) / 1e4;
}
