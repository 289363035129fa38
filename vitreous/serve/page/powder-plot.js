/** A powder pattern with its fit, the reflections of a cell, and the lines that were found. */

import { colour } from "./appearance.js";
import { indices, short } from "./numbers.js";
import { axisMark, legendEntries, Plot } from "./plot.js";

/** @typedef {import("./answers.js").Indexed} Indexed */
/** @typedef {import("./answers.js").Tick} Tick */

const REACH = 7; // pixels within which the cursor means a reflection
const TICKS = 0.09; // shares of the height
const DIFFERENCE = 0.17;

/** Intensities as they are drawn, and back. */
const SCALES = {
  linear: [(/** @type {number} */ y) => y, (/** @type {number} */ y) => y],
  root: [(/** @type {number} */ y) => Math.sqrt(Math.max(0, y)), (/** @type {number} */ y) => y * y],
};

/**
 * @typedef {object} View
 * @property {"angle" | "q"} axis
 * @property {"linear" | "root"} scale
 */

/**
 * @param {Plot} plot
 * @param {Indexed} found
 * @param {number} chosen which of its cells
 * @param {number} wavelength Å
 * @param {View} view
 * @param {boolean} keep what is seen of it
 */
export function drawPattern(plot, found, chosen, wavelength, view, keep) {
  const fit = chosen === 0 ? found.fit : null;
  const cell = found.cells[chosen];
  const q = (/** @type {number} */ angle) => (4 * Math.PI * Math.sin((angle * Math.PI) / 360)) / wavelength;
  const angleOf = (/** @type {number} */ x) => (view.axis === "q" ? (360 / Math.PI) * Math.asin(Math.min(1, (x * wavelength) / (4 * Math.PI))) : x);
  const place = (/** @type {number} */ angle) => (view.axis === "q" ? q(angle) : angle);
  const [scaled, plain] = SCALES[view.scale];
  const source = fit ?? (found.pattern && { two_theta: found.pattern.two_theta, observed: found.pattern.intensity });
  const lines = found.peaks.map((peak) => place(peak.two_theta));
  const angles = source ? source.two_theta : sticks(found.peaks);
  const observed = source ? source.observed : angles.map(() => null);
  const data = [angles.map(place), observed.map((y) => (y === null ? null : scaled(y)))];
  if (fit) data.push(fit.calculated.map(scaled), fit.background.map(scaled));
  /** @type {Tick[]} */
  const reflections = (fit ?? cell)?.ticks ?? [];
  const ticks = reflections.map((tick) => place(tick.two_theta));
  const bands = (reflections.length ? TICKS : 0.02) + (fit ? DIFFERENCE : 0);
  let floor = 0;

  plot.show({
    x: view.axis === "q" ? "q (Å⁻¹)" : "2θ (°)",
    y: view.scale === "root" ? "√ intensity" : "intensity",
    data,
    curves: [
      { colour: "observed", points: true }, { colour: "calculated", width: 1.25 }, { colour: "quiet", dash: [4, 4] },
    ].slice(0, data.length - 1),
    range(low, high) {
      if (!source) [low, high] = [0, 1];
      const [from, to] = [Math.min(low, high), Math.max(high, low + 1e-9)];
      floor = from;
      return [from - ((to - from) * bands) / (0.97 - bands), to + (to - from) * 0.03];
    },
    mark: (value) => (value < floor || !source ? null : axisMark(value)),
    above(drawn, at) {
      const { ctx, bbox } = drawn;
      const ratio = devicePixelRatio;
      const low = bbox.top + bbox.height;
      ctx.setLineDash([]);
      if (!source) stems(drawn, lines, found.peaks.map((peak) => peak.intensity));
      if (fit) difference(drawn, data, low - (bbox.height * DIFFERENCE) / 2, (bbox.height * DIFFERENCE) / 2);
      if (!ticks.length) return;
      const near = nearest(drawn, ticks, at);
      const foot = low - (fit ? bbox.height * DIFFERENCE : 0);
      const top = foot - bbox.height * (TICKS - 0.035);
      ctx.lineWidth = ratio;
      for (const [i, x] of ticks.entries()) stroke(ctx, drawn.valToPos(x, "x", true), top, foot - 2 * ratio, i === near ? "accent" : "ticks", ratio * (i === near ? 2 : 1));
      ctx.fillStyle = colour("observed");
      for (const x of lines) caret(ctx, drawn.valToPos(x, "x", true), top - 2 * ratio, 3.5 * ratio);
      if (near !== null) label(drawn, ticks[near], top - 8 * ratio, indices(reflections[near].hkl));
    },
    read(x, index, drawn) {
      const near = nearest(drawn, ticks, x);
      const angle = angleOf(x);
      const parts = [
        `2θ ${angle.toFixed(3)}°`, `q ${q(angle).toFixed(4)} Å⁻¹`, `d ${(wavelength / (2 * Math.sin((angle * Math.PI) / 360))).toFixed(4)} Å`,
      ];
      const height = data[1][index];
      if (height !== null && height !== undefined) parts.push(`intensity ${short(plain(height))}`);
      if (fit) parts.push(`calculated ${short(fit.calculated[index])}`);
      if (near !== null) parts.push(`reflection ${indices(reflections[near].hkl)} at ${reflections[near].two_theta.toFixed(3)}°`);
      return parts.join("  ·  ");
    },
    stops: ticks.length ? ticks : undefined,
  }, keep);
  plot.legend.replaceChildren(...legendEntries([
    ["observed", source ? "measured" : "lines as given"],
    ...(fit ? /** @type {[string, string][]} */ ([["calculated", "calculated"], ["background", "background"], ["difference", "difference"]]) : []),
    ...(ticks.length ? /** @type {[string, string][]} */ ([["ticks", `reflections of cell ${chosen + 1}`], ["carets", "lines found"]]) : []),
  ]));
}

