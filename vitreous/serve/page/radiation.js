/** Which X-rays a pattern was measured with, where its file does not say. */

import { choice, element, field } from "./element.js";

/**
 * @param {string[]} anodes
 * @returns {{element: HTMLElement, fill: (form: FormData) => void, focus: () => void}}
 */
export function radiationFields(anodes) {
  const anode = choice([["", "as the file says"], ...anodes.map((name) => /** @type {[string, string]} */ ([name, `${name} Kα`])), ["other", "other wavelength"]], () => {
    own.hidden = anode.value !== "other";
    if (!own.hidden) wavelength.focus();
  });
  const wavelength = element("input", { type: "number", min: 0.1, max: 10, step: "any", inputmode: "decimal", placeholder: "e.g. 0.7291" });
  const own = field("Wavelength (Å)", wavelength);
  own.hidden = true;
  const given = () => {
    if (anode.value !== "other") return anode.value ? { anode: anode.value } : {};
    return wavelength.value ? { wavelength: Number(wavelength.value) } : {};
  };
  return {
    element: element("div", { class: "fields" }, field("Radiation", anode), own),
    fill: (form) => Object.entries(given()).forEach(([name, value]) => form.set(name, String(value))),
    focus: () => anode.focus(),
  };
}
