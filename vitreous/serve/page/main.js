/** Entry point of the page: shows a panel for each kind of served model. */

import { themeButton } from "./theme.js";
import { element } from "./dom.js";
import { imagePanel } from "./image-panel.js";
import { powderPanel } from "./powder-panel.js";
import { Api, ApiError, tokenDialog } from "./api.js";
import { spectraPanel } from "./spectra-panel.js";
import { tabs } from "./tabs.js";

/** @typedef {import("./types.js").ServiceInfo} ServiceInfo */
/** @typedef {import("./types.js").Examples} Examples */

const SPECTRA = ["spectrum", "pattern", "set"];

const byId = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));

/** Panels, and the command that serves each. */
const PANELS = [
  {
    id: "powder", title: "Powder", missing: "find the unit cell of a powder pattern", command: "vitreous serve --powder",
    create: (/** @type {Api} */ api, /** @type {ServiceInfo} */ info, /** @type {Examples} */ examples) =>
      info.powder && powderPanel(api, info, examples),
  },
  {
    id: "image", title: "Image", missing: "recognize a drawn digit", command: "vitreous train digits --out runs/digits && vitreous serve runs/digits",
    create: (/** @type {Api} */ api, /** @type {ServiceInfo} */ info, /** @type {Examples} */ examples) => {
      const models = info.models.filter(({ kind }) => kind === "image");
      return models.length ? imagePanel(api, info, examples, models) : null;
    },
  },
  {
    id: "spectra", title: "Spectra", missing: "predict quantities from spectra", command: "vitreous train spectra.csv --target assay:mg --out runs/assay && vitreous serve runs/assay",
    create: (/** @type {Api} */ api, /** @type {ServiceInfo} */ info, /** @type {Examples} */ examples) => {
      const models = info.models.filter(({ kind }) => SPECTRA.includes(kind));
      return models.length ? spectraPanel(api, info, examples, models) : null;
    },
  },
];

async function start() {
  themeButton(byId("theme"));
  const loading = byId("loading");
  const api = new Api(tokenDialog(byId("token")));
  try {
    const info = await api.get("v1/models");
    const examples = await api.get("v1/examples");
    show(api, info, examples);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    loading.setAttribute("role", "alert");
    loading.classList.add("fault");
    loading.textContent = error.message;
  }
}

/** @param {Api} api @param {ServiceInfo} info @param {Examples} examples */
function show(api, info, examples) {
  const panels = PANELS.map((panel) => ({ ...panel, element: panel.create(api, info, examples) }));
  const available = panels.flatMap(({ id, title, element }) => (element ? [{ id, title, element }] : []));
  byId("loading").remove();
  if (available.length) tabs(/** @type {HTMLElement} */ (document.querySelector(".flows")), byId("content"), available);
  else {
    byId("content").append(element("section", { class: "empty" }, element("h1", {}, "No model for this page"),
      element("p", { class: "lead" }, "The served models can be used by scripts: ", element("a", { href: "docs" }, "see the API"), ".")));
  }
  showFooter(panels.filter(({ element }) => !element), info);
}

/** @param {{missing: string, command: string}[]} missing @param {ServiceInfo} info */
function showFooter(missing, info) {
  const absent = [...missing, ...(info.database ? [] : [{ missing: "identify the phases of a sample", command: "vitreous serve --database phases.db" }])];
  const volumes = info.models.filter(({ kind }) => kind === "volume").map(({ name }) => name);
  byId("more").replaceChildren(...[
    ...(absent.length ? [element("h2", {}, "Not served here"), element("dl", {}, ...absent.flatMap(({ missing, command }) => [
      element("dt", {}, `To ${missing}`), element("dd", {}, element("code", {}, command)),
    ]))] : []),
    volumes.length ? element("p", { class: "quiet" }, `Only by scripts: ${volumes.join(", ")}.`) : null,
    element("p", { class: "quiet" }, "Files are sent only to this service and are not stored."),
  ].filter((part) => part !== null));
}

void start();
