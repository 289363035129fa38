/** Marks on a powder plot: reflections with labels, carets, and the difference of two curves. */

import { colour } from "./theme.js";

const REACH = 7; // pixels from the cursor to a reflection

/**
 * @param {import("./plot.js").UPlot} uplot
 * @param {number[]} ticks in increasing order
 * @param {number | null} at
 * @returns {number | null} index of the reflection at the cursor
 */
export function nearest(uplot, ticks, at) {
  if (at === null || !ticks.length) return null;
  let best = 0;
  for (const [i, x] of ticks.entries()) if (Math.abs(x - at) < Math.abs(ticks[best] - at)) best = i;
  return Math.abs(uplot.valToPos(ticks[best], "x") - uplot.valToPos(at, "x")) <= REACH ? best : null;
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x @param {number} top @param {number} bottom
 * @param {string} name of the colour
 * @param {number} width
 */
export function drawLine(ctx, x, top, bottom, name, width) {
  ctx.strokeStyle = cachedColour(name);
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x, bottom);
  ctx.stroke();
}

/** @type {Map<string, string>} */
const cachedColours = new Map();
document.addEventListener("theme", () => cachedColours.clear());

/** @param {string} name */
export function cachedColour(name) {
  if (!cachedColours.has(name)) cachedColours.set(name, colour(name));
  return /** @type {string} */ (cachedColours.get(name));
}

/** @param {CanvasRenderingContext2D} ctx @param {number} x @param {number} y @param {number} size */
export function drawCaret(ctx, x, y, size) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x - size * 0.8, y - size);
  ctx.lineTo(x + size * 0.8, y - size);
  ctx.fill();
}

/**
 * Observed minus calculated, on the scale of the curves, around its own zero line.
 *
 * @param {import("./plot.js").UPlot} uplot
 * @param {(number | null)[][]} data
 * @param {number} middle @param {number} room pixels above and below it
 */
export function drawDifference(uplot, data, middle, room) {
  const { ctx, bbox } = uplot;
  const unit = uplot.valToPos(0, "y", true) - uplot.valToPos(1, "y", true);
  const [low, high] = /** @type {[number, number]} */ ([uplot.scales.x.min, uplot.scales.x.max]);
  ctx.lineWidth = devicePixelRatio;
  ctx.strokeStyle = cachedColour("line");
  ctx.beginPath();
  ctx.moveTo(bbox.left, middle);
  ctx.lineTo(bbox.left + bbox.width, middle);
  ctx.stroke();
  ctx.strokeStyle = cachedColour("difference");
  ctx.beginPath();
  let first = true;
  for (const [i, x] of data[0].entries()) {
    if (x === null || x < low || x > high) continue;
    const by = (Number(data[1][i]) - Number(data[2][i])) * unit;
    const y = middle - Math.max(-room, Math.min(room, by));
    if (first) ctx.moveTo(uplot.valToPos(x, "x", true), y);
    else ctx.lineTo(uplot.valToPos(x, "x", true), y);
    first = false;
  }
  ctx.stroke();
}

/** @param {import("./plot.js").UPlot} uplot @param {number} x @param {number} y @param {string} text @param {string} [name] of the colour */
export function drawLabel(uplot, x, y, text, name = "accent") {
  const { ctx, bbox } = uplot;
  ctx.font = `600 ${13 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  const wide = ctx.measureText(text).width;
  const middle = Math.max(bbox.left + wide / 2 + 6, Math.min(bbox.left + bbox.width - wide / 2 - 6, uplot.valToPos(x, "x", true)));
  const high = 20 * devicePixelRatio;
  ctx.fillStyle = cachedColour("card");
  ctx.globalAlpha = 0.8;
  ctx.fillRect(middle - wide / 2 - 5, y - high, wide + 10, high);
  ctx.globalAlpha = 1;
  ctx.fillStyle = cachedColour(name);
  ctx.fillText(text, middle, y - 5 * devicePixelRatio);
}
