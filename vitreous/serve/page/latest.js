/** Of many questions the last one counts: one is under way at a time, the newest waits, answers to older ones are dropped. */

/** @template Question */
export class Latest {
  /**
   * @param {(question: Question, signal: AbortSignal) => Promise<void>} ask
   * @param {number} pause milliseconds between two questions
   */
  constructor(ask, pause) {
    this._ask = ask;
    this._pause = pause;
    /** @type {{question: Question} | null} */
    this._next = null;
    this._busy = false;
    this._work = new AbortController();
  }

  /** @param {Question} question */
  put(question) {
    this._next = { question };
    if (!this._busy) void this._run();
  }

  /** Drop what waits and what is under way. */
  drop() {
    this._next = null;
    this._work.abort();
  }

  async _run() {
    this._busy = true;
    while (this._next) {
      const { question } = this._next;
      this._next = null;
      this._work = new AbortController();
      const started = performance.now();
      await this._ask(question, this._work.signal).catch((fault) => {
        if (!this._work.signal.aborted) throw fault;
      }).catch(reportError);
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, this._pause - (performance.now() - started))));
    }
    this._busy = false;
  }
}
