/** What goes on in a panel: waiting with a clock and a way out, a fault in one line, or a word about the result. */

import { element } from "./element.js";
import { seconds } from "./numbers.js";
import { ServiceFault } from "./service.js";

const SOON = 250; // milliseconds within which an answer needs no clock

export class Notice {
  constructor() {
    this._clock = element("span", { class: "clock", "aria-hidden": "true" });
    this._label = element("span");
    this._cancel = element("button", { type: "button" }, "Cancel");
    this._busy = element("div", { class: "busy", hidden: true },
      element("span", { class: "pulse", "aria-hidden": "true" }), this._label, this._clock, this._cancel);
    this._fault = element("p", { class: "fault", role: "alert" });
    this._said = element("p", { class: "unseen", role: "status", "aria-live": "polite" });
    this.element = element("div", { class: "notice" }, this._busy, this._fault, this._said);
    /** @type {AbortController | null} */
    this._work = null;
    this._timer = 0;
  }

  /**
   * Do something that takes a while. What was going on before is dropped.
   *
   * @template Found
   * @param {string} label
   * @param {(signal: AbortSignal) => Promise<Found>} work
   * @returns {Promise<Found | null>} null where it failed, which is told, or was dropped
   */
  async during(label, work) {
    this.stop();
    const mine = (this._work = new AbortController());
    const started = performance.now();
    const tick = () => (this._clock.textContent = seconds((performance.now() - started) / 1000));
    const show = () => {
      this._busy.hidden = false;
      this._label.textContent = label;
      this.say(label); // once: what is rewritten is read out again
      tick();
    };
    this._fault.textContent = "";
    const soon = setTimeout(show, SOON);
    this._timer = setInterval(() => !this._busy.hidden && tick(), 100);
    const timer = this._timer;
    this._cancel.onclick = () => {
      mine.abort();
      this.say("Cancelled.");
    };
    try {
      const found = await work(mine.signal);
      return mine.signal.aborted ? null : found;
    } catch (fault) {
      if (mine.signal.aborted) return null;
      if (!(fault instanceof ServiceFault)) throw fault;
      this.fail(fault.message);
      return null;
    } finally {
      clearTimeout(soon);
      clearInterval(timer);
      if (this._work === mine || this._work === null) this._busy.hidden = true;
    }
  }

  /** Drop what is going on. */
  stop() {
    this._work?.abort();
    this._work = null;
    clearInterval(this._timer);
    this._busy.hidden = true;
  }

  /** @param {string} text for those who hear the page; others see the result */
  say(text) {
    this._said.textContent = text;
  }

  /** @returns {string} what went wrong, if anything did */
  get reason() {
    return this._fault.textContent ?? "";
  }

  /** @param {string} reason */
  fail(reason) {
    this._fault.textContent = reason;
  }
}
