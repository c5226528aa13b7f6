// JSON that keeps integers beyond 2^53 - 1: they are read as `bigint`, and written as the digits that they are.

/** A text without such a run has no integer that a number does not hold. */
const LONG = /\d{16}/;
/** A text or a number of JSON. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** An integer as JSON writes it. */
const INTEGER = /^-?\d+$/;

/**
 * @param {string} text JSON.
 * @returns {any}
 */
export function parse(text) {
  if (!LONG.test(text)) {
    return JSON.parse(text);
  }
  for (let n = 0; ; n += 1) {
    const mark = markOf(n);
    let [marked, found] = [0, 0];
    const quoted = text.replace(TOKEN, (token) => {
      if (!INTEGER.test(token) || Number.isSafeInteger(Number(token))) {
        return token;
      }
      marked += 1;
      return `"${mark}${token}"`;
    });
    const value = JSON.parse(quoted, (_, member) => {
      if (typeof member !== "string" || !member.startsWith(mark)) {
        return member;
      }
      found += 1;
      const digits = member.slice(mark.length);
      return INTEGER.test(digits) ? BigInt(digits) : member;
    });
    // Otherwise a text of its own begins like this, however it is escaped.
    if (marked === found) {
      return value;
    }
  }
}

/**
 * @param {unknown} value
 * @returns {string | undefined} As `JSON.stringify`.
 */
export function stringify(value) {
  let mark = "";
  let count = 0;
  const write = () => {
    count = 0;
    return JSON.stringify(value);
  };
  const big = /** @type {{toJSON?: () => unknown}} */ (BigInt.prototype);
  const before = Object.getOwnPropertyDescriptor(big, "toJSON");
  // The only way to write them that costs nothing where there is none.
  Object.defineProperty(big, "toJSON", {
    configurable: true,
    value() {
      count += 1;
      return `${mark}${this}`;
    },
  });
  try {
    const plain = write();
    if (count === 0) {
      return plain;
    }
    for (let n = 0; mark === "" || plain.includes(mark); n += 1) {
      mark = markOf(n);
    }
    return write().replaceAll(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1");
  } finally {
    if (before === undefined) {
      delete big.toJSON;
    } else {
      Object.defineProperty(big, "toJSON", before);
    }
  }
}

/**
 * @param {number} n
 * @returns {string} What no text of an object is likely to begin with.
 */
function markOf(n) {
  return `pintle-integer-${n}:`;
}
