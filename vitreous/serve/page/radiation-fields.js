/** Input of the radiation of a pattern, if its file does not state it. */

import { select, element, field } from "./dom.js";

/**
 * @param {string[]} anodes
 * @returns {{element: HTMLElement, fill: (form: FormData) => void, focus: () => void}}
 */
export function radiationFields(anodes) {
  const anode = select([["", "from the file"], ...anodes.map((name) => /** @type {[string, string]} */ ([name, `${name} Kα`])), ["other", "other wavelength"]], () => {
    otherField.hidden = anode.value !== "other";
    if (!otherField.hidden) wavelength.focus();
  });
  const wavelength = element("input", { type: "number", min: 0.1, max: 10, step: "any", inputmode: "decimal", placeholder: "e.g. 0.7291" });
  const otherField = field("Wavelength (Å)", wavelength);
  otherField.hidden = true;
  const fields = () => {
    if (anode.value !== "other") return anode.value ? { anode: anode.value } : {};
    return wavelength.value ? { wavelength: Number(wavelength.value) } : {};
  };
  return {
    element: element("div", { class: "fields" }, field("Radiation", anode), otherField),
    fill: (form) => Object.entries(fields()).forEach(([name, value]) => form.set(name, String(value))),
    focus: () => anode.focus(),
  };
}
