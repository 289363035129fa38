/** A spectrum, and along its axis how much the model looked where. */

import { colour } from "./appearance.js";
import { named, short } from "./numbers.js";
import { axisMark, legendEntries } from "./plot.js";

const BAND = 0.17; // of the height, for the map
const CURVES = ["observed", "calculated", "good", "warn"];

/**
 * @param {import("./plot.js").Plot} plot
 * @param {import("./answers.js").Explained} found
 */
export function drawSpectrum(plot, found) {
  const [axis] = found.axes;
  const x = found.sample[0].map((/** @type {any} */ _, /** @type {number} */ i) => axis.origin + axis.spacing * i);
  const falls = axis.spacing < 0;
  const along = (/** @type {any[]} */ values) => (falls ? [...values].reverse() : values);
  const map = found.maps[0] ?? null;
  /** @type {number[]} */
  const places = along(found.on === "tokens" ? found.places : x);
  /** @type {number[]} */
  const values = map ? along(map.values) : [];
  const data = [along(x), ...found.sample.map(along)];
  const most = Math.max(...values, 1e-12);
  const least = Math.min(...values, most);
  let floor = 0;
  const mean = values.reduce((sum, value) => sum + value, 0) / (values.length || 1);

  plot.show({
    x: named(axis.name, axis.unit),
    y: found.channels.length === 1 ? found.channels[0] : "value",
    data,
    curves: found.sample.map((/** @type {any} */ _, /** @type {number} */ i) => ({ colour: CURVES[i % CURVES.length], width: 1.5 })),
    range(low, high) {
      const room = high - low || 1;
      floor = low - 0.02 * room;
      return [low - (map ? (room * BAND) / (1 - BAND) : 0.05 * room), high + 0.05 * room];
    },
    mark: (value) => (map && value < floor ? null : axisMark(value)),
    below(drawn) {
      if (!map) return;
      const { ctx, bbox } = drawn;
      const foot = bbox.top + bbox.height;
      const step = Math.abs(axis.spacing);
      const edge = (/** @type {number} */ at) => Math.round(drawn.valToPos(at, "x", true));
      ctx.fillStyle = colour("attention");
      for (const [i, at] of places.entries()) {
        const [left, right] = found.on === "tokens" ? [edge(at) - 2, edge(at) + 2] : [edge(at - step / 2), edge(at + step / 2)];
        const height = Math.max(0, values[i] / most) * bbox.height * (BAND - 0.02);
        // Behind the curve from the least to the most, which shows differences; at its foot from 0, which shows how large.
        ctx.globalAlpha = (0.3 * (values[i] - least)) / (most - least || 1);
        ctx.fillRect(left, bbox.top, right - left, bbox.height - height);
        ctx.globalAlpha = 0.55;
        ctx.fillRect(left, foot - height, right - left, height);
      }
      ctx.globalAlpha = 1;
    },
    read(at, index) {
      const parts = [`${axis.name} ${short(/** @type {number} */ (data[0][index]), 6)}${axis.unit ? ` ${axis.unit}` : ""}`];
      found.channels.forEach((name, i) => parts.push(`${name} ${short(Number(data[i + 1][index]))}`));
      if (map && values.length) {
        const near = found.on === "tokens" ? nearest(places, at) : index;
        parts.push(`${map.name} ${short(values[near] / (mean || 1), 3)} × its mean`);
      }
      return parts.join("  ·  ");
    },
  });
  plot.legend.replaceChildren(...legendEntries([
    ...found.channels.map((name, i) => /** @type {[string, string]} */ ([CURVES[i % CURVES.length], name])),
    ...(map ? /** @type {[string, string][]} */ ([["attention", map.name]]) : []),
  ]));
}

/** @param {number[]} places @param {number} at */
function nearest(places, at) {
  let best = 0;
  for (const [i, place] of places.entries()) if (Math.abs(place - at) < Math.abs(places[best] - at)) best = i;
  return best;
}
