/**
 * FNV-1a with 64 bits over the canonical text, as 16 hexadecimal digits: the same in every language. Not cryptographic.
 * Members that are `null` or `undefined` are left out.
 * @param {unknown} value Plain JSON.
 * @returns {string}
 * @throws {Terminal} If it has a number that is no integer, or one beyond 2^53 - 1.
 */
export declare function hash(value: unknown): string;
/**
 * The canonical text: members sorted by the UTF-8 bytes of their names, no white space, no more escapes than JSON requires.
 * @param {unknown} value Plain JSON.
 * @returns {string}
 * @throws {Terminal} As for {@link hash}.
 */
export declare function canonical(value: unknown): string;
