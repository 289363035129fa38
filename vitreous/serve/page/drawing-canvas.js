/** A canvas to draw on with mouse, pen, finger or keyboard. */

import { element } from "./dom.js";

/** @typedef {[number, number][]} Stroke relative to the canvas side */

const SIDE = 560; // pixels of the canvas, independent of its size on the page
const STEP = 0.04; // of the keyboard's pen, relative to the side
/** @type {Record<string, [number, number]>} */
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class DrawingCanvas {
  /**
   * @param {number} width of a stroke, relative to the side
   * @param {(strokes: Stroke[]) => void} change called after every change
   */
  constructor(width, change) {
    this.width = width;
    this._change = change;
    /** @type {Stroke[]} */
    this.strokes = [];
    /** @type {number | null} */
    this._pointer = null;
    this.canvas = element("canvas", { class: "slate", width: SIDE, height: SIDE, tabindex: 0, role: "application", "aria-label": "Canvas to draw on. With the keyboard: arrows move the pen, space puts it down or lifts it." });
    /** @type {[number, number]} */
    this._pen = [0.5, 0.3];
    this._down = false;
    this.canvas.addEventListener("pointerdown", (event) => this._start(event));
    this.canvas.addEventListener("pointermove", (event) => this._move(event));
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => (this._pointer = null));
    this.canvas.addEventListener("keydown", (event) => this._key(event));
    for (const change of ["focus", "blur"]) this.canvas.addEventListener(change, () => this._lift());
    this._paint();
  }

  /** Remove the last stroke. */
  undo() {
    this._down = false;
    this.strokes.pop();
    this._changed();
  }

  /** Remove all strokes. */
  clear() {
    this._down = false;
    this.strokes = [];
    this._changed();
  }

  /** @param {PointerEvent} event */
  _start(event) {
    if (this._pointer !== null || event.button !== 0) return;
    event.preventDefault();
    this._lift();
    this._pointer = event.pointerId;
    this.canvas.setPointerCapture(event.pointerId);
    this.strokes.push([this._place(event)]);
    this._changed();
  }

  /** @param {PointerEvent} event */
  _move(event) {
    if (event.pointerId !== this._pointer) return;
    for (const each of event.getCoalescedEvents?.() ?? [event]) this.strokes[this.strokes.length - 1].push(this._place(each));
    this._changed();
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || this._pointer !== null) return;
    const direction = DIRECTIONS[event.key];
    if (!direction && event.key !== " ") return;
    event.preventDefault();
    if (direction) this._pen = /** @type {[number, number]} */ (this._pen.map((at, i) => Math.min(1, Math.max(0, at + STEP * direction[i]))));
    else if (!event.repeat) {
      this._down = !this._down;
      if (this._down) this.strokes.push([]);
    }
    if (!this._down) return this._paint();
    this.strokes[this.strokes.length - 1].push(this._pen);
    this._changed();
  }

  /** Lift the keyboard's pen. */
  _lift() {
    this._down = false;
    this._paint();
  }

  /** @param {PointerEvent} event @returns {[number, number]} */
  _place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  _changed() {
    this._paint();
    this._change(this.strokes);
  }

  _paint() {
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.fillStyle = "#10161c";
    context.fillRect(0, 0, SIDE, SIDE);
    if (!this.strokes.length) {
      context.fillStyle = "#97a5b2";
      context.font = `${SIDE / 16}px system-ui, sans-serif`;
      context.textAlign = "center";
      context.fillText("Draw here", SIDE / 2, SIDE / 2);
      if (this.canvas.matches(":focus-visible")) context.fillText("arrows move, space draws", SIDE / 2, SIDE * 0.58);
    }
    drawStrokes(context, this.strokes, SIDE, 0, 0, this.width * SIDE);
    if (this.canvas.matches(":focus-visible")) this._paintPen(context);
  }

  /** @param {CanvasRenderingContext2D} context */
  _paintPen(context) {
    context.strokeStyle = context.fillStyle = "#f67d15";
    context.lineWidth = SIDE / 100;
    context.beginPath();
    context.arc(this._pen[0] * SIDE, this._pen[1] * SIDE, (this.width * SIDE) / 2, 0, 2 * Math.PI);
    if (this._down) context.fill();
    else context.stroke();
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Stroke[]} strokes
 * @param {number} scale pixels per canvas side
 * @param {number} left @param {number} top pixels
 * @param {number} width pixels
 */
export function drawStrokes(context, strokes, scale, left, top, width) {
  context.strokeStyle = context.fillStyle = "#fff";
  context.lineWidth = width;
  context.lineCap = context.lineJoin = "round";
  for (const stroke of strokes) {
    context.beginPath();
    context.moveTo(left + stroke[0][0] * scale, top + stroke[0][1] * scale);
    for (const [x, y] of stroke.length > 1 ? stroke : [stroke[0], stroke[0]]) context.lineTo(left + x * scale, top + y * scale);
    context.stroke();
  }
}
