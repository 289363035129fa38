/** Plot of a powder pattern with its fit, the reflections of a cell, and the detected peaks. */

import { colour } from "./theme.js";
import { formatIndices, formatNumber } from "./format.js";
import { formatTick, legendEntries, Plot } from "./plot.js";

/** @typedef {import("./types.js").IndexResult} IndexResult */
/** @typedef {import("./types.js").Tick} Tick */

const REACH = 7; // pixels from the cursor to a reflection
const TICKS = 0.09; // share of the plot height, for each phase
const SECOND_ROW = 0.055;
const DIFFERENCE = 0.17;

/** Intensity scales and their inverses. */
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
 * @param {IndexResult} result
 * @param {number} chosen index of the cell
 * @param {number} wavelength Å
 * @param {View} view
 * @param {boolean} keep keep the visible range
 */
export function drawPattern(plot, result, chosen, wavelength, view, keep) {
  const fit = chosen === 0 ? result.fit : null;
  const cell = result.cells[chosen];
  const q = (/** @type {number} */ angle) => (4 * Math.PI * Math.sin((angle * Math.PI) / 360)) / wavelength;
  const angleOf = (/** @type {number} */ x) => (view.axis === "q" ? (360 / Math.PI) * Math.asin(Math.min(1, (x * wavelength) / (4 * Math.PI))) : x);
  const toAxis = (/** @type {number} */ angle) => (view.axis === "q" ? q(angle) : angle);
  const [scaled, unscaled] = SCALES[view.scale];
  const source = fit ?? (result.pattern && { two_theta: result.pattern.two_theta, observed: result.pattern.intensity });
  const peakPositions = result.peaks.map((peak) => toAxis(peak.two_theta));
  const angles = source ? source.two_theta : peakListAxis(result.peaks);
  const observed = source ? source.observed : angles.map(() => null);
  const data = [angles.map(toAxis), observed.map((y) => (y === null ? null : scaled(y)))];
  if (fit) data.push(fit.calculated.map(scaled), fit.background.map(scaled));
  /** @type {Tick[]} */
  const reflections = (fit ?? cell)?.ticks ?? [];
  const ticks = reflections.map((tick) => toAxis(tick.two_theta));
  const second = (chosen === 0 && result.second?.ticks) || [];
  const secondTicks = second.map((tick) => toAxis(tick.two_theta));
  const rows = second.length ? SECOND_ROW : 0;
  const bands = (reflections.length ? TICKS : 0.02) + rows + (fit ? DIFFERENCE : 0);
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
    tickLabel: (value) => (value < floor || !source ? null : formatTick(value)),
    above(uplot, at) {
      const { ctx, bbox } = uplot;
      const ratio = devicePixelRatio;
      const low = bbox.top + bbox.height;
      ctx.setLineDash([]);
      if (!source) drawStems(uplot, peakPositions, result.peaks.map((peak) => peak.intensity));
      if (fit) drawDifference(uplot, data, low - (bbox.height * DIFFERENCE) / 2, (bbox.height * DIFFERENCE) / 2);
      if (!ticks.length) return;
      const nearIndex = nearest(uplot, ticks, at);
      const floorOfTicks = low - (fit ? bbox.height * DIFFERENCE : 0);
      const bottom = floorOfTicks - bbox.height * rows;
      for (const x of secondTicks) drawLine(ctx, uplot.valToPos(x, "x", true), bottom + 2 * ratio, floorOfTicks - 2 * ratio, "second", ratio);
      const top = bottom - bbox.height * (TICKS - 0.035);
      ctx.lineWidth = ratio;
      for (const [i, x] of ticks.entries()) drawLine(ctx, uplot.valToPos(x, "x", true), top, bottom - 2 * ratio, i === nearIndex ? "accent" : "ticks", ratio * (i === nearIndex ? 2 : 1));
      ctx.fillStyle = colour("observed");
      for (const x of peakPositions) drawCaret(ctx, uplot.valToPos(x, "x", true), top - 2 * ratio, 3.5 * ratio);
      if (nearIndex !== null) drawLabel(uplot, ticks[nearIndex], top - 8 * ratio, formatIndices(reflections[nearIndex].hkl));
    },
    read(x, index, uplot) {
      const nearIndex = nearest(uplot, ticks, x);
      const angle = angleOf(x);
      const parts = [
        `2θ ${angle.toFixed(3)}°`, `q ${q(angle).toFixed(4)} Å⁻¹`, `d ${(wavelength / (2 * Math.sin((angle * Math.PI) / 360))).toFixed(4)} Å`,
      ];
      const height = data[1][index];
      if (height !== null && height !== undefined) parts.push(`intensity ${formatNumber(unscaled(height))}`);
      if (fit) parts.push(`calculated ${formatNumber(fit.calculated[index])}`);
      if (nearIndex !== null) parts.push(`reflection ${formatIndices(reflections[nearIndex].hkl)} at ${reflections[nearIndex].two_theta.toFixed(3)}°`);
      return parts.join("  ·  ");
    },
    stops: ticks.length ? ticks : undefined,
  }, keep);
  plot.legend.replaceChildren(...legendEntries([
    ["observed", source ? "measured" : "peaks as given"],
    ...(fit ? /** @type {[string, string][]} */ ([["calculated", "calculated"], ["background", "background"], ["difference", "difference"]]) : []),
    ...(ticks.length ? /** @type {[string, string][]} */ ([["ticks", `reflections of cell ${chosen + 1}`], ["carets", "detected peaks"]]) : []),
    ...(second.length ? /** @type {[string, string][]} */ ([["ticks second", "reflections of the second phase"]]) : []),
  ]));
}

