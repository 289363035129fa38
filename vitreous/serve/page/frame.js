/** From strokes to the pixels that a model takes: framed as the samples that it was trained on. */

import { draw } from "./sketch.js";

const FINE = 8; // pixels of ours a pixel of the model's

/**
 * @typedef {object} Framing
 * @property {number} fill share of the grid that the longer side of a figure takes
 * @property {boolean} mass whether its centre of mass lies in the middle, and not its box
 */

/**
 * How samples of a run lie in their grid.
 *
 * @param {number[][][][]} samples each (channels, rows, columns)
 * @param {number} side of the grid
 * @returns {Framing}
 */
export function framingOf(samples, side) {
  const found = samples.map((sample) => measured(sample[0])).filter((each) => each !== null);
  if (!found.length) return { fill: side < 16 ? 1 : 0.72, mass: side >= 16 };
  const mean = (/** @type {number[]} */ values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    fill: Math.max(...found.map((each) => each.longer)) / side,
    mass: mean(found.map((each) => each.offMass)) < mean(found.map((each) => each.offBox)),
  };
}

/** @param {number[][]} image */
function measured(image) {
  const most = Math.max(...image.flat());
  if (!(most > 0)) return null;
  let [left, right, top, foot, sum, x, y] = [Infinity, -1, Infinity, -1, 0, 0, 0];
  image.forEach((row, i) => row.forEach((value, j) => {
    const ink = Math.max(0, value / most);
    if (ink > 0.1) [left, right, top, foot] = [Math.min(left, j), Math.max(right, j), Math.min(top, i), Math.max(foot, i)];
    [sum, x, y] = [sum + ink, x + ink * (j + 0.5), y + ink * (i + 0.5)];
  }));
  const [rows, columns] = [image.length, image[0].length];
  return {
    longer: Math.max(right - left, foot - top) + 1,
    offBox: Math.hypot((left + right + 1 - columns) / 2, (top + foot + 1 - rows) / 2),
    offMass: Math.hypot(x / sum - columns / 2, y / sum - rows / 2),
  };
}

/**
 * @param {import("./sketch.js").Stroke[]} strokes
 * @param {number} width of a stroke, in units of the slate
 * @param {number} rows @param {number} columns of the grid
 * @param {Framing} framing
 * @returns {number[][]} ink between 0 and 1, (rows, columns)
 */
export function framed(strokes, width, rows, columns, framing) {
  const points = strokes.flat();
  const ends = (/** @type {0 | 1} */ i) => [Math.min(...points.map((point) => point[i])) - width / 2, Math.max(...points.map((point) => point[i])) + width / 2];
  const [[left, right], [top, foot]] = [ends(0), ends(1)];
  const side = Math.min(rows, columns) * framing.fill * FINE;
  // Something small, like a dot, is not blown up beyond what a hand would draw.
  const scale = side / Math.max(right - left, foot - top, 0.25);
  const [high, wide] = [rows * FINE, columns * FINE];
  const canvas = new OffscreenCanvas(wide, high);
  const context = /** @type {any} */ (canvas.getContext("2d", { willReadFrequently: true }));
  const paint = (/** @type {number} */ dx, /** @type {number} */ dy) => {
    context.fillStyle = "#000";
    context.fillRect(0, 0, wide, high);
    draw(context, strokes, scale, dx, dy, width * scale);
    return context.getImageData(0, 0, wide, high).data;
  };
  const [x, y] = [(wide - (left + right) * scale) / 2, (high - (top + foot) * scale) / 2];
  let pixels = paint(x, y);
  if (framing.mass) {
    const [mx, my] = centre(pixels, wide);
    pixels = paint(x + wide / 2 - mx, y + high / 2 - my);
  }
  return Array.from({ length: rows }, (_, i) => Array.from({ length: columns }, (_, j) => {
    let sum = 0;
    for (let k = 0; k < FINE; k += 1) for (let l = 0; l < FINE; l += 1) sum += pixels[4 * ((i * FINE + k) * wide + j * FINE + l)];
    return sum / (255 * FINE * FINE);
  }));
}

/** @param {Uint8ClampedArray} pixels @param {number} wide @returns {[number, number]} of mass */
function centre(pixels, wide) {
  let [sum, x, y] = [1e-9, 0, 0];
  for (let i = 0; i < pixels.length; i += 4) {
    const ink = pixels[i];
    if (ink) [sum, x, y] = [sum + ink, x + ink * (((i / 4) % wide) + 0.5), y + ink * (Math.floor(i / 4 / wide) + 0.5)];
  }
  return [x / sum, y / sum];
}
