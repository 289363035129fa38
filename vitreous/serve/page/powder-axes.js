/** The axes of a powder plot: 2θ or q, and linear or square-root intensities. */

/**
 * @typedef {object} View
 * @property {"angle" | "q"} axis
 * @property {"linear" | "root"} scale
 */

/** Intensity scales and their inverses. */
const SCALES = {
  linear: [(/** @type {number} */ y) => y, (/** @type {number} */ y) => y],
  root: [(/** @type {number} */ y) => Math.sqrt(Math.max(0, y)), (/** @type {number} */ y) => y * y],
};

/**
 * @param {View} view
 * @param {number} wavelength Å
 */
export function powderAxes(view, wavelength) {
  const inQ = view.axis === "q";
  const [scaled, unscaled] = SCALES[view.scale];
  const q = (/** @type {number} */ angle) => (4 * Math.PI * Math.sin((angle * Math.PI) / 360)) / wavelength;
  const angleOf = (/** @type {number} */ x) => (inQ ? (360 / Math.PI) * Math.asin(Math.min(1, (x * wavelength) / (4 * Math.PI))) : x);
  return {
    x: inQ ? "q (Å⁻¹)" : "2θ (°)",
    y: view.scale === "root" ? "√ intensity" : "intensity",
    toAxis: (/** @type {number} */ angle) => (inQ ? q(angle) : angle),
    scaled,
    unscaled,
    /** @param {number} x @returns {string[]} the position in 2θ, q and d */
    read(x) {
      const angle = angleOf(x);
      const d = wavelength / (2 * Math.sin((angle * Math.PI) / 360));
      return [`2θ ${angle.toFixed(3)}°`, `q ${q(angle).toFixed(4)} Å⁻¹`, `d ${d.toFixed(4)} Å`];
    },
  };
}
