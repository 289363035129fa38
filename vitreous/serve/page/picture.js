/** A sample as a picture, and a map of where the model looked over it. */

import { heat } from "./appearance.js";

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number[][][]} sample (channels, rows, columns)
 * @param {number | null} white value of a white pixel, where it is known
 * @param {number[][] | null} map over it
 */
export function paintPicture(canvas, sample, white, map) {
  const [rows, columns] = [sample[0].length, sample[0][0].length];
  canvas.width = columns;
  canvas.height = rows;
  const values = sample.flat(2);
  const low = white === null ? values.reduce((a, b) => Math.min(a, b)) : 0;
  const high = white ?? values.reduce((a, b) => Math.max(a, b));
  // From the least to the most: differences are what the map is for.
  const looked = map?.flat() ?? [0];
  const least = Math.min(...looked);
  const range = Math.max(...looked) - least || 1;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < rows; i += 1) {
    for (let j = 0; j < columns; j += 1) {
      const share = map ? (map[i][j] - least) / range : 0;
      const over = heat(share);
      const opacity = map ? 0.2 + 0.4 * share : 0;
      for (let channel = 0; channel < 3; channel += 1) {
        const value = sample[Math.min(channel, sample.length - 1)][i][j];
        const grey = 255 * Math.min(1, Math.max(0, (value - low) / (high - low || 1)));
        image.data[4 * (i * columns + j) + channel] = grey * (1 - opacity) + over[channel] * opacity;
      }
      image.data[4 * (i * columns + j) + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}
