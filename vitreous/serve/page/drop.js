/** A place for files: dropped on the panel, chosen, or pasted. */

import { element } from "./element.js";

/**
 * @typedef {object} Drop
 * @property {string} label what to drop
 * @property {string[]} formats suffixes
 * @property {boolean} [several]
 * @property {number} most bytes together
 * @property {(files: File[]) => void} take
 * @property {(reason: string) => void} fail
 */

/**
 * @param {HTMLElement} panel on which files may be dropped anywhere
 * @param {Drop} wanted
 * @returns {{element: HTMLElement, formats: (formats: string[]) => void}}
 */
export function dropPlace(panel, wanted) {
  const input = element("input", { type: "file", class: "unseen", multiple: wanted.several, change: () => give(input.files) });
  const hint = element("span", { class: "quiet" });
  const place = element("label", { class: "drop" },
    input, element("span", { class: "drop-label" }, wanted.label, element("span", { class: "like-link" }, "or choose a file")), hint);
  let known = wanted.formats;

  /** @param {string[]} formats */
  function formats(formats) {
    known = formats;
    input.accept = formats.join(",");
    hint.textContent = formats.map((format) => format.slice(1)).join(" · ");
  }

  /** @param {FileList | null | undefined} list */
  function give(list) {
    const files = [...(list ?? [])];
    input.value = "";
    if (!files.length || panel.hidden) return;
    const strange = files.find((file) => !known.some((format) => file.name.toLowerCase().endsWith(format)));
    const size = files.reduce((sum, file) => sum + file.size, 0);
    if (strange) wanted.fail(`${strange.name}: expected a file of one of these kinds: ${known.join(" ")}`);
    else if (files.length > 1 && !wanted.several) wanted.fail(`Found ${files.length} files, expected one.`);
    else if (size > wanted.most - 10_000) {
      wanted.fail(`${files[0].name}: ${(size / 1e6).toFixed(1)} MB, expected ${(wanted.most / 1e6).toFixed(0)} MB at most.`);
    } else wanted.take(files);
  }

  let depth = 0; // of elements that the file is over
  const over = (/** @type {number} */ step) => (/** @type {DragEvent} */ event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    depth = Math.max(0, depth + step);
    place.classList.toggle("over", depth > 0);
  };
  panel.addEventListener("dragenter", over(1));
  panel.addEventListener("dragover", over(0));
  panel.addEventListener("dragleave", over(-1));
  panel.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    place.classList.remove("over");
    give(event.dataTransfer?.files);
  });
  document.addEventListener("paste", (event) => give(event.clipboardData?.files));
  formats(known);
  return { element: place, formats };
}

// A file that misses the place would otherwise replace the page.
for (const event of ["dragover", "drop"]) document.addEventListener(event, (found) => found.preventDefault());
