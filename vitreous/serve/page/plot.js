/** A plot of curves with zoom by dragging, pinching, buttons or keys, and a line of text for the cursor position. */

import { colour, onThemeChange } from "./theme.js";
import { element } from "./dom.js";

/** @type {typeof import("uplot")} */
const uPlot = /** @type {any} */ (globalThis).uPlot;
/** @typedef {import("uplot")} UPlot */

/**
 * @typedef {object} Curve
 * @property {string} colour name in the style sheet
 * @property {number} [width]
 * @property {number[]} [dash]
 * @property {boolean} [points] whether points are marked if there is room
 * @property {number} [fillDownTo] index of the curve down to which the area is filled
 *
 * @typedef {object} Figure
 * @property {string} x label of the x axis with its unit
 * @property {string} y
 * @property {(number | null)[][]} data x, then each curve
 * @property {Curve[]} curves
 * @property {(low: number, high: number) => [number, number]} [range] limits of the y axis
 * @property {(value: number) => string | null} [tickLabel] tick label of the y axis; null for none
 * @property {(uplot: UPlot, at: number | null) => void} [below] paints below the curves; `at` is the cursor's x
 * @property {(uplot: UPlot, at: number | null) => void} [above] paints above the curves
 * @property {(x: number, index: number, uplot: UPlot) => string} read text for a cursor position
 * @property {number[]} [stops] x values for the arrow keys; default: all points
 */

const STEP = 1.5; // zoom factor of a click
const FILL = 0.3; // opacity
const LABEL_WIDTH = 52; // pixels of the y axis labels
const HINT = "Drag to zoom in. With the keyboard: ← → read, + − zoom, shift ← → move, 0 shows all.";

