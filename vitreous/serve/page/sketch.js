/** A slate to draw on, by mouse, pen or finger. */

import { element } from "./element.js";

/** @typedef {[number, number][]} Stroke in units of the slate's side */

const SIDE = 560; // pixels of the canvas, whatever its size on the page

export class Sketch {
  /**
   * @param {number} width of a stroke, in units of the side
   * @param {(strokes: Stroke[]) => void} change called as they draw
   */
  constructor(width, change) {
    this.width = width;
    this._change = change;
    /** @type {Stroke[]} */
    this.strokes = [];
    /** @type {number | null} */
    this._pointer = null;
    this.canvas = element("canvas", { class: "slate", width: SIDE, height: SIDE, role: "img", "aria-label": "Slate to draw on with mouse, pen or finger; with the keyboard, choose an example instead" });
    this.canvas.addEventListener("pointerdown", (event) => this._start(event));
    this.canvas.addEventListener("pointermove", (event) => this._move(event));
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => (this._pointer = null));
    this._paint();
  }

  /** Forget the last stroke. */
  undo() {
    this.strokes.pop();
    this._changed();
  }

  /** Forget all of them. */
  clear() {
    this.strokes = [];
    this._changed();
  }

  /** @param {PointerEvent} event */
  _start(event) {
    if (this._pointer !== null || event.button !== 0) return;
    event.preventDefault();
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
    }
    draw(context, this.strokes, SIDE, 0, 0, this.width * SIDE);
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Stroke[]} strokes
 * @param {number} scale pixels a side
 * @param {number} left @param {number} top pixels
 * @param {number} width pixels
 */
export function draw(context, strokes, scale, left, top, width) {
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
