import { Kind } from "./kind.js";
import { Need } from "./need.js";
import type { KindLike } from "./kind.js";
import type { AnyObject, ApiError, ApiResource, MutationFailure, Query } from "./model.js";
import type { WireNeed } from "./wire.js";
export type View = {
    now: () => string;
    uptime: () => number;
    get: (kind: Kind, object: {
        namespace: string;
        name: string;
    }) => string | null | undefined;
    list: (kind: Kind, query: RawQuery) => string[];
    count: (kind: Kind, query: RawQuery) => number;
    selecting: (kind: Kind, namespace: string, labels: [string, string][]) => string[];
    dependents: (uid: string) => string[];
    byUid: (uid: string) => string | null | undefined;
    resources: () => RawResource[];
    resourcesOf: (group: string, name: string) => RawResource[];
    config: () => string;
    state: (name: string) => string | null | undefined;
    attempt: () => number;
    failures: () => RawFailure[];
    answer: (need: WireNeed) => {
        tag: "ok";
        val: string;
    } | {
        tag: "err";
        val: ApiError;
    } | null | undefined;
};
export type RawQuery = {
    namespace: string | null;
    labelSelector: string | null;
    owner: {
        tag: "controller" | "controller-or-orphan" | "any";
        val: string;
    } | null;
    index: {
        index: string;
        value: string;
    } | null;
    whole: boolean;
};
export type RawResource = Omit<ApiResource, "kind"> & {
    kind: {
        group: string;
        version: string;
        name: string;
    };
};
export type RawFailure = Omit<MutationFailure, "kind" | "subresource"> & {
    kind: {
        group: string;
        version: string;
        name: string;
    };
    subresource?: string | null;
};
export type Answer = {
    ok: true;
    text: string;
} | {
    ok: false;
    error: ApiError;
};
/** @import { KindLike } from "./kind.js" */
/** @import { AnyObject, ApiError, ApiResource, MutationFailure, Query } from "./model.js" */
/** @import { WireNeed } from "./wire.js" */
/**
 * The contract's lister, as components get it: JSON text, `null` for what is not there.
 * @internal
 * @typedef {object} View
 * @property {() => string} now
 * @property {() => number} uptime
 * @property {(kind: Kind, object: {namespace: string, name: string}) => string | null | undefined} get
 * @property {(kind: Kind, query: RawQuery) => string[]} list
 * @property {(kind: Kind, query: RawQuery) => number} count
 * @property {(kind: Kind, namespace: string, labels: [string, string][]) => string[]} selecting
 * @property {(uid: string) => string[]} dependents
 * @property {(uid: string) => string | null | undefined} byUid
 * @property {() => RawResource[]} resources
 * @property {(group: string, name: string) => RawResource[]} resourcesOf
 * @property {() => string} config
 * @property {(name: string) => string | null | undefined} state
 * @property {() => number} attempt
 * @property {() => RawFailure[]} failures
 * @property {(need: WireNeed) => {tag: "ok", val: string} | {tag: "err", val: ApiError} | null | undefined} answer
 */
/**
 * @internal
 * @typedef {object} RawQuery
 * @property {string | null} namespace
 * @property {string | null} labelSelector
 * @property {{tag: "controller" | "controller-or-orphan" | "any", val: string} | null} owner
 * @property {{index: string, value: string} | null} index
 * @property {boolean} whole
 */
/**
 * @internal
 * @typedef {Omit<ApiResource, "kind"> & {kind: {group: string, version: string, name: string}}} RawResource
 */
/**
 * @internal
 * @typedef {Omit<MutationFailure, "kind" | "subresource">
 *   & {kind: {group: string, version: string, name: string}, subresource?: string | null}} RawFailure
 */
/**
 * The answer to a need: the text that the API server gave, or its refusal.
 * @typedef {{ok: true, text: string} | {ok: false, error: ApiError}} Answer
 */
/**
 * A snapshot of the cluster, for one run: repeated reads give the same answer.
 *
 * All reads together are one state of the host's caches, never older than this key's own last writes.
 * Only kinds that the manifest watches can be read; another is a fault that ends the run.
 * It is valid until `reconcile` returns. What it returns is yours: change it as you like.
 */
