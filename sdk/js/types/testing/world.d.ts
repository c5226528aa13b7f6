import { Kind } from "../kind.js";
import type { RawFailure, RawQuery, View } from "../lister.js";
import type { AnyObject, ApiError } from "../model.js";
import type { WireNeed } from "../wire.js";
import type { Answer, Answers } from "./answers.js";
import type { Manifest } from "./manifest.js";
/** Where the host would end the run with a fault. A controller that catches it fails its case all the same. */
export declare class Fault extends Error {
    /** @param {string} message */
    constructor(message: string);
}
export type Stored = {
    kind: string;
    namespace: string;
    name: string;
    value: AnyObject;
};
export type WorldState = {
    now: string;
    uptime: number;
    objects: Stored[];
    live: Stored[];
    config: Record<string, unknown>;
    state: Record<string, string>;
    attempt: number;
    failures: RawFailure[];
    resources: any[];
    raw: Record<string, unknown>;
    answers: Answers;
    discovery: {
        resources?: any[];
        failed?: string[];
        error?: ApiError;
    };
};
/**
 * @typedef {object} Stored
 * @property {string} kind
 * @property {string} namespace
 * @property {string} name
 * @property {AnyObject} value
 */
/**
 * @typedef {object} WorldState
 * @property {string} now
 * @property {number} uptime
 * @property {Stored[]} objects
 * @property {Stored[]} live
 * @property {Record<string, unknown>} config
 * @property {Record<string, string>} state
 * @property {number} attempt
 * @property {RawFailure[]} failures
 * @property {any[]} resources
 * @property {Record<string, unknown>} raw
 * @property {Answers} answers
 * @property {{resources?: any[], failed?: string[], error?: ApiError}} discovery
 */
/**
 * Objects with what queries need of them, ordered by kind, namespace and name.
 * @param {AnyObject[]} values
 * @returns {Stored[]}
 */
export declare function store(values: AnyObject[]): Stored[];
/** @implements {View} */
export declare class World implements View {
    #private;
    /** The first fault of the run, also if the controller caught it. @type {Fault | undefined} */
    fault: Fault | undefined;
    /** Needs that were asked so far. @type {WireNeed[]} */
    asked: WireNeed[];
    /**
     * @param {Manifest} manifest
     * @param {WorldState} state
     */
    constructor(manifest: Manifest, state: WorldState);
    now(): string;
    uptime(): number;
    /**
     * @param {Kind} kind
     * @param {{namespace: string, name: string}} object
     */
    get(kind: Kind, { namespace, name }: {
        namespace: string;
        name: string;
    }): string | null;
    /**
     * @param {Kind} kind
     * @param {RawQuery} query
     */
    list(kind: Kind, query: RawQuery): string[];
    /**
     * @param {Kind} kind
     * @param {RawQuery} query
     */
    count(kind: Kind, query: RawQuery): number;
    /**
     * @param {Kind} kind
     * @param {string} namespace
     * @param {[string, string][]} labels
     */
    selecting(kind: Kind, namespace: string, labels: [string, string][]): string[];
    /** @param {string} uid */
    dependents(uid: string): string[];
    /** @param {string} uid */
    byUid(uid: string): string | null;
    resources(): any[];
    /**
     * @param {string} group
     * @param {string} name
     */
    resourcesOf(group: string, name: string): any[];
    config(): string;
    /** @param {string} name */
    state(name: string): string | null;
    attempt(): number;
    failures(): RawFailure[];
    /** @param {WireNeed} need */
    hasAsked(need: WireNeed): boolean;
    /**
     * @param {WireNeed} need
     * @returns {Answer | null}
     */
    answer(need: WireNeed): Answer | null;
    /**
     * The cached object that an update would replace.
     * @param {string} kind
     * @param {string} namespace
     * @param {string} name
     */
    original(kind: string, namespace: string, name: string): AnyObject | undefined;
}
