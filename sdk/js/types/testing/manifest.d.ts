export type Watch = {
    kind?: string;
    every?: unknown;
    namespace?: string;
    labelSelector?: string;
    fields?: string[];
    whole?: boolean;
    indexes?: {
        name: string;
        field: string;
    }[];
    selects?: {
        field: string;
        form: string;
        empty?: "nothing" | "everything";
    };
};
export type Manifest = {
    watches?: Watch[];
    queues?: {
        name: string;
    }[];
    config?: Record<string, {
        type?: string;
        default?: unknown;
    }>;
    discovery?: boolean;
};
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
export declare function segments(path: string): string[];
/**
 * The values at a path; a list on the way stands for its elements, and so does one at the end.
 * @param {any} value
 * @param {readonly string[]} path
 * @returns {unknown[]}
 */
export declare function valuesAt(value: any, path: readonly string[]): unknown[];
/**
 * A copy with only what the paths name.
 * @param {any} value
 * @param {readonly (readonly string[])[]} paths
 * @returns {any}
 */
export declare function project(value: any, paths: readonly (readonly string[])[]): any;
/**
 * The configuration as the controller sees it: with defaults, and durations in whole milliseconds.
 * @param {Manifest} manifest
 * @param {Record<string, unknown>} given
 * @returns {Record<string, unknown>}
 */
export declare function configOf({ config: settings }: Manifest, given: Record<string, unknown>): Record<string, unknown>;
