/** @import { Need } from "./need.js" */

/** Something that may pass: the key is tried again after the queue's backoff, or after `afterMs`. */
export class Retry extends Error {
  /**
   * @param {string} message For the log.
   * @param {number} [afterMs] Milliseconds; replaces the queue's own backoff.
   */
  constructor(message, afterMs) {
    super(message);
    this.name = "Retry";
    this.afterMs = afterMs;
  }
}

/** A retry is useless until the cluster changes. */
export class Terminal extends Error {
  /** @param {string} message For the log. */
  constructor(message) {
    super(message);
    this.name = "Terminal";
  }
}

/**
 * The run needs reads from the API server itself. {@link Lister.live} and {@link Lister.ask} throw it; let it pass.
 * The host then reads and runs the key again, so this is not a failure.
 */
export class Needs extends Error {
  /** @param {readonly Need[]} needs */
  constructor(needs) {
    super(`${needs.length} reads from the API server are needed`);
    this.name = "Needs";
    this.needs = needs;
  }
}
