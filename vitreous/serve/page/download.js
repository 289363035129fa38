/** Buttons that download files. */

import { element } from "./dom.js";

/**
 * @param {string} text label of the button
 * @param {string | (() => string)} name file name
 * @param {string} mediaType e.g. text/csv
 * @param {() => BlobPart} content text is encoded as UTF-8
 * @returns {HTMLButtonElement}
 */
export function downloadButton(text, name, mediaType, content) {
  const save = () => {
    const data = content();
    const type = typeof data === "string" ? `${mediaType};charset=utf-8` : mediaType;
    const url = URL.createObjectURL(new Blob([data], { type }));
    element("a", { href: url, download: typeof name === "string" ? name : name() }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return element("button", { type: "button", click: save }, text);
}
