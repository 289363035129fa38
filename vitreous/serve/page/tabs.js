/** One of several panels at a time; the address says which, so that a link leads to it. */

import { element } from "./dom.js";

/**
 * @param {HTMLElement} list of the tabs
 * @param {HTMLElement} place of the panels
 * @param {{id: string, title: string, element: HTMLElement}[]} panels
 */
export function tabs(list, place, panels) {
  const buttons = panels.map(({ id, title, element: panel }) => {
    panel.id = id;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `tab-${id}`);
    place.append(panel);
    return element("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": id, click: () => show(id) }, title);
  });

  /** @param {string} id */
  function show(id) {
    panels.forEach(({ id: each, element: panel }, i) => {
      panel.hidden = each !== id;
      buttons[i].setAttribute("aria-selected", String(each === id));
      buttons[i].tabIndex = each === id ? 0 : -1;
    });
    history.replaceState(null, "", `#${id}`);
  }

  list.addEventListener("keydown", (event) => {
    const now = buttons.indexOf(/** @type {any} */ (document.activeElement));
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: -1 }[event.key];
    if (now < 0 || next === undefined) return;
    event.preventDefault();
    const button = /** @type {HTMLButtonElement} */ (buttons.at(next % buttons.length));
    button.click();
    button.focus();
  });
  const asked = () => panels.find(({ id }) => `#${id}` === location.hash)?.id;
  addEventListener("hashchange", () => {
    const id = asked();
    if (id) show(id);
  });
  list.replaceChildren(...buttons);
  list.hidden = panels.length < 2;
  show(asked() ?? panels[0].id);
}
