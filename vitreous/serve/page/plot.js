/** A curve to look into: zoom by dragging, pinching, buttons or keys; a line below it says what is under the cursor. */

import { colour, onTheme } from "./appearance.js";
import { element } from "./element.js";

/** @type {typeof import("uplot")} */
const uPlot = /** @type {any} */ (globalThis).uPlot;
/** @typedef {import("uplot")} Drawn */

/**
 * @typedef {object} Curve
 * @property {string} colour by its name in the style sheet
 * @property {number} [width]
 * @property {number[]} [dash]
 * @property {boolean} [points] whether they are marked where there is room
 *
 * @typedef {object} Figure
 * @property {string} x label of the axis with its unit
 * @property {string} y
 * @property {(number | null)[][]} data along x, then each curve
 * @property {Curve[]} curves
 * @property {(low: number, high: number) => [number, number]} [range] along y, of what is seen
 * @property {(value: number) => string | null} [mark] along y; null for none
 * @property {(drawn: Drawn, at: number | null) => void} [below] paints before the curves; `at` is the cursor's place
 * @property {(drawn: Drawn, at: number | null) => void} [above] paints after them
 * @property {(x: number, index: number, drawn: Drawn) => string} read what is at a place
 * @property {number[]} [stops] along x, that the arrow keys go to; all points if not given
 */

const STEP = 1.5; // a click on + or −
const MARKS = 52; // pixels for those of the y axis
const HINT = "Drag to zoom in. With the keyboard: ← → read, + − zoom, shift ← → move, 0 shows all.";

