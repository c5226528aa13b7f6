/**
 * @param {string} text JSON.
 * @returns {any}
 */
export declare function parse(text: string): any;
/**
 * @param {unknown} value
 * @returns {string | undefined} As `JSON.stringify`.
 */
export declare function stringify(value: unknown): string | undefined;
