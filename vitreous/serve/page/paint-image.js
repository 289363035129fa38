/** Painting of a sample as an image, with an attribution map over it. */

import { heatColour } from "./theme.js";

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number[][][]} sample (channels, rows, columns)
 * @param {number | null} white value of a white pixel; null if unknown
 * @param {number[][] | null} map attribution map of the same size
 */
export function paintImage(canvas, sample, white, map) {
  const [rows, columns] = [sample[0].length, sample[0][0].length];
  canvas.width = columns;
  canvas.height = rows;
  const values = sample.flat(2);
  const low = white === null ? values.reduce((a, b) => Math.min(a, b)) : 0;
  const high = white ?? values.reduce((a, b) => Math.max(a, b));
  // Scale from the lowest to the highest value: the map shows differences.
  const weights = map?.flat() ?? [0];
  const least = Math.min(...weights);
  const range = Math.max(...weights) - least || 1;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < rows; i += 1) {
    for (let j = 0; j < columns; j += 1) {
      const share = map ? (map[i][j] - least) / range : 0;
      const tint = heatColour(share);
      const opacity = map ? 0.2 + 0.4 * share : 0;
      for (let channel = 0; channel < 3; channel += 1) {
        const value = sample[Math.min(channel, sample.length - 1)][i][j];
        const grey = 255 * Math.min(1, Math.max(0, (value - low) / (high - low || 1)));
        image.data[4 * (i * columns + j) + channel] = grey * (1 - opacity) + tint[channel] * opacity;
      }
      image.data[4 * (i * columns + j) + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}