export class Plot {
  /** @param {string} label for those who hear the page */
  constructor(label) {
    const button = (/** @type {string} */ text, /** @type {string} */ name, /** @type {() => void} */ click) =>
      element("button", { type: "button", "aria-label": name, title: name, click }, text);
    this._hint = element("p", { class: "quiet hint" }, HINT);
    this.tools = element("div", { class: "tools" }, element("span", { class: "group" },
      button("−", "Zoom out", () => this.zoom(STEP)), button("+", "Zoom in", () => this.zoom(1 / STEP)),
      button("Show all", "Show all", () => this.reset())));
    this.box = element("div", { class: "plot", tabindex: 0, role: "application", "aria-label": `${label}. ${HINT}` });
    this.readout = element("p", { class: "readout", "aria-live": "off" });
    this.legend = element("ul", { class: "legend" });
    this.element = element("div", { class: "figure" }, this.tools, this.box, this.readout, this.legend, this._hint);
    /** @type {Drawn | null} */
    this._drawn = null;
    /** @type {Figure | null} */
    this._figure = null;
    /** @type {number | null} */
    this._at = null;
    new ResizeObserver(() => this._resize()).observe(this.box);
    onTheme(() => this._figure && this.show(this._figure, true));
    this.box.addEventListener("keydown", (event) => this._key(event));
    this.box.addEventListener("blur", () => this.readout.setAttribute("aria-live", "off"));
    this.box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return; // a pinch; without it the page scrolls
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY / 200), this._at ?? undefined);
    }, { passive: false });
    this._touch();
  }

  /**
   * @param {Figure} figure
   * @param {boolean} [keep] the part of the x axis that is seen
   */
  show(figure, keep = false) {
    const seen = keep && this._drawn ? this.seen : null;
    this._drawn?.destroy();
    this._figure = figure;
    this._at = null;
    this._drawn = new uPlot(this._options(figure), /** @type {any} */ (figure.data), this.box);
    if (seen && !this._whole(seen)) this._see(...seen);
    this._read();
  }

  /** @returns {[number, number]} the ends of what is seen along x */
  get seen() {
    const { min, max } = /** @type {Drawn} */ (this._drawn).scales.x;
    return [/** @type {number} */ (min), /** @type {number} */ (max)];
  }

  /**
   * @param {number} factor below 1 to see less
   * @param {number} [centre]
   */
  zoom(factor, centre) {
    if (!this._drawn) return;
    const [low, high] = this.seen;
    const middle = centre ?? (this._at !== null && this._at > low && this._at < high ? this._at : (low + high) / 2);
    this._see(middle - (middle - low) * factor, middle + (high - middle) * factor);
  }

  /** See all of it again. */
  reset() {
    this._see(-Infinity, Infinity);
  }

  /** @param {number} low @param {number} high */
  _see(low, high) {
    if (!this._drawn || !this._figure) return;
    const x = this._ends();
    const least = (x[1] - x[0]) / 2000;
    if (high - low < least) [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
    this._drawn.setScale("x", { min: Math.max(low, x[0]), max: Math.min(high, x[1]) });
  }

  /** @returns {[number, number]} */
  _ends() {
    const x = /** @type {number[]} */ (/** @type {Figure} */ (this._figure).data[0]);
    return [x[0], x[x.length - 1]];
  }

  /** @param {[number, number]} seen */
  _whole(seen) {
    const x = this._ends();
    return seen[0] <= x[0] && seen[1] >= x[1];
  }

  /**
   * @param {Figure} figure
   * @returns {import("uplot").Options}
   */
  _options(figure) {
    const ink = colour("quiet");
    const line = { stroke: colour("line"), width: 1 };
    const axis = { stroke: ink, grid: line, ticks: { ...line, size: 4 }, font: "12.5px system-ui, sans-serif", labelFont: "13px system-ui, sans-serif" };
    const mark = figure.mark ?? axisMark;
    return {
      ...this._size(),
      legend: { show: false },
      padding: [8, 8, 0, 0],
      cursor: { y: false, drag: { x: true, y: false, dist: 4 }, points: { show: false } },
      scales: {
        x: { time: false },
        y: { range: (_, low, high) => figure.range?.(low, high) ?? [low, high] },
      },
      axes: [
        { ...axis, label: figure.x, labelSize: 24, size: 32, values: (_, marks) => marks.map(axisMark) },
        { ...axis, label: figure.y, labelSize: 22, size: MARKS, values: (_, marks) => marks.map(mark) },
      ],
      series: [{}, ...figure.curves.map((curve) => ({
        stroke: colour(curve.colour), width: curve.width ?? 1, dash: curve.dash,
        points: { size: 4, show: curve.points ? sparse : false },
      }))],
      hooks: {
        drawClear: [(drawn) => this._clipped(drawn, () => figure.below?.(drawn, this._at))],
        draw: [(drawn) => this._clipped(drawn, () => figure.above?.(drawn, this._at))],
        setCursor: [(drawn) => this._cursor(drawn)],
      },
    };
  }

  /** @param {Drawn} drawn @param {() => void} paint */
  _clipped(drawn, paint) {
    const { ctx, bbox } = drawn;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    paint();
    ctx.restore();
  }

  /** @param {Drawn} drawn */
  _cursor(drawn) {
    const { left } = drawn.cursor;
    this._at = left === undefined || left < 0 ? null : drawn.posToVal(left, "x");
    this._read();
    drawn.redraw(false, false);
  }

  _read() {
    const { _drawn: drawn, _figure: figure, _at: at } = this;
    if (!drawn || !figure) return;
    this.readout.textContent = at === null ? "\u00a0" : figure.read(at, drawn.valToIdx(at), drawn);
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const way = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (way && event.shiftKey) this._move(way * 0.2);
    else if (way) this._stop(way);
    else if (event.key === "+" || event.key === "=") this.zoom(1 / STEP);
    else if (event.key === "-") this.zoom(STEP);
    else if (event.key === "0") this.reset();
    else return;
    event.preventDefault();
  }

  /** @param {number} share of what is seen */
  _move(share) {
    const [low, high] = this.seen;
    const [first, last] = this._ends();
    const by = Math.max(first - low, Math.min(last - high, share * (high - low)));
    this._see(low + by, high + by);
  }

  /** The next place to read: @param {number} way */
  _stop(way) {
    const { _drawn: drawn, _figure: figure } = this;
    if (!drawn || !figure) return;
    const stops = figure.stops ?? /** @type {number[]} */ (figure.data[0]);
    const [low, high] = this.seen;
    const slack = (high - low) * 1e-4;
    const from = this._at ?? (way > 0 ? low - 2 * slack : high + 2 * slack);
    const ahead = way > 0 ? stops.find((x) => x > from + slack) : stops.findLast((x) => x < from - slack);
    if (ahead === undefined) return;
    if (ahead < low || ahead > high) this._move((ahead - (low + high) / 2) / (high - low));
    this.readout.setAttribute("aria-live", "polite");
    drawn.setCursor({ left: drawn.valToPos(ahead, "x"), top: 10 });
    this._at = ahead; // and not the pixel's
    this._read();
    drawn.redraw(false, false);
  }

  /** A finger moves along, two are left to the page. */
  _touch() {
    /** @type {number | null} */
    let last = null;
    this.box.addEventListener("pointerdown", (event) => (last = event.pointerType === "touch" ? event.clientX : null));
    this.box.addEventListener("pointermove", (event) => {
      if (last === null || !this._drawn || event.pointerType !== "touch") return;
      this._move((last - event.clientX) / this._drawn.over.clientWidth);
      last = event.clientX;
    });
    for (const end of ["pointerup", "pointercancel"]) this.box.addEventListener(end, () => (last = null));
  }

  _size() {
    const width = Math.max(200, this.box.clientWidth);
    return { width, height: Math.round(Math.min(420, Math.max(280, width * 0.42))) };
  }

  _resize() {
    if (this.box.clientWidth && this._drawn) this._drawn.setSize(this._size());
  }
}

/**
 * @param {Drawn} drawn
 * @param {number} _
 * @param {number} first @param {number} last point that is seen
 */
function sparse(drawn, _, first, last) {
  return last - first < drawn.over.clientWidth / 5;
}

/** @param {number} value @returns {string} as it stands at an axis */
export function axisMark(value) {
  return String(Number(value.toPrecision(8))).replace("-", "−");
}

/**
 * @param {[string, string][]} entries class of the sign, and text
 * @returns {HTMLElement[]}
 */
export function legendEntries(entries) {
  return entries.map(([sign, text]) => element("li", {}, element("span", { class: `sign ${sign}`, "aria-hidden": "true" }), text));
}
