/** Buttons that download text. */

import { element } from "./dom.js";

/**
 * @param {string} text label of the button
 * @param {string} name file name
 * @param {string} mediaType e.g. text/csv
 * @param {() => string} content
 * @returns {HTMLButtonElement}
 */
export function downloadButton(text, name, mediaType, content) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([content()], { type: `${mediaType};charset=utf-8` }));
    element("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return element("button", { type: "button", click: save }, text);
}
