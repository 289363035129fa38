/** The question which phases a powder pattern has: its fields, its request, and its answer. */

import { element, field } from "./dom.js";
import { downloadButton } from "./download.js";
import { formatPercent } from "./format.js";
import { linesOfNoPhase, phaseList, phasesVerdict } from "./phase-list.js";
import { drawPhases } from "./phase-plot.js";

/** @typedef {import("./types.js").Identification} Identification */

const MOST_PHASES = 12;

/**
 * @param {import("./types.js").PhaseDatabase} database
 * @returns {import("./powder-panel.js").Question<Identification>}
 */
export function phaseSearch(database) {
  const symbols = (/** @type {string} */ example) => element("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: example });
  const [elements, excluded] = [symbols("e.g. Ca F Zn"), symbols("e.g. Pb")];
  const most = element("input", { type: "number", min: 1, max: MOST_PHASES, step: 1, value: 4, inputmode: "numeric" });
  return {
    button: "What is it?",
    title: "What is in the sample?",
    path: "v1/identify",
    scale: "root",
    fields: element("div", {},
      element("div", { class: "fields" }, field("Elements", elements), field("Without", excluded), field("Most phases", most)),
      element("p", { class: "quiet" }, "Each phase has one of the elements at least, and no others but hydrogen and oxygen.")),
    progress: (name) => `Comparing ${name} with ${database.phases.toLocaleString("en")} phases`,
    fault() {
      if (most.validity.valid && most.value) return "";
      most.focus();
      return `Most phases: expected a number from 1 to ${MOST_PHASES}.`;
    },
    request: () => ({
      ...(elements.value.trim() ? { elements: parseSymbols(elements.value) } : {}),
      ...(excluded.value.trim() ? { exclude_elements: parseSymbols(excluded.value) } : {}),
      max_phases: Number(most.value),
    }),
    focusFault: () => (elements.value.trim() ? elements : excluded).focus(),
    show: (result, { stem, plot, view }) => ({
      parts: [
        phasesVerdict(result), plot.element, phaseList(result), linesOfNoPhase(result),
        result.phases.length ? element("p", { class: "row" }, downloadButton("Phases as CSV", `${stem}-phases.csv`, "text/csv", () => result.csv)) : null,
      ],
      draw: () => drawPhases(plot, result, view),
      summary: summary(result),
    }),
  };
}

/** @param {string} text e.g. "ca, F" @returns {string[]} e.g. Ca and F */
function parseSymbols(text) {
  return text.split(/[\s,;]+/).filter(Boolean).map((symbol) => symbol[0].toUpperCase() + symbol.slice(1).toLowerCase());
}

/** @param {Identification} result @returns {string} for screen readers */
function summary(result) {
  if (!result.phases.length) return "No phase found.";
  const names = result.phases.map((phase) => `${phase.name}${phase.mass_fraction === null ? "" : ` ${formatPercent(phase.mass_fraction)}`}`);
  return `${result.verdict === "likely" ? "Found" : "Unsure"}: ${names.join(", ")}.`;
}
