/** Input of files: dropped on a panel, chosen in a dialog, or pasted. */

import { element } from "./dom.js";

/**
 * @typedef {object} DropOptions
 * @property {string} label text of the drop area
 * @property {string[]} formats suffixes
 * @property {boolean} [several]
 * @property {number} most bytes of all files together
 * @property {(files: File[]) => void} take called with valid files
 * @property {(reason: string) => void} fail called with an error message
 */

/**
 * @param {HTMLElement} panel on which files may be dropped anywhere
 * @param {DropOptions} options
 * @returns {{element: HTMLElement, formats: (formats: string[]) => void}}
 */
export function fileDrop(panel, options) {
  const input = element("input", { type: "file", class: "unseen", multiple: options.several, change: () => takeFiles(input.files) });
  const hint = element("span", { class: "quiet" });
  const area = element("label", { class: "drop" },
    input, element("span", { class: "drop-label" }, options.label, element("span", { class: "like-link" }, "or choose a file")), hint);
  let accepted = options.formats;

  /** @param {string[]} formats */
  function formats(formats) {
    accepted = formats;
    input.accept = formats.join(",");
    hint.textContent = formats.map((format) => format.slice(1)).join(" · ");
  }

  /** @param {FileList | null | undefined} list */
  function takeFiles(list) {
    const files = [...(list ?? [])];
    input.value = "";
    if (!files.length || panel.hidden) return;
    const rejected = files.find((file) => !accepted.some((format) => file.name.toLowerCase().endsWith(format)));
    const size = files.reduce((sum, file) => sum + file.size, 0);
    if (rejected) options.fail(`${rejected.name}: expected one of these file types: ${accepted.join(" ")}`);
    else if (files.length > 1 && !options.several) options.fail(`Found ${files.length} files, expected one.`);
    else if (size > options.most - 10_000) {
      options.fail(`${files[0].name}: ${(size / 1e6).toFixed(1)} MB, expected at most ${(options.most / 1e6).toFixed(0)} MB.`);
    } else options.take(files);
  }

  let depth = 0; // number of nested elements under the dragged file
  const over = (/** @type {number} */ step) => (/** @type {DragEvent} */ event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    depth = Math.max(0, depth + step);
    area.classList.toggle("over", depth > 0);
  };
  panel.addEventListener("dragenter", over(1));
  panel.addEventListener("dragover", over(0));
  panel.addEventListener("dragleave", over(-1));
  panel.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    area.classList.remove("over");
    takeFiles(event.dataTransfer?.files);
  });
  document.addEventListener("paste", (event) => takeFiles(event.clipboardData?.files));
  formats(accepted);
  return { element: area, formats };
}

// Otherwise a file dropped outside the panel would replace the page.
for (const event of ["dragover", "drop"]) document.addEventListener(event, (dropped) => dropped.preventDefault());
