/** Creation of DOM elements. Text is always inserted as text, never as markup. */

/**
 * @typedef {Node | string | number | null | false | undefined} Child
 * @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Properties
 */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties] attributes; functions become event listeners
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  setProperties(node, properties);
  node.append(...toNodes(children));
  return node;
}

/**
 * @param {string} tag of an SVG element
 * @param {Properties} [properties]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, properties = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setProperties(node, properties);
  node.append(...toNodes(children));
  return node;
}

/**
 * @param {Element} node
 * @param {Properties} properties
 */
function setProperties(node, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
}

/** @param {Child[]} children */
function toNodes(children) {
  return children.filter((child) => child !== null && child !== false && child !== undefined).map((child) => (
    typeof child === "number" ? String(child) : /** @type {Node | string} */ (child)
  ));
}

let idCount = 0;

/** @returns {string} an id that is unique on the page */
export function newId() {
  idCount += 1;
  return `e${idCount}`;
}

/**
 * @param {string} label
 * @param {HTMLElement} control
 * @returns {HTMLElement} the control with its label
 */
export function field(label, control) {
  control.id ||= newId();
  return element("div", { class: "field" }, element("label", { for: control.id }, label), control);
}

/**
 * @param {[string, string][]} options value and text of each option
 * @param {(value: string) => void} [change]
 * @returns {HTMLSelectElement}
 */
export function select(options, change) {
  const node = element("select", {}, ...options.map(([value, text]) => element("option", { value }, text)));
  if (change) node.addEventListener("change", () => change(node.value));
  return node;
}
