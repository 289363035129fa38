/** Download of a project for a refinement program, chosen in a menu. */

import { element, field, select } from "./dom.js";
import { downloadButton } from "./download.js";

/**
 * @param {import("./types.js").IndexResult} result
 * @param {string} stem of the names of downloaded files
 * @returns {HTMLElement | null} a menu of programs and a button; nothing without a refined cell
 */
export function projectDownload(result, stem) {
  if (!result.projects.length) return null;
  let project = result.projects[0];
  const about = element("p", { class: "quiet" });
  const files = element("p", { class: "quiet" });
  const advice = element("p", { class: "quiet" });
  const programs = select(result.projects.map(({ program }) => [program, program]), (program) => {
    project = result.projects.find((each) => each.program === program) ?? project;
    describe();
  });
  const describe = () => {
    const missing = result.second && project.phases < 2;
    about.textContent = `The start of a Pawley or Le Bail fit of ${project.phases < 2 ? "cell 1" : "both phases"}, with the data.${missing ? " Add the second phase in the program." : ""}`;
    files.textContent = `In the ZIP archive: ${project.files.join(", ")}`;
    advice.textContent = project.advice;
  };
  describe();
  return element("section", { class: "finding next" }, element("h2", {}, "Go on in a refinement program"),
    element("div", { class: "row" }, field("Program", programs),
      downloadButton("Project as ZIP", () => `${stem}-${project.program.toLowerCase()}.zip`, "application/zip", () => bytes(project.archive))),
    element("div", { "aria-live": "polite" }, about, files, advice));
}

/** @param {string} base64 */
function bytes(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
