/** Status line of a panel: progress with a clock and a Cancel button, an error message, or a spoken result. */

import { element } from "./dom.js";
import { formatSeconds } from "./format.js";
import { ApiError } from "./api.js";

const SHOW_DELAY = 250; // milliseconds before progress is shown

export class StatusLine {
  constructor() {
    this._clock = element("span", { class: "clock", "aria-hidden": "true" });
    this._label = element("span");
    this._cancel = element("button", { type: "button" }, "Cancel");
    this._busy = element("div", { class: "busy", hidden: true },
      element("span", { class: "pulse", "aria-hidden": "true" }), this._label, this._clock, this._cancel);
    this._error = element("p", { class: "fault", role: "alert" });
    this._spoken = element("p", { class: "unseen", role: "status", "aria-live": "polite" });
    this.element = element("div", { class: "notice" }, this._busy, this._error, this._spoken);
    /** @type {AbortController | null} */
    this._work = null;
    this._timer = 0;
  }

  /**
   * Show progress while work runs. Earlier work is cancelled.
   *
   * @template Result
   * @param {string} label
   * @param {(signal: AbortSignal) => Promise<Result>} work
   * @returns {Promise<Result | null>} null if the work failed or was cancelled
   */
  async during(label, work) {
    this.stop();
    const controller = (this._work = new AbortController());
    const started = performance.now();
    const tick = () => (this._clock.textContent = formatSeconds((performance.now() - started) / 1000));
    const show = () => {
      this._busy.hidden = false;
      this._label.textContent = label;
      this.say(label); // once: screen readers repeat rewritten text
      tick();
    };
    this._error.textContent = "";
    const delay = setTimeout(show, SHOW_DELAY);
    this._timer = setInterval(() => !this._busy.hidden && tick(), 100);
    const timer = this._timer;
    this._cancel.onclick = () => {
      controller.abort();
      this.say("Cancelled.");
    };
    try {
      const result = await work(controller.signal);
      return controller.signal.aborted ? null : result;
    } catch (error) {
      if (controller.signal.aborted) return null;
      if (!(error instanceof ApiError)) throw error;
      this.fail(error.message);
      return null;
    } finally {
      clearTimeout(delay);
      clearInterval(timer);
      if (this._work === controller || this._work === null) this._busy.hidden = true;
    }
  }

  /** Cancel the current work. */
  stop() {
    this._work?.abort();
    this._work = null;
    clearInterval(this._timer);
    this._busy.hidden = true;
  }

  /** @param {string} text for screen readers */
  say(text) {
    this._spoken.textContent = text;
  }

  /** @returns {string} the error message, or empty */
  get reason() {
    return this._error.textContent ?? "";
  }

  /** @param {string} reason */
  fail(reason) {
    this._error.textContent = reason;
  }
}
