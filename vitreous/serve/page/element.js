/** Elements in one expression; text is always text, never markup. */

/**
 * @typedef {Node | string | number | null | false | undefined} Child
 * @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Properties
 */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties] attributes; functions listen to the event of their name
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  set(made, properties);
  made.append(...shown(children));
  return made;
}

/**
 * @param {string} tag of SVG
 * @param {Properties} [properties]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function drawing(tag, properties = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(made, properties);
  made.append(...shown(children));
  return made;
}

/**
 * @param {Element} made
 * @param {Properties} properties
 */
function set(made, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
}

/** @param {Child[]} children */
function shown(children) {
  return children.filter((child) => child !== null && child !== false && child !== undefined).map((child) => (
    typeof child === "number" ? String(child) : /** @type {Node | string} */ (child)
  ));
}

let count = 0;

/** @returns {string} an id that nothing else has */
export function fresh() {
  count += 1;
  return `e${count}`;
}

/**
 * @param {string} label
 * @param {HTMLElement} control
 * @returns {HTMLElement} both, side by side or one above the other
 */
export function field(label, control) {
  control.id ||= fresh();
  return element("div", { class: "field" }, element("label", { for: control.id }, label), control);
}

/**
 * @param {[string, string][]} options value and text of each
 * @param {(value: string) => void} [change]
 * @returns {HTMLSelectElement}
 */
export function choice(options, change) {
  const made = element("select", {}, ...options.map(([value, text]) => element("option", { value }, text)));
  if (change) made.addEventListener("change", () => change(made.value));
  return made;
}
