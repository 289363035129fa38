/** Plot of a powder pattern with its fit, the reflections of a cell, and the detected peaks. */

import { formatIndices, formatNumber } from "./format.js";
import { formatTick, legendEntries, Plot } from "./plot.js";
import { cachedColour, drawCaret, drawDifference, drawLabel, drawLine, nearest } from "./plot-marks.js";
import { powderAxes } from "./powder-axes.js";

/** @typedef {import("./types.js").IndexResult} IndexResult */
/** @typedef {import("./types.js").Tick} Tick */

const TICKS = 0.09; // share of the plot height, for each phase
const SECOND_ROW = 0.055;
const DIFFERENCE = 0.17;

/** @typedef {import("./powder-axes.js").View} View */

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
  const { toAxis, scaled, unscaled, ...axes } = powderAxes(view, wavelength);
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
    x: axes.x,
    y: axes.y,
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
      ctx.fillStyle = cachedColour("observed");
      for (const x of peakPositions) drawCaret(ctx, uplot.valToPos(x, "x", true), top - 2 * ratio, 3.5 * ratio);
      if (nearIndex !== null) drawLabel(uplot, ticks[nearIndex], top - 8 * ratio, formatIndices(reflections[nearIndex].hkl));
    },
    read(x, index, uplot) {
      const nearIndex = nearest(uplot, ticks, x);
      const parts = axes.read(x);
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
 * @param {number[]} peakPositions
 * @param {number[]} heights
 */
function drawStems(uplot, peakPositions, heights) {
  for (const [i, x] of peakPositions.entries()) {
    drawLine(uplot.ctx, uplot.valToPos(x, "x", true), uplot.valToPos(heights[i], "y", true), uplot.valToPos(0, "y", true), "observed", devicePixelRatio * 1.5);
  }
}
