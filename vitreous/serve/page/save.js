/** Downloads of what is on the page. */

import { element } from "./element.js";

/**
 * @param {string} text of the button
 * @param {string} name of the file
 * @param {string} kind e.g. text/csv
 * @param {() => string} content
 * @returns {HTMLButtonElement}
 */
export function saveButton(text, name, kind, content) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([content()], { type: `${kind};charset=utf-8` }));
    element("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return element("button", { type: "button", click: save }, text);
}