/** @param {import("./answers.js").Peak[]} peaks @returns {number[]} an axis for a list of lines */
function sticks(peaks) {
  const angles = peaks.map((peak) => peak.two_theta);
  const [low, high] = [Math.min(...angles, 180), Math.max(...angles, 0)];
  const margin = 0.03 * (high - low) + 0.5;
  return [Math.max(0.5, low - margin), ...angles, Math.min(179, high + margin)];
}

/**
 * @param {import("./plot.js").Drawn} drawn
 * @param {number[]} ticks rising
 * @param {number | null} at
 * @returns {number | null} which is meant
 */
function nearest(drawn, ticks, at) {
  if (at === null || !ticks.length) return null;
  let best = 0;
  for (const [i, x] of ticks.entries()) if (Math.abs(x - at) < Math.abs(ticks[best] - at)) best = i;
  return Math.abs(drawn.valToPos(ticks[best], "x") - drawn.valToPos(at, "x")) <= REACH ? best : null;
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x @param {number} top @param {number} foot
 * @param {string} name of the colour
 * @param {number} width
 */
function stroke(ctx, x, top, foot, name, width) {
  ctx.strokeStyle = colours(name);
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x, foot);
  ctx.stroke();
}

/** @type {Map<string, string>} */
const kept = new Map();
document.addEventListener("theme", () => kept.clear());

/** @param {string} name */
function colours(name) {
  if (!kept.has(name)) kept.set(name, colour(name));
  return /** @type {string} */ (kept.get(name));
}

/** @param {CanvasRenderingContext2D} ctx @param {number} x @param {number} y @param {number} size */
function caret(ctx, x, y, size) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x - size * 0.8, y - size);
  ctx.lineTo(x + size * 0.8, y - size);
  ctx.fill();
}

/**
 * @param {import("./plot.js").Drawn} drawn
 * @param {number[]} lines
 * @param {number[]} heights
 */
function stems(drawn, lines, heights) {
  for (const [i, x] of lines.entries()) {
    stroke(drawn.ctx, drawn.valToPos(x, "x", true), drawn.valToPos(heights[i], "y", true), drawn.valToPos(0, "y", true), "observed", devicePixelRatio * 1.5);
  }
}

/**
 * Observed less calculated, to the scale of the curves, about a line of its own.
 *
 * @param {import("./plot.js").Drawn} drawn
 * @param {(number | null)[][]} data
 * @param {number} middle @param {number} room pixels above and below it
 */
function difference(drawn, data, middle, room) {
  const { ctx, bbox } = drawn;
  const unit = drawn.valToPos(0, "y", true) - drawn.valToPos(1, "y", true);
  const [low, high] = /** @type {[number, number]} */ ([drawn.scales.x.min, drawn.scales.x.max]);
  ctx.lineWidth = devicePixelRatio;
  ctx.strokeStyle = colours("line");
  ctx.beginPath();
  ctx.moveTo(bbox.left, middle);
  ctx.lineTo(bbox.left + bbox.width, middle);
  ctx.stroke();
  ctx.strokeStyle = colours("difference");
  ctx.beginPath();
  let first = true;
  for (const [i, x] of data[0].entries()) {
    if (x === null || x < low || x > high) continue;
    const by = (Number(data[1][i]) - Number(data[2][i])) * unit;
    const y = middle - Math.max(-room, Math.min(room, by));
    if (first) ctx.moveTo(drawn.valToPos(x, "x", true), y);
    else ctx.lineTo(drawn.valToPos(x, "x", true), y);
    first = false;
  }
  ctx.stroke();
}

/** @param {import("./plot.js").Drawn} drawn @param {number} x @param {number} y @param {string} text */
function label(drawn, x, y, text) {
  const { ctx, bbox } = drawn;
  ctx.font = `600 ${13 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  const wide = ctx.measureText(text).width;
  const middle = Math.max(bbox.left + wide, Math.min(bbox.left + bbox.width - wide, drawn.valToPos(x, "x", true)));
  const high = 20 * devicePixelRatio;
  ctx.fillStyle = colours("card");
  ctx.globalAlpha = 0.8;
  ctx.fillRect(middle - wide / 2 - 5, y - high, wide + 10, high);
  ctx.globalAlpha = 1;
  ctx.fillStyle = colours("accent");
  ctx.fillText(text, middle, y - 5 * devicePixelRatio);
}