export declare class Lister {
    #private;
    /**
     * @internal
     * @param {View} view
     */
    constructor(view: View);
    /**
     * Time at which this run began: RFC 3339 with microseconds, UTC. `new Date(lister.now())` reads it.
     * @returns {string}
     */
    now(): string;
    /**
     * Seconds since the host started, when this run began, by a monotonic clock: `now` may jump, this does not. Only differences of
     * two values of the same host have a meaning: keep one in the state, which is lost together with this clock.
     * @returns {number}
     */
    uptime(): number;
    /**
     * The object, whole if its watch declares `whole`, else its projection; `undefined` if it is not in the cache.
     * @template {object} [T=AnyObject]
     * @param {KindLike} kind
     * @param {string} namespace Empty for cluster-scoped kinds.
     * @param {string} name
     * @returns {T | undefined}
     */
    get<T extends object = AnyObject>(kind: KindLike, namespace: string, name: string): T | undefined;
    /**
     * The objects that match, ordered by namespace and name: their projections, unless the query says `whole`.
     * @template {object} [T=AnyObject]
     * @param {KindLike} kind
     * @param {Query} [query] Every object of the kind if absent.
     * @returns {T[]}
     */
    list<T extends object = AnyObject>(kind: KindLike, query?: Query): T[];
    /**
     * How many objects match. Costs less than a list.
     * @param {KindLike} kind
     * @param {Query} [query]
     * @returns {number}
     */
    count(kind: KindLike, query?: Query): number;
    /**
     * Objects in the namespace whose own selector (declared as `selects` in their watch) matches these labels.
     * @template {object} [T=AnyObject]
     * @param {KindLike} kind
     * @param {string} namespace
     * @param {Record<string, string>} labels
     * @returns {T[]}
     */
    selecting<T extends object = AnyObject>(kind: KindLike, namespace: string, labels: Record<string, string>): T[];
    /**
     * Objects of any watched kind that name this uid among their owners, ordered by kind, namespace and name.
     * @template {object} [T=AnyObject]
     * @param {string} uid
     * @returns {T[]}
     */
    dependents<T extends object = AnyObject>(uid: string): T[];
    /**
     * The object of any watched kind with this uid.
     * @template {object} [T=AnyObject]
     * @param {string} uid
     * @returns {T | undefined}
     */
    byUid<T extends object = AnyObject>(uid: string): T | undefined;
    /**
     * What the API server offers, as of the last discovery, seconds ago. Only with `discovery: true` in the manifest.
     * @returns {ApiResource[]}
     */
    resources(): ApiResource[];
    /**
     * Those of {@link Lister.resources} whose kind has this group and name, of all versions, at a small part of the cost. Only with
     * `discovery: true` in the manifest.
     * @param {string} group Empty for the core group.
     * @param {string} kind Name of the kind, for example `Deployment`.
     * @returns {ApiResource[]}
     */
    resourcesOf(group: string, kind: string): ApiResource[];
    /**
     * The controller's configuration: it fits the manifest's schema, defaults filled in.
     * @template {object} [T=Record<string, any>]
     * @returns {T}
     */
    config<T extends object = Record<string, any>>(): T;
    /**
     * What an earlier outcome kept under this name.
     * @param {string} name
     * @returns {string | undefined}
     */
    state(name: string): string | undefined;
    /**
     * How often this key has failed in a row: 0 on the first try.
     * @returns {number}
     */
    attempt(): number;
    /**
     * What failed of this key's previous outcome; empty after a success.
     * @returns {MutationFailure[]}
     */
    failures(): MutationFailure[];
    /**
     * The object as the API server itself has it now; `undefined` if it is gone there.
     * @template {object} [T=AnyObject]
     * @param {KindLike} kind
     * @param {string} namespace Empty for cluster-scoped kinds.
     * @param {string} name
     * @returns {T | undefined}
     * @throws {Needs} In the first round: let it pass; the host reads, and runs the key again.
     * @throws {Retry} If the server refused.
     */
    live<T extends object = AnyObject>(kind: KindLike, namespace: string, name: string): T | undefined;
    /**
     * A subresource of an object as the API server itself has it now, for example `scale`; `undefined` if the object is gone there.
     * @template {object} [T=AnyObject]
     * @param {KindLike} kind Kind of the object.
     * @param {string} namespace Empty for cluster-scoped kinds.
     * @param {string} name
     * @param {string} subresource The grant must list it in `subresources`.
     * @returns {T | undefined}
     * @throws {Needs} In the first round: let it pass; the host reads, and runs the key again.
     * @throws {Retry} If the server refused.
     */
    liveSubresource<T extends object = AnyObject>(kind: KindLike, namespace: string, name: string, subresource: string): T | undefined;
    /**
     * The API server's verdict: the `status` of a review, for example of a SubjectAccessReview.
     * @template {object} [T=Record<string, any>]
     * @param {KindLike} kind Of `authorization.k8s.io` or `authentication.k8s.io`; its name ends in `Review`.
     * @param {string} namespace Empty for cluster-scoped kinds.
     * @param {object} review With its `spec`.
     * @returns {T}
     * @throws {Needs} In the first round: let it pass; the host asks, and runs the key again.
     * @throws {Retry} If the server refused.
     */
    review<T extends object = Record<string, any>>(kind: KindLike, namespace: string, review: object): T;
    /**
     * The answer to any need.
     * @param {Need} need
     * @returns {Answer}
     * @throws {Needs} In the first round: let it pass.
     */
    ask(need: Need): Answer;
}
