// Evaluated before the controller's own modules: `structuredClone`, which QuickJS lacks, for objects, arrays and dates.

/**
 * A deep copy. An object that occurs twice, or within itself, does so in the copy as well.
 * @template T
 * @param {T} value
 * @param {Map<object, unknown>} [copies] Objects that are already copied.
 * @returns {T}
 * @throws {TypeError} A `DataCloneError`: the value contains a function, a symbol, or an object that is not one of these.
 */
export function clone(value, copies = new Map()) {
  /** @type {any} */
  const original = value;
  if (original === null || !["object", "function", "symbol"].includes(typeof original)) {
    return original;
  }
  if (copies.has(original)) {
    return /** @type {T} */ (copies.get(original));
  }
  const type = Object.prototype.toString.call(original).slice("[object ".length, -1);
  if (type === "Date") {
    const date = new Date(original.getTime());
    copies.set(original, date);
    return /** @type {any} */ (date);
  }
  if (type !== "Object" && type !== "Array") {
    const error = new TypeError(`structuredClone cannot copy a value of type ${type}: it copies plain objects, arrays, dates, texts, numbers and booleans`);
    error.name = "DataCloneError";
    throw error;
  }
  const copy = type === "Array" ? new Array(original.length) : {};
  copies.set(original, copy);
  for (const [name, member] of Object.entries(original)) {
    // An assignment to `__proto__` would not make a member.
    Object.defineProperty(copy, name, { value: clone(member, copies), configurable: true, enumerable: true, writable: true });
  }
  return /** @type {any} */ (copy);
}

/** @type {any} */ (globalThis).structuredClone ??= (/** @type {unknown} */ value) => clone(value);
