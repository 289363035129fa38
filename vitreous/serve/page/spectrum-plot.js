/** Plot of a spectrum with an attribution map along its axis. */

import { colour } from "./theme.js";
import { labelWithUnit, formatNumber } from "./format.js";
import { formatTick, legendEntries } from "./plot.js";

const BAND = 0.17; // share of the height for the map
const CURVES = ["observed", "calculated", "good", "warn"];

/**
 * @param {import("./plot.js").Plot} plot
 * @param {import("./types.js").Explanation} result
 */
export function drawSpectrum(plot, result) {
  const [axis] = result.axes;
  const x = result.sample[0].map((/** @type {any} */ _, /** @type {number} */ i) => axis.origin + axis.spacing * i);
  const decreasing = axis.spacing < 0;
  const inOrder = (/** @type {any[]} */ values) => (decreasing ? [...values].reverse() : values);
  const map = result.maps[0] ?? null;
  /** @type {number[]} */
  const places = inOrder(result.on === "tokens" ? result.places : x);
  /** @type {number[]} */
  const values = map ? inOrder(map.values) : [];
  const data = [inOrder(x), ...result.sample.map(inOrder)];
  const most = Math.max(...values, 1e-12);
  const least = Math.min(...values, most);
  let floor = 0;
  const mean = values.reduce((sum, value) => sum + value, 0) / (values.length || 1);

  plot.show({
    x: labelWithUnit(axis.name, axis.unit),
    y: result.channels.length === 1 ? result.channels[0] : "value",
    data,
    curves: result.sample.map((/** @type {any} */ _, /** @type {number} */ i) => ({ colour: CURVES[i % CURVES.length], width: 1.5 })),
    range(low, high) {
      const room = high - low || 1;
      floor = low - 0.02 * room;
      return [low - (map ? (room * BAND) / (1 - BAND) : 0.05 * room), high + 0.05 * room];
    },
    tickLabel: (value) => (map && value < floor ? null : formatTick(value)),
    below(uplot) {
      if (!map) return;
      const { ctx, bbox } = uplot;
      const bottom = bbox.top + bbox.height;
      const step = Math.abs(axis.spacing);
      const edge = (/** @type {number} */ at) => Math.round(uplot.valToPos(at, "x", true));
      ctx.fillStyle = colour("attention");
      for (const [i, at] of places.entries()) {
        const [left, right] = result.on === "tokens" ? [edge(at) - 2, edge(at) + 2] : [edge(at - step / 2), edge(at + step / 2)];
        const height = Math.max(0, values[i] / most) * bbox.height * (BAND - 0.02);
        // Behind the curve: scaled from lowest to highest, to show differences. Bars at the bottom: scaled from 0.
        ctx.globalAlpha = (0.3 * (values[i] - least)) / (most - least || 1);
        ctx.fillRect(left, bbox.top, right - left, bbox.height - height);
        ctx.globalAlpha = 0.55;
        ctx.fillRect(left, bottom - height, right - left, height);
      }
      ctx.globalAlpha = 1;
    },
    read(at, index) {
      const parts = [`${axis.name} ${formatNumber(/** @type {number} */ (data[0][index]), 6)}${axis.unit ? ` ${axis.unit}` : ""}`];
      result.channels.forEach((name, i) => parts.push(`${name} ${formatNumber(Number(data[i + 1][index]))}`));
      if (map && values.length) {
        const near = result.on === "tokens" ? nearest(places, at) : index;
        parts.push(`${map.name} ${formatNumber(values[near] / (mean || 1), 3)} × its mean`);
      }
      return parts.join("  ·  ");
    },
  });
  plot.legend.replaceChildren(...legendEntries([
    ...result.channels.map((name, i) => /** @type {[string, string]} */ ([CURVES[i % CURVES.length], name])),
    ...(map ? /** @type {[string, string][]} */ ([["attention", map.name]]) : []),
  ]));
}

/** @param {number[]} places @param {number} at */
function nearest(places, at) {
  let best = 0;
  for (const [i, place] of places.entries()) if (Math.abs(place - at) < Math.abs(places[best] - at)) best = i;
  return best;
}
