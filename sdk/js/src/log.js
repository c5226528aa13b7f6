/**
 * Severity of a line.
 * @typedef {"debug" | "info" | "warn" | "error"} Level
 */

/** @type {(level: Level, message: string) => void} */
let sink = (level, message) => console.error(`${level}: ${message}`);

/**
 * Sends lines elsewhere: the glue of components sends them to the host.
 * @internal
 * @param {(level: Level, message: string) => void} to
 */
export function setSink(to) {
  sink = to;
}

/** Lines for the host's log, which tags them with controller and key. Their size and number are limited. Natively they go to standard error. */
export const log = Object.freeze({
  /** @param {string} message */
  debug(message) {
    sink("debug", String(message));
  },
  /** @param {string} message */
  info(message) {
    sink("info", String(message));
  },
  /** @param {string} message */
  warn(message) {
    sink("warn", String(message));
  },
  /** @param {string} message */
  error(message) {
    sink("error", String(message));
  },
});
