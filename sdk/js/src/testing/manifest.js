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
 * @property {Record<string, {default?: unknown}>} [config]
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
