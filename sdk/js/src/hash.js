import { Terminal } from "./errors.js";

/** 2^32. */
const WORD = 0x1_0000_0000;

/**
 * FNV-1a with 64 bits over the canonical text, as 16 hexadecimal digits: the same in every language. Not cryptographic.
 * Members that are `null` or `undefined` are left out.
 * @param {unknown} value Plain JSON.
 * @returns {string}
 * @throws {Terminal} If it has a number that is no integer, or one beyond 2^53 - 1.
 */
export function hash(value) {
  // 64 bits in two halves, because 64-bit integers cost much more here. The prime is 2^40 + 0x1b3.
  let high = 0xcbf29ce4;
  let low = 0x84222325;
  for (const byte of utf8(canonical(value))) {
    low = (low ^ byte) >>> 0;
    const product = low * 0x1b3;
    high = (high * 0x1b3 + Math.floor(product / WORD) + low * 256) % WORD;
    low = product % WORD;
  }
  const hex = (/** @type {number} */ word) => word.toString(16).padStart(8, "0");
  return hex(high) + hex(low);
}

/**
 * The canonical text: members sorted by the UTF-8 bytes of their names, no white space, no more escapes than JSON requires.
 * @param {unknown} value Plain JSON.
 * @returns {string}
 * @throws {Terminal} As for {@link hash}.
 */
export function canonical(value) {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join(",")}]`;
  }
  if (value !== null && typeof value === "object") {
    const members = Object.entries(value)
      .filter(([, member]) => member != null)
      .sort(([a], [b]) => compareUtf8(a, b))
      .map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`);
    return `{${members.join(",")}}`;
  }
  if (typeof value === "number" || typeof value === "bigint") {
    if (!Number.isSafeInteger(Number(value))) {
      throw new Terminal("hash: a number is not an integer between -(2^53 - 1) and 2^53 - 1");
    }
    return String(value);
  }
  return value == null ? "null" : JSON.stringify(value);
}

/**
 * The order of UTF-8 bytes is that of code points; that of JavaScript's own strings is not.
 * @param {string} a
 * @param {string} b
 */
function compareUtf8(a, b) {
  const left = [...a];
  const right = [...b];
  for (let i = 0; i < left.length && i < right.length; i += 1) {
    const difference = (left[i]?.codePointAt(0) ?? 0) - (right[i]?.codePointAt(0) ?? 0);
    if (difference !== 0) {
      return difference;
    }
  }
  return left.length - right.length;
}

/**
 * TextEncoder is not there in components.
 * @param {string} text
 */
function* utf8(text) {
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x80) {
      yield code;
    } else if (code < 0x800) {
      yield 0xc0 | (code >> 6);
      yield 0x80 | (code & 0x3f);
    } else if (code < 0x10000) {
      yield 0xe0 | (code >> 12);
      yield 0x80 | ((code >> 6) & 0x3f);
      yield 0x80 | (code & 0x3f);
    } else {
      yield 0xf0 | (code >> 18);
      yield 0x80 | ((code >> 12) & 0x3f);
      yield 0x80 | ((code >> 6) & 0x3f);
      yield 0x80 | (code & 0x3f);
    }
  }
}
