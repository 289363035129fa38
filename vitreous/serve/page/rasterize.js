/** Conversion of strokes to the pixels of a model's input, framed like its training samples. */

import { drawStrokes } from "./drawing-canvas.js";

const FINE = 8; // canvas pixels per pixel of the model

/**
 * @typedef {object} Framing
 * @property {number} fill share of the grid that the longer side of a figure fills
 * @property {boolean} mass whether the centre of mass is centred, rather than the bounding box
 */

/**
 * Measure how samples of a run lie in their grid.
 *
 * @param {number[][][][]} samples each (channels, rows, columns)
 * @param {number} side pixels of the grid
 * @returns {Framing}
 */
export function measureFraming(samples, side) {
  const measures = samples.map((sample) => measureFigure(sample[0])).filter((each) => each !== null);
  if (!measures.length) return { fill: side < 16 ? 1 : 0.72, mass: side >= 16 };
  const mean = (/** @type {number[]} */ values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    fill: Math.max(...measures.map((each) => each.longer)) / side,
    mass: mean(measures.map((each) => each.offMass)) < mean(measures.map((each) => each.offBox)),
  };
}

/** @param {number[][]} image */
function measureFigure(image) {
  const brightest = Math.max(...image.flat());
  if (!(brightest > 0)) return null;
  let [left, right, top, bottom, sum, x, y] = [Infinity, -1, Infinity, -1, 0, 0, 0];
  image.forEach((row, i) => row.forEach((value, j) => {
    const ink = Math.max(0, value / brightest);
    if (ink > 0.1) [left, right, top, bottom] = [Math.min(left, j), Math.max(right, j), Math.min(top, i), Math.max(bottom, i)];
    [sum, x, y] = [sum + ink, x + ink * (j + 0.5), y + ink * (i + 0.5)];
  }));
  const [rows, columns] = [image.length, image[0].length];
  return {
    longer: Math.max(right - left, bottom - top) + 1,
    offBox: Math.hypot((left + right + 1 - columns) / 2, (top + bottom + 1 - rows) / 2),
    offMass: Math.hypot(x / sum - columns / 2, y / sum - rows / 2),
  };
}

/**
 * @param {import("./drawing-canvas.js").Stroke[]} strokes
 * @param {number} width of a stroke, relative to the canvas
 * @param {number} rows @param {number} columns of the grid
 * @param {Framing} framing
 * @returns {number[][]} brightness between 0 and 1, (rows, columns)
 */
export function rasterize(strokes, width, rows, columns, framing) {
  const points = strokes.flat();
  const ends = (/** @type {0 | 1} */ i) => [Math.min(...points.map((point) => point[i])) - width / 2, Math.max(...points.map((point) => point[i])) + width / 2];
  const [[left, right], [top, bottom]] = [ends(0), ends(1)];
  const side = Math.min(rows, columns) * framing.fill * FINE;
  // Small figures, such as a dot, are not enlarged to the full size.
  const scale = side / Math.max(right - left, bottom - top, 0.25);
  const [high, wide] = [rows * FINE, columns * FINE];
  const canvas = new OffscreenCanvas(wide, high);
  const context = /** @type {any} */ (canvas.getContext("2d", { willReadFrequently: true }));
  const paint = (/** @type {number} */ dx, /** @type {number} */ dy) => {
    context.fillStyle = "#000";
    context.fillRect(0, 0, wide, high);
    drawStrokes(context, strokes, scale, dx, dy, width * scale);
    return context.getImageData(0, 0, wide, high).data;
  };
  const [x, y] = [(wide - (left + right) * scale) / 2, (high - (top + bottom) * scale) / 2];
  let pixels = paint(x, y);
  if (framing.mass) {
    const [mx, my] = centreOfMass(pixels, wide);
    pixels = paint(x + wide / 2 - mx, y + high / 2 - my);
  }
  return Array.from({ length: rows }, (_, i) => Array.from({ length: columns }, (_, j) => {
    let sum = 0;
    for (let k = 0; k < FINE; k += 1) for (let l = 0; l < FINE; l += 1) sum += pixels[4 * ((i * FINE + k) * wide + j * FINE + l)];
    return sum / (255 * FINE * FINE);
  }));
}

/** @param {Uint8ClampedArray} pixels @param {number} wide @returns {[number, number]} centre of mass */
function centreOfMass(pixels, wide) {
  let [sum, x, y] = [1e-9, 0, 0];
  for (let i = 0; i < pixels.length; i += 4) {
    const ink = pixels[i];
    if (ink) [sum, x, y] = [sum + ink, x + ink * (((i / 4) % wide) + 0.5), y + ink * (Math.floor(i / 4 / wide) + 0.5)];
  }
  return [x / sum, y / sum];
}
