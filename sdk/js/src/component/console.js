// Evaluated before the controller's own modules. Lines that are written while the component is built go nowhere: there is no host yet.

import { stringify } from "../json.js";
import { log, setSink } from "../log.js";

setSink(() => {});

/** @param {unknown[]} values */
function line(values) {
  return values.map((value) => (typeof value === "object" && !(value instanceof Error) ? stringify(value) : String(value))).join(" ");
}

/** @type {any} */ (globalThis).console = {
  debug: (/** @type {unknown[]} */ ...values) => log.debug(line(values)),
  log: (/** @type {unknown[]} */ ...values) => log.info(line(values)),
  info: (/** @type {unknown[]} */ ...values) => log.info(line(values)),
  warn: (/** @type {unknown[]} */ ...values) => log.warn(line(values)),
  error: (/** @type {unknown[]} */ ...values) => log.error(line(values)),
};
