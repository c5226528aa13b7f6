export type Requirement = {
    key: string;
    operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
    values: string[];
};
/**
 * @typedef {object} Requirement
 * @property {string} key
 * @property {"In" | "NotIn" | "Exists" | "DoesNotExist"} operator
 * @property {string[]} values
 */
/**
 * Parses kubectl's syntax: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
 * @param {string} text
 * @returns {Requirement[]}
 * @throws {Error} If it does not parse.
 */
export declare function parseSelector(text: string): Requirement[];
/**
 * The selector of an object's spec (`matchLabels`, `matchExpressions`); `undefined` if an expression makes no sense.
 * @param {any} selector
 * @returns {Requirement[] | undefined}
 */
export declare function fromLabelSelector({ matchLabels, matchExpressions }: any): Requirement[] | undefined;
/**
 * @param {Record<string, string>} labels
 * @returns {Requirement[]}
 */
export declare function fromMap(labels: Record<string, string>): Requirement[];
/**
 * @param {readonly Requirement[]} requirements
 * @param {Record<string, string>} labels
 * @returns {boolean}
 */
export declare function selects(requirements: readonly Requirement[], labels: Record<string, string>): boolean;