export class Plot {
  /** @param {string} label for screen readers */
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
    /** @type {UPlot | null} */
    this._uplot = null;
    /** @type {Figure | null} */
    this._figure = null;
    /** @type {number | null} */
    this._at = null;
    new ResizeObserver(() => this._resize()).observe(this.box);
    onThemeChange(() => this._figure && this.show(this._figure, true));
    this.box.addEventListener("keydown", (event) => this._onKey(event));
    this.box.addEventListener("blur", () => this.readout.setAttribute("aria-live", "off"));
    this.box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return; // only pinches, which set ctrlKey; a wheel scrolls the page
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY / 200), this._at ?? undefined);
    }, { passive: false });
    this._listenTouch();
  }

  /**
   * @param {Figure} figure
   * @param {boolean} [keep] keep the visible range of x
   */
  show(figure, keep = false) {
    const visible = keep && this._uplot ? this.visible : null;
    this._uplot?.destroy();
    this._figure = figure;
    this._at = null;
    this._uplot = new uPlot(this._options(figure), /** @type {any} */ (figure.data), this.box);
    if (visible && !this._isWhole(visible)) this._setVisible(...visible);
    this._updateReadout();
  }

  /** @returns {[number, number]} the visible range of x */
  get visible() {
    const { min, max } = /** @type {UPlot} */ (this._uplot).scales.x;
    return [/** @type {number} */ (min), /** @type {number} */ (max)];
  }

  /**
   * @param {number} factor below 1 to zoom in
   * @param {number} [centre]
   */
  zoom(factor, centre) {
    if (!this._uplot) return;
    const [low, high] = this.visible;
    const middle = centre ?? (this._at !== null && this._at > low && this._at < high ? this._at : (low + high) / 2);
    this._setVisible(middle - (middle - low) * factor, middle + (high - middle) * factor);
  }

  /** Show the whole range. */
  reset() {
    this._setVisible(-Infinity, Infinity);
  }

  /** @param {number} low @param {number} high */
  _setVisible(low, high) {
    if (!this._uplot || !this._figure) return;
    const x = this._fullRange();
    const least = (x[1] - x[0]) / 2000;
    if (high - low < least) [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
    this._uplot.setScale("x", { min: Math.max(low, x[0]), max: Math.min(high, x[1]) });
  }

  /** @returns {[number, number]} */
  _fullRange() {
    const x = /** @type {number[]} */ (/** @type {Figure} */ (this._figure).data[0]);
    return [x[0], x[x.length - 1]];
  }

  /** @param {[number, number]} visible */
  _isWhole(visible) {
    const x = this._fullRange();
    return visible[0] <= x[0] && visible[1] >= x[1];
  }

  /**
   * @param {Figure} figure
   * @returns {import("uplot").Options}
   */
  _options(figure) {
    const ink = colour("quiet");
    const line = { stroke: colour("line"), width: 1 };
    const axis = { stroke: ink, grid: line, ticks: { ...line, size: 4 }, font: "12.5px system-ui, sans-serif", labelFont: "13px system-ui, sans-serif" };
    const tickLabel = figure.tickLabel ?? formatTick;
    return {
      ...this._size(),
      legend: { show: false },
      padding: [8, 14, 0, 0],
      cursor: { y: false, drag: { x: true, y: false, dist: 4 }, points: { show: false } },
      scales: {
        x: { time: false },
        y: { range: (_, low, high) => figure.range?.(low, high) ?? [low, high] },
      },
      axes: [
        { ...axis, label: figure.x, labelSize: 24, size: 32, values: (_, marks) => marks.map(formatTick) },
        { ...axis, label: figure.y, labelSize: 22, size: LABEL_WIDTH, values: (_, marks) => marks.map(tickLabel) },
      ],
      series: [{}, ...figure.curves.map((curve) => ({
        stroke: colour(curve.colour), width: curve.width ?? 1, dash: curve.dash,
        points: { size: 4, show: curve.points ? hasRoom : false },
      }))],
      bands: figure.curves.flatMap((curve, i) => (curve.fillDownTo === undefined ? [] : [{
        series: /** @type {[number, number]} */ ([i + 1, curve.fillDownTo + 1]), fill: colour(curve.colour).replace("rgb(", "rgba(").replace(")", `, ${FILL})`),
      }])),
      hooks: {
        drawClear: [(uplot) => this._clipped(uplot, () => figure.below?.(uplot, this._at))],
        draw: [(uplot) => this._clipped(uplot, () => figure.above?.(uplot, this._at))],
        setCursor: [(uplot) => this._onCursor(uplot)],
      },
    };
  }

  /** @param {UPlot} uplot @param {() => void} paint */
  _clipped(uplot, paint) {
    const { ctx, bbox } = uplot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    paint();
    ctx.restore();
  }

  /** @param {UPlot} uplot */
  _onCursor(uplot) {
    const { left } = uplot.cursor;
    this._at = left === undefined || left < 0 ? null : uplot.posToVal(left, "x");
    this._updateReadout();
    uplot.redraw(false, false);
  }

  _updateReadout() {
    const { _uplot: uplot, _figure: figure, _at: at } = this;
    if (!uplot || !figure) return;
    this.readout.textContent = at === null ? "\u00a0" : figure.read(at, uplot.valToIdx(at), uplot);
  }

  /** @param {KeyboardEvent} event */
  _onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const way = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (way && event.shiftKey) this._pan(way * 0.2);
    else if (way) this._moveCursor(way);
    else if (event.key === "+" || event.key === "=") this.zoom(1 / STEP);
    else if (event.key === "-") this.zoom(STEP);
    else if (event.key === "0") this.reset();
    else return;
    event.preventDefault();
  }

  /** @param {number} share of the visible range */
  _pan(share) {
    const [low, high] = this.visible;
    const [first, last] = this._fullRange();
    const by = Math.max(first - low, Math.min(last - high, share * (high - low)));
    this._setVisible(low + by, high + by);
  }

  /** Move the cursor to the next stop. @param {number} way 1 or −1 */
  _moveCursor(way) {
    const { _uplot: uplot, _figure: figure } = this;
    if (!uplot || !figure) return;
    const stops = figure.stops ?? /** @type {number[]} */ (figure.data[0]);
    const [low, high] = this.visible;
    const slack = (high - low) * 1e-4;
    const from = this._at ?? (way > 0 ? low - 2 * slack : high + 2 * slack);
    const ahead = way > 0 ? stops.find((x) => x > from + slack) : stops.findLast((x) => x < from - slack);
    if (ahead === undefined) return;
    if (ahead < low || ahead > high) this._pan((ahead - (low + high) / 2) / (high - low));
    this.readout.setAttribute("aria-live", "polite");
    uplot.setCursor({ left: uplot.valToPos(ahead, "x"), top: 10 });
    this._at = ahead; // exactly, not rounded to a pixel
    this._updateReadout();
    uplot.redraw(false, false);
  }

  /** One finger pans the plot; two fingers zoom the page. */
  _listenTouch() {
    /** @type {number | null} */
    let last = null;
    this.box.addEventListener("pointerdown", (event) => (last = event.pointerType === "touch" ? event.clientX : null));
    this.box.addEventListener("pointermove", (event) => {
      if (last === null || !this._uplot || event.pointerType !== "touch") return;
      this._pan((last - event.clientX) / this._uplot.over.clientWidth);
      last = event.clientX;
    });
    for (const end of ["pointerup", "pointercancel"]) this.box.addEventListener(end, () => (last = null));
  }

  _size() {
    const width = Math.max(200, this.box.clientWidth);
    return { width, height: Math.round(Math.min(420, Math.max(280, width * 0.42))) };
  }

  _resize() {
    if (this.box.clientWidth && this._uplot) this._uplot.setSize(this._size());
  }
}

/**
 * @param {UPlot} uplot
 * @param {number} _
 * @param {number} first @param {number} last visible point
 */
function hasRoom(uplot, _, first, last) {
  return last - first < uplot.over.clientWidth / 5;
}

/** @param {number} value @returns {string} tick label */
export function formatTick(value) {
  return String(Number(value.toPrecision(8))).replace("-", "−");
}

/**
 * @param {[string, string][]} entries CSS class and text of each entry
 * @returns {HTMLElement[]}
 */
export function legendEntries(entries) {
  return entries.map(([sign, text]) => element("li", {}, element("span", { class: `sign ${sign}`, "aria-hidden": "true" }), text));
}
