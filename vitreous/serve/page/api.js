/** Requests to the service, with errors of one line and a token if the service needs one. */

const KEY = "vitreous-token";
const SENDABLE = /^[\x20-\x7e]+$/; // characters that an HTTP header can carry

/** An error of the service or the network, in one line. */
export class ApiError extends Error {
  /** @param {string} reason @param {number} status 0 if there was no response */
  constructor(reason, status) {
    super(reason);
    this.status = status;
  }
}

export class Api {
  /** @param {(reason: string) => Promise<string | null>} askToken asks the user; null if they give none */
  constructor(askToken) {
    this._askToken = askToken;
    this._token = storedToken();
    /** @type {Promise<string | null> | null} */
    this._asking = null;
  }

  /** @param {string} path @returns {Promise<any>} */
  get(path) {
    return this._send(path, {});
  }

  /**
   * @param {string} path
   * @param {FormData | object} body sent as a form, or as JSON
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  post(path, body, signal) {
    const form = body instanceof FormData;
    return this._send(path, {
      method: "POST",
      body: form ? body : JSON.stringify(body),
      headers: form ? {} : { "Content-Type": "application/json" },
      signal,
    });
  }

  /**
   * @param {string} path
   * @param {RequestInit} request
   * @returns {Promise<any>}
   */
  async _send(path, request) {
    const token = this._token;
    const headers = { ...request.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    let response;
    try {
      response = await fetch(path, { ...request, headers });
    } catch (error) {
      if (request.signal?.aborted) throw error;
      throw new ApiError("The service does not respond. Is it still running?", 0);
    }
    if (response.status === 401) {
      if (token === this._token) await this._newToken(token);
      return this._send(path, request);
    }
    const content = await response.json().catch(() => ({}));
    if (!response.ok) throw new ApiError(content.error ?? `The service answered with status ${response.status}.`, response.status);
    if (token) storeToken(token);
    return content;
  }

  /** @param {string} wrong the rejected token, or empty */
  async _newToken(wrong) {
    this._asking ??= this._askToken(wrong ? "That token is wrong." : "").finally(() => (this._asking = null));
    const token = await this._asking;
    if (token === null) throw new ApiError("The service needs a token. Reload the page to enter one.", 401);
    this._token = token;
  }
}

/** @returns {string} the token of this tab, or empty */
function storedToken() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // Storage is not available: ask again.
  }
}

/** @param {string} token a token that the service accepted */
function storeToken(token) {
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // Storage is not available: the token lasts until the page is reloaded.
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
  const error = /** @type {HTMLElement} */ (dialog.querySelector(".fault"));
  const leave = /** @type {HTMLButtonElement} */ (dialog.querySelector("#token-leave"));
  return (reason) => new Promise((resolve) => {
    error.textContent = reason;
    input.value = "";
    const done = (/** @type {string | null} */ token) => {
      form.onsubmit = leave.onclick = dialog.onclose = null;
      dialog.close();
      resolve(token);
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      const token = input.value.trim();
      if (SENDABLE.test(token)) done(token);
      else error.textContent = "A token has only ASCII characters: check for a typographic dash or quotation mark.";
    };
    leave.onclick = dialog.onclose = () => done(null);
    dialog.showModal();
  });
}
