/** The page: asks what is served, and offers that. */

import { themeButton } from "./appearance.js";
import { element } from "./element.js";
import { imagePanel } from "./image.js";
import { powderPanel } from "./powder.js";
import { Service, ServiceFault, tokenDialog } from "./service.js";
import { spectraPanel } from "./spectra.js";
import { tabs } from "./tabs.js";

/** @typedef {import("./answers.js").Served} Served */
/** @typedef {import("./answers.js").Examples} Examples */

const SPECTRA = ["spectrum", "pattern", "set"];

const byId = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));

/** What can be done, if it is served, and how to have it served. */
const FLOWS = [
  {
    id: "powder", title: "Powder", missing: "find the unit cell of a powder pattern", command: "vitreous serve --powder",
    panel: (/** @type {Service} */ service, /** @type {Served} */ served, /** @type {Examples} */ examples) =>
      served.powder && powderPanel(service, served, examples),
  },
  {
    id: "image", title: "Image", missing: "tell a drawn digit", command: "vitreous train digits --out runs/digits && vitreous serve runs/digits",
    panel: (/** @type {Service} */ service, /** @type {Served} */ served, /** @type {Examples} */ examples) => {
      const models = served.models.filter(({ kind }) => kind === "image");
      return models.length ? imagePanel(service, served, examples, models) : null;
    },
  },
  {
    id: "spectra", title: "Spectra", missing: "predict quantities from spectra", command: "vitreous train spectra.csv --target assay:mg --out runs/assay && vitreous serve runs/assay",
    panel: (/** @type {Service} */ service, /** @type {Served} */ served, /** @type {Examples} */ examples) => {
      const models = served.models.filter(({ kind }) => SPECTRA.includes(kind));
      return models.length ? spectraPanel(service, served, examples, models) : null;
    },
  },
];

async function start() {
  themeButton(byId("theme"));
  const loading = byId("loading");
  const service = new Service(tokenDialog(byId("token")));
  try {
    const served = await service.get("v1/models");
    const examples = await service.get("v1/examples");
    show(service, served, examples);
  } catch (fault) {
    if (!(fault instanceof ServiceFault)) throw fault;
    loading.setAttribute("role", "alert");
    loading.classList.add("fault");
    loading.textContent = fault.message;
  }
}

/** @param {Service} service @param {Served} served @param {Examples} examples */
function show(service, served, examples) {
  const found = FLOWS.map((flow) => ({ ...flow, element: flow.panel(service, served, examples) }));
  const offered = found.flatMap(({ id, title, element }) => (element ? [{ id, title, element }] : []));
  byId("loading").remove();
  if (offered.length) tabs(/** @type {HTMLElement} */ (document.querySelector(".flows")), byId("content"), offered);
  else {
    byId("content").append(element("section", { class: "empty" }, element("h1", {}, "Nothing here to try by hand"),
      element("p", { class: "lead" }, "What this service answers is for scripts: ", element("a", { href: "docs" }, "see its API"), ".")));
  }
  more(found.filter(({ element }) => !element), served);
}

/** @param {{missing: string, command: string}[]} missing @param {Served} served */
function more(missing, served) {
  const volumes = served.models.filter(({ kind }) => kind === "volume").map(({ name }) => name);
  byId("more").replaceChildren(...[
    ...(missing.length ? [element("h2", {}, "Not served here"), element("dl", {}, ...missing.flatMap(({ missing, command }) => [
      element("dt", {}, `To ${missing}`), element("dd", {}, element("code", {}, command)),
    ]))] : []),
    volumes.length ? element("p", { class: "quiet" }, `For scripts only: ${volumes.join(", ")}.`) : null,
    element("p", { class: "quiet" }, "What you drop stays between this page and its service; it is not kept."),
  ].filter((part) => part !== null));
}

void start();
