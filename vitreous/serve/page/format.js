/** Formatting of numbers with units and standard errors. */

/**
 * @param {number} value
 * @param {number} error standard error; 0 for none
 * @param {number} digits decimal places if there is no error
 * @returns {string} e.g. 5.64024(13), as crystallographers write it
 */
export function formatWithError(value, error, digits) {
  if (!(error > 0)) return withMinus(value.toFixed(digits));
  const places = Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(error))));
  return `${withMinus(value.toFixed(places))}(${Math.round(error * 10 ** places)})`;
}

/**
 * @param {number} value
 * @param {number} [digits] significant digits
 */
export function formatNumber(value, digits = 4) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return withMinus(value.toExponential(digits - 2).replace("e+", "e"));
  return withMinus(value.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size)))));
}

/** @param {number} share @returns {string} in percent; values close to 0 and 1 as bounds */
export function formatPercent(share) {
  if (share > 0.9995 && share < 1) return "> 99.9 %";
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

/** @param {number} value of seconds */
export function formatSeconds(value) {
  return value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
}

/** @param {string} text @returns {string} the text with minus signs instead of hyphens */
function withMinus(text) {
  return text.replaceAll("-", "−");
}

/** @param {number[]} hkl */
export function formatIndices(hkl) {
  return `(${hkl.map((index) => withMinus(String(index))).join(" ")})`;
}

/**
 * @param {string} name
 * @param {string} unit may be empty
 */
export function labelWithUnit(name, unit) {
  return unit ? `${name} (${unit})` : name;
}

/** @param {(string | number | null)[][]} rows @returns {string} CSV */
export function toCsv(rows) {
  const cell = (/** @type {string | number | null} */ value) => {
    const text = value === null ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
