// What a fixture needs of a manifest. The format is the host's; unknown fields are its business.

/**
 * @typedef {object} Watch
 * @property {string} [kind]
 * @property {unknown} [every]
 * @property {string} [namespace]
 * @property {string} [labelSelector]
 * @property {string[]} [fields]
 * @property {boolean} [whole]
 * @property {{name: string, field: string}[]} [indexes]
 * @property {{field: string, form: string, empty?: "nothing" | "everything"}} [selects]
 */

/**
 * @typedef {object} Manifest
 * @property {Watch[]} [watches]
 * @property {{name: string}[]} [queues]
 * @property {Record<string, {type?: string, default?: unknown}>} [config]
 * @property {boolean} [discovery]
 */

/**
 * Segments of a field path such as `spec.nodeName` or `metadata.annotations['example.com/x']`.
 * @param {string} path
 * @returns {string[]}
 */
export function segments(path) {
  const found = [];
  let rest = path;
  while (rest !== "") {
    const [whole = "", quoted, plain] = /^(?:\['(.*?)'\]|([^.[]+))\.?/.exec(rest) ?? [];
    const name = quoted ?? plain;
    if (name === undefined) {
      throw new Error(`${JSON.stringify(path)} is not a field path: write spec.nodeName or metadata.labels['example.com/x']`);
    }
    found.push(name);
    rest = rest.slice(whole.length);
  }
  return found;
}

/**
 * The values at a path; a list on the way stands for its elements, and so does one at the end.
 * @param {any} value
 * @param {readonly string[]} path
 * @returns {unknown[]}
 */
export function valuesAt(value, path) {
  if (Array.isArray(value)) {
    return value.flatMap((item) => valuesAt(item, path));
  }
  const [first, ...rest] = path;
  if (first === undefined) {
    return [value];
  }
  return value !== null && typeof value === "object" && Object.hasOwn(value, first) ? valuesAt(value[first], rest) : [];
}

/**
 * A copy with only what the paths name.
 * @param {any} value
 * @param {readonly (readonly string[])[]} paths
 * @returns {any}
 */
export function project(value, paths) {
  if (Array.isArray(value)) {
    return value.map((item) => project(item, paths));
  }
  if (value === null || typeof value !== "object") {
    return value;
  }
  /** @type {Record<string, unknown>} */
  const kept = {};
  for (const [name, member] of Object.entries(value)) {
    const below = paths.filter(([first]) => first === name).map(([, ...rest]) => rest);
    if (below.length > 0) {
      kept[name] = below.some((path) => path.length === 0) ? member : project(member, below);
    }
  }
  return kept;
}

/** Milliseconds of the units of a duration. */
const UNITS = { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const PART = /(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)/g;

/**
 * The configuration as the controller sees it: with defaults, and durations in whole milliseconds.
 * @param {Manifest} manifest
 * @param {Record<string, unknown>} given
 * @returns {Record<string, unknown>}
 */
export function configOf({ config: settings = {} }, given) {
  const defaults = Object.entries(settings).filter(([, setting]) => setting?.default != null);
  const values = { ...Object.fromEntries(defaults.map(([name, setting]) => [name, setting.default])), ...given };
  const seen = Object.entries(values).map(([name, value]) => {
    const isText = settings[name]?.type === "duration" && typeof value === "string";
    return [name, isText ? milliseconds(name, value) : value];
  });
  return Object.fromEntries(seen);
}

/**
 * A duration in Go's syntax, rounded up.
 * @param {string} name
 * @param {string} text
 */
function milliseconds(name, text) {
  const parts = [...text.matchAll(PART)];
  if (text !== "0" && (text === "" || parts.map(([whole]) => whole).join("") !== text)) {
    throw new Error(`config: ${name}: ${JSON.stringify(text)} is not a duration`);
  }
  const total = parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[/** @type {keyof typeof UNITS} */ (unit)], 0);
  // To nanoseconds first: sums of fractions are not exact.
  return Math.ceil(Math.round(total * 1e6) / 1e6);
}
