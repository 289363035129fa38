/** Sends one request at a time; only the newest waiting one is kept, and cancelled ones get no answer. */

/** @template Input */
export class LatestRequest {
  /**
   * @param {(input: Input, signal: AbortSignal) => Promise<void>} send
   * @param {number} pause milliseconds between two requests
   */
  constructor(send, pause) {
    this._send = send;
    this._pause = pause;
    /** @type {{input: Input} | null} */
    this._next = null;
    this._busy = false;
    this._work = new AbortController();
  }

  /** @param {Input} input */
  put(input) {
    this._next = { input };
    if (!this._busy) void this._run();
  }

  /** Cancel the current and the waiting request. */
  cancel() {
    this._next = null;
    this._work.abort();
  }

  async _run() {
    this._busy = true;
    while (this._next) {
      const { input } = this._next;
      this._next = null;
      this._work = new AbortController();
      const startTime = performance.now();
      await this._send(input, this._work.signal).catch((error) => {
        if (!this._work.signal.aborted) throw error;
      }).catch(reportError);
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, this._pause - (performance.now() - startTime))));
    }
    this._busy = false;
  }
}
