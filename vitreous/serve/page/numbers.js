/** Numbers as they are read: with units, standard errors and no digits that mean nothing. */

/**
 * @param {number} value
 * @param {number} error standard error; 0 where there is none
 * @param {number} digits after the point where there is none
 * @returns {string} e.g. 5.64024(13), as crystallographers write it
 */
export function withError(value, error, digits) {
  if (!(error > 0)) return signed(value.toFixed(digits));
  const places = Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(error))));
  return `${signed(value.toFixed(places))}(${Math.round(error * 10 ** places)})`;
}

/**
 * @param {number} value
 * @param {number} [digits] that count
 */
export function short(value, digits = 4) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return signed(value.toExponential(digits - 2).replace("e+", "e"));
  return signed(value.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size)))));
}

/** @param {number} share @returns {string} in percent; never a certainty that is none */
export function percent(share) {
  if (share > 0.9995 && share < 1) return "> 99.9 %";
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

/** @param {number} value of seconds */
export function seconds(value) {
  return value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
}

/** @param {string} text @returns {string} the same with a minus sign instead of a hyphen */
function signed(text) {
  return text.replaceAll("-", "−");
}

/** @param {number[]} hkl */
export function indices(hkl) {
  return `(${hkl.map((index) => signed(String(index))).join(" ")})`;
}

/**
 * @param {string} name
 * @param {string} unit may be empty
 */
export function named(name, unit) {
  return unit ? `${name} (${unit})` : name;
}

/** @param {(string | number | null)[][]} rows @returns {string} CSV */
export function csv(rows) {
  const cell = (/** @type {string | number | null} */ value) => {
    const text = value === null ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
