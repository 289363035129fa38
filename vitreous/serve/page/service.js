/** Questions to the service: one line where it refuses, a token where it wants one. */

const KEY = "vitreous-token";
const SENDABLE = /^[\x20-\x7e]+$/; // what a header can carry

/** What the service, or the way to it, says in one line. */
export class ServiceFault extends Error {
  /** @param {string} reason @param {number} status 0 where there was no answer */
  constructor(reason, status) {
    super(reason);
    this.status = status;
  }
}

export class Service {
  /** @param {(reason: string) => Promise<string | null>} askToken asks the person; null where they do not know */
  constructor(askToken) {
    this._askToken = askToken;
    this._token = kept();
    /** @type {Promise<string | null> | null} */
    this._asking = null;
  }

  /** @param {string} path @returns {Promise<any>} */
  get(path) {
    return this._ask(path, {});
  }

  /**
   * @param {string} path
   * @param {FormData | object} question sent as a form, or as JSON
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  post(path, question, signal) {
    const form = question instanceof FormData;
    return this._ask(path, {
      method: "POST",
      body: form ? question : JSON.stringify(question),
      headers: form ? {} : { "Content-Type": "application/json" },
      signal,
    });
  }

  /**
   * @param {string} path
   * @param {RequestInit} request
   * @returns {Promise<any>}
   */
  async _ask(path, request) {
    const used = this._token;
    const headers = { ...request.headers, ...(used ? { Authorization: `Bearer ${used}` } : {}) };
    let reply;
    try {
      reply = await fetch(path, { ...request, headers });
    } catch (fault) {
      if (request.signal?.aborted) throw fault;
      throw new ServiceFault("The service does not answer. Is it still running?", 0);
    }
    if (reply.status === 401) {
      if (used === this._token) await this._newToken(used);
      return this._ask(path, request);
    }
    const told = await reply.json().catch(() => ({}));
    if (!reply.ok) throw new ServiceFault(told.error ?? `The service answered ${reply.status}.`, reply.status);
    if (used) keep(used);
    return told;
  }

  /** @param {string} wrong the token that was refused, or empty */
  async _newToken(wrong) {
    this._asking ??= this._askToken(wrong ? "That token is wrong." : "").finally(() => (this._asking = null));
    const given = await this._asking;
    if (given === null) throw new ServiceFault("The service asks for a token. Load the page again to give one.", 401);
    this._token = given;
  }
}

/** @returns {string} the token that was right before the page was loaded again, or empty */
function kept() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // Storage is refused: the token is asked for again.
  }
}

/** @param {string} token that the service has taken */
function keep(token) {
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // It lasts as long as the page, then.
  }
}

/**
 * A dialog that asks for the token.
 *
 * @param {HTMLDialogElement} dialog
 * @returns {(reason: string) => Promise<string | null>}
 */
export function tokenDialog(dialog) {
  const form = /** @type {HTMLFormElement} */ (dialog.querySelector("form"));
  const input = /** @type {HTMLInputElement} */ (dialog.querySelector("input"));
  const fault = /** @type {HTMLElement} */ (dialog.querySelector(".fault"));
  const leave = /** @type {HTMLButtonElement} */ (dialog.querySelector("#token-leave"));
  return (reason) => new Promise((resolve) => {
    fault.textContent = reason;
    input.value = "";
    const done = (/** @type {string | null} */ given) => {
      form.onsubmit = leave.onclick = dialog.onclose = null;
      dialog.close();
      resolve(given);
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      const given = input.value.trim();
      if (SENDABLE.test(given)) done(given);
      else fault.textContent = "A token has only letters, digits and signs of ASCII: look for a dash or a quotation mark of another kind.";
    };
    leave.onclick = dialog.onclose = () => done(null);
    dialog.showModal();
  });
}
