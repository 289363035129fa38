/** Plot of a powder pattern with the share of each phase, its reflections, and the lines of no phase. */

import { formatIndices, formatNumber } from "./format.js";
import { formatTick, legendEntries, Plot } from "./plot.js";
import { cachedColour, drawCaret, drawDifference, drawLabel, drawLine, nearest } from "./plot-marks.js";
import { powderAxes } from "./powder-axes.js";

/** @typedef {import("./types.js").Identification} Identification */

const COLOURS = 8; // in the style sheet
const ROW = 0.045; // share of the plot height for the reflections of a phase
const MOST_ROWS = 0.3; // for those of all phases
const MARGIN = 0.03;
const FAINTEST = 0.002; // of the highest point of a phase
const DIFFERENCE = 0.15;

/** @param {number} index of a phase @returns {string} its CSS class, and the name of its colour */
export function phaseColour(index) {
  return `phase-${1 + (index % COLOURS)}`;
}

/**
 * @param {Plot} plot
 * @param {Identification} result
 * @param {import("./powder-axes.js").View} view
 */
export function drawPhases(plot, result, view) {
  const { toAxis, scaled, ...axes } = powderAxes(view, result.measured.wavelength);
  const { two_theta: angles, observed, background, parts } = result.curves;
  const calculated = background.map((y, i) => parts.reduce((sum, part) => sum + part[i], y));
  const x = angles.map(toAxis);
  const [measured, fitted] = [observed.map(scaled), calculated.map(scaled)];
  const shares = parts.map((part) => {
    const least = FAINTEST * Math.max(...part);
    return part.map((y, i) => (y > least ? scaled(background[i] + y) : null)); // only at its lines: elsewhere the curves coincide
  });
  const reflections = result.phases.flatMap((phase, number) => phase.ticks.map((tick) => ({ number, hkl: tick.hkl, x: toAxis(tick.two_theta) })));
  reflections.sort((a, b) => a.x - b.x);
  const ticks = reflections.map((tick) => tick.x);
  const free = result.unexplained_lines.map((line) => toAxis(line.two_theta));
  const row = Math.min(ROW, MOST_ROWS / Math.max(1, parts.length));
  const bands = row * parts.length + (free.length ? MARGIN : 0) + MARGIN + DIFFERENCE;
  let floor = 0;

  plot.show({
    x: axes.x,
    y: axes.y,
    data: [x, background.map(scaled), measured, fitted, ...shares],
    curves: [
      { colour: "quiet", dash: [4, 4] }, { colour: "observed", points: true }, { colour: "calculated" },
      ...shares.map((_, i) => ({ colour: phaseColour(i), width: 1.25, fillDownTo: 0 })),
    ],
    range(low, high) {
      floor = low;
      const height = Math.max(high - low, 1e-9);
      return [low - (height * bands) / (0.97 - bands), high + height * MARGIN];
    },
    tickLabel: (value) => (value < floor ? null : formatTick(value)),
    above(uplot, at) {
      const { ctx, bbox } = uplot;
      const ratio = devicePixelRatio;
      const room = (bbox.height * DIFFERENCE) / 2;
      const bottom = bbox.top + bbox.height - 2 * room;
      const step = bbox.height * row;
      const top = bottom - step * parts.length;
      const nearIndex = nearest(uplot, ticks, at);
      ctx.setLineDash([]);
      drawDifference(uplot, [x, measured, fitted], bottom + room, room);
      for (const [i, tick] of reflections.entries()) {
        const high = top + step * tick.number;
        drawLine(ctx, uplot.valToPos(tick.x, "x", true), high + ratio, high + step - 1.5 * ratio, phaseColour(tick.number), ratio * (i === nearIndex ? 2.5 : 1.25));
      }
      ctx.fillStyle = cachedColour("warn");
      for (const line of free) drawCaret(ctx, uplot.valToPos(line, "x", true), top - 2 * ratio, 5 * ratio);
      if (nearIndex !== null) {
        const { number, hkl } = reflections[nearIndex];
        drawLabel(uplot, ticks[nearIndex], top - 8 * ratio, `${result.phases[number].name} ${formatIndices(hkl)}`, phaseColour(number));
      }
    },
    read(at, index, uplot) {
      const nearIndex = nearest(uplot, ticks, at);
      const text = [...axes.read(at), `intensity ${formatNumber(observed[index])}`, `calculated ${formatNumber(calculated[index])}`];
      if (nearIndex !== null) text.push(`${result.phases[reflections[nearIndex].number].name} ${formatIndices(reflections[nearIndex].hkl)}`);
      return text.join("  ·  ");
    },
    stops: ticks.length ? ticks : undefined,
  });
  plot.legend.replaceChildren(...legendEntries([
    ["observed", "measured"], ["calculated", "calculated"], ["background", "background"], ["difference", "difference"],
    ...result.phases.map((phase, i) => /** @type {[string, string]} */ ([`phase ${phaseColour(i)}`, phase.name])),
    ...(free.length ? /** @type {[string, string][]} */ ([["carets warn", "lines of no phase"]]) : []),
  ]));
}