/** @param {import("./types.js").Peak[]} peaks @returns {number[]} x axis for a peak list */
function peakListAxis(peaks) {
  const angles = peaks.map((peak) => peak.two_theta);
  const [low, high] = [Math.min(...angles, 180), Math.max(...angles, 0)];
  const margin = 0.03 * (high - low) + 0.5;
  return [Math.max(0.5, low - margin), ...angles, Math.min(179, high + margin)];
}

/**
 * @param {import("./plot.js").UPlot} uplot
 * @param {number[]} ticks in increasing order
 * @param {number | null} at
 * @returns {number | null} index of the reflection at the cursor
 */
function nearest(uplot, ticks, at) {
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
function drawLine(ctx, x, top, bottom, name, width) {
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
function cachedColour(name) {
  if (!cachedColours.has(name)) cachedColours.set(name, colour(name));
  return /** @type {string} */ (cachedColours.get(name));
}

/** @param {CanvasRenderingContext2D} ctx @param {number} x @param {number} y @param {number} size */
function drawCaret(ctx, x, y, size) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x - size * 0.8, y - size);
  ctx.lineTo(x + size * 0.8, y - size);
  ctx.fill();
}

/**
 * @param {import("./plot.js").UPlot} uplot
 * @param {number[]} peakPositions
 * @param {number[]} heights
 */
function drawStems(uplot, peakPositions, heights) {
  for (const [i, x] of peakPositions.entries()) {
    drawLine(uplot.ctx, uplot.valToPos(x, "x", true), uplot.valToPos(heights[i], "y", true), uplot.valToPos(0, "y", true), "observed", devicePixelRatio * 1.5);
  }
}

/**
 * Observed minus calculated, on the scale of the curves, around its own zero line.
 *
 * @param {import("./plot.js").UPlot} uplot
 * @param {(number | null)[][]} data
 * @param {number} middle @param {number} room pixels above and below it
 */
function drawDifference(uplot, data, middle, room) {
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

/** @param {import("./plot.js").UPlot} uplot @param {number} x @param {number} y @param {string} text */
function drawLabel(uplot, x, y, text) {
  const { ctx, bbox } = uplot;
  ctx.font = `600 ${13 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  const wide = ctx.measureText(text).width;
  const middle = Math.max(bbox.left + wide, Math.min(bbox.left + bbox.width - wide, uplot.valToPos(x, "x", true)));
  const high = 20 * devicePixelRatio;
  ctx.fillStyle = cachedColour("card");
  ctx.globalAlpha = 0.8;
  ctx.fillRect(middle - wide / 2 - 5, y - high, wide + 10, high);
  ctx.globalAlpha = 1;
  ctx.fillStyle = cachedColour("accent");
  ctx.fillText(text, middle, y - 5 * devicePixelRatio);
}
