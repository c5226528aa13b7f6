import type { KindLike } from "./kind.js";
export type Column = {
    name: string;
    type: "boolean" | "date" | "integer" | "number" | "string";
    /**
     * Where the value is, for example `.status.members`.
     */
    jsonPath: string;
    description?: string;
    format?: string;
    /**
     * More than 0: only with `-o wide`.
     */
    priority?: number;
};
export type DefinitionOptions = {
    /**
     * JSON Schema of `spec`.
     */
    spec: object;
    /**
     * JSON Schema of `status`; with it, the status is a subresource.
     */
    status?: object;
    /**
     * Name in URLs; by default the kind in lower case with an `s`.
     */
    plural?: string;
    /**
     * By default the kind in lower case.
     */
    singular?: string;
    shortNames?: string[];
    /**
     * For example `all`, to be in `kubectl get all`.
     */
    categories?: string[];
    /**
     * By default `Namespaced`.
     */
    scope?: "Namespaced" | "Cluster";
    /**
     * What the kind is.
     */
    description?: string;
    /**
     * Columns of `kubectl get`.
     */
    columns?: Column[];
};
/** @import { KindLike } from "./kind.js" */
/**
 * @typedef {object} Column A column of `kubectl get`.
 * @property {string} name
 * @property {"boolean" | "date" | "integer" | "number" | "string"} type
 * @property {string} jsonPath Where the value is, for example `.status.members`.
 * @property {string} [description]
 * @property {string} [format]
 * @property {number} [priority] More than 0: only with `-o wide`.
 */
/**
 * @typedef {object} DefinitionOptions
 * @property {object} spec JSON Schema of `spec`.
 * @property {object} [status] JSON Schema of `status`; with it, the status is a subresource.
 * @property {string} [plural] Name in URLs; by default the kind in lower case with an `s`.
 * @property {string} [singular] By default the kind in lower case.
 * @property {string[]} [shortNames]
 * @property {string[]} [categories] For example `all`, to be in `kubectl get all`.
 * @property {"Namespaced" | "Cluster"} [scope] By default `Namespaced`.
 * @property {string} [description] What the kind is.
 * @property {Column[]} [columns] Columns of `kubectl get`.
 */
/**
 * The CustomResourceDefinition of a kind, with one version. `pintle crds` makes structural schemas of those that are given.
 * @param {KindLike} kind
 * @param {DefinitionOptions} options
 * @returns {object}
 */
export declare function definition(kind: KindLike, { spec, status, scope, shortNames, categories, columns, description, ...names }: DefinitionOptions): object;
/**
 * JSON Schema of a list of conditions, as `metav1.Condition` has it: one of each type.
 * @param {string} [description]
 * @returns {object}
 */
export declare function conditions(description?: string): object;
/**
 * Prints definitions for `pintle crds`.
 * @param {object[]} definitions
 */
export declare function print(...definitions: object[]): void;
