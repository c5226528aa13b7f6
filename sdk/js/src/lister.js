import { Needs, Retry } from "./errors.js";
import { parse } from "./json.js";
import { Kind } from "./kind.js";
import { Need } from "./need.js";
import { wireNeed } from "./wire.js";

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
export class Lister {
  /** @type {View} */
  #view;

  /**
   * @internal
   * @param {View} view
   */
  constructor(view) {
    this.#view = view;
  }

  /**
   * Time at which this run began: RFC 3339 with microseconds, UTC. `new Date(lister.now())` reads it.
   * @returns {string}
   */
  now() {
    return this.#view.now();
  }

  /**
   * Seconds since the host started, when this run began, by a monotonic clock: `now` may jump, this does not. Only differences of
   * two values of the same host have a meaning: keep one in the state, which is lost together with this clock.
   * @returns {number}
   */
  uptime() {
    return this.#view.uptime();
  }

  /**
   * The object, whole if its watch declares `whole`, else its projection; `undefined` if it is not in the cache.
   * @template {object} [T=AnyObject]
   * @param {KindLike} kind
   * @param {string} namespace Empty for cluster-scoped kinds.
   * @param {string} name
   * @returns {T | undefined}
   */
  get(kind, namespace, name) {
    return parseIfAny(this.#view.get(Kind.of(kind), { namespace, name }));
  }

  /**
   * The objects that match, ordered by namespace and name: their projections, unless the query says `whole`.
   * @template {object} [T=AnyObject]
   * @param {KindLike} kind
   * @param {Query} [query] Every object of the kind if absent.
   * @returns {T[]}
   */
  list(kind, query = {}) {
    return this.#view.list(Kind.of(kind), rawQuery(query)).map((text) => parse(text));
  }

  /**
   * How many objects match. Costs less than a list.
   * @param {KindLike} kind
   * @param {Query} [query]
   * @returns {number}
   */
  count(kind, query = {}) {
    return this.#view.count(Kind.of(kind), rawQuery(query));
  }

  /**
   * Objects in the namespace whose own selector (declared as `selects` in their watch) matches these labels.
   * @template {object} [T=AnyObject]
   * @param {KindLike} kind
   * @param {string} namespace
   * @param {Record<string, string>} labels
   * @returns {T[]}
   */
  selecting(kind, namespace, labels) {
    return this.#view.selecting(Kind.of(kind), namespace, Object.entries(labels)).map((text) => parse(text));
  }

  /**
   * Objects of any watched kind that name this uid among their owners, ordered by kind, namespace and name.
   * @template {object} [T=AnyObject]
   * @param {string} uid
   * @returns {T[]}
   */
  dependents(uid) {
    return this.#view.dependents(uid).map((text) => parse(text));
  }

  /**
   * The object of any watched kind with this uid.
   * @template {object} [T=AnyObject]
   * @param {string} uid
   * @returns {T | undefined}
   */
  byUid(uid) {
    return parseIfAny(this.#view.byUid(uid));
  }

  /**
   * What the API server offers, as of the last discovery, seconds ago. Only with `discovery: true` in the manifest.
   * @returns {ApiResource[]}
   */
  resources() {
    return this.#view.resources().map(apiResource);
  }

  /**
   * Those of {@link Lister.resources} whose kind has this group and name, of all versions, at a small part of the cost. Only with
   * `discovery: true` in the manifest.
   * @param {string} group Empty for the core group.
   * @param {string} kind Name of the kind, for example `Deployment`.
   * @returns {ApiResource[]}
   */
  resourcesOf(group, kind) {
    return this.#view.resourcesOf(group, kind).map(apiResource);
  }

  /**
   * The controller's configuration: it fits the manifest's schema, defaults filled in.
   * @template {object} [T=Record<string, any>]
   * @returns {T}
   */
  config() {
    return parse(this.#view.config());
  }

  /**
   * What an earlier outcome kept under this name.
   * @param {string} name
   * @returns {string | undefined}
   */
  state(name) {
    return this.#view.state(name) ?? undefined;
  }

  /**
   * How often this key has failed in a row: 0 on the first try.
   * @returns {number}
   */
  attempt() {
    return this.#view.attempt();
  }

  /**
   * What failed of this key's previous outcome; empty after a success.
   * @returns {MutationFailure[]}
   */
  failures() {
    return this.#view.failures().map(({ kind, subresource, ...rest }) => ({
      ...rest,
      kind: kindOf(kind),
      ...(subresource == null ? {} : { subresource }),
    }));
  }

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
  live(kind, namespace, name) {
    return this.#found(Need.liveObject(kind, namespace, name), () => `${Kind.of(kind)} ${namespace}/${name}`);
  }

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
  liveSubresource(kind, namespace, name, subresource) {
    const need = Need.liveObject(kind, namespace, name, { subresource });
    return this.#found(need, () => `${subresource} of ${Kind.of(kind)} ${namespace}/${name}`);
  }

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
  review(kind, namespace, review) {
    const answer = this.ask(Need.review(kind, namespace, review));
    if (!answer.ok) {
      throw new Retry(`ask for a ${Kind.of(kind).name}: ${answer.error.message}`);
    }
    return parse(answer.text).status ?? {};
  }

  /**
   * The object that a need is about; `undefined` if it is gone.
   * @param {Need} need
   * @param {() => string} what
   */
  #found(need, what) {
    const answer = this.ask(need);
    if (answer.ok) {
      return parse(answer.text);
    }
    if (answer.error.code === 404) {
      return undefined;
    }
    throw new Retry(`read ${what()}: ${answer.error.message}`);
  }

  /**
   * The answer to any need.
   * @param {Need} need
   * @returns {Answer}
   * @throws {Needs} In the first round: let it pass.
   */
  ask(need) {
    const answer = this.#view.answer(wireNeed(need, "the need"));
    if (answer == null) {
      throw new Needs([need]);
    }
    return answer.tag === "ok" ? { ok: true, text: answer.val } : { ok: false, error: answer.val };
  }
}

/**
 * @param {{group: string, version: string, name: string}} raw
 */
function kindOf({ group, version, name }) {
  return new Kind(group, version, name);
}

/**
 * @param {RawResource} raw
 * @returns {ApiResource}
 */
function apiResource(raw) {
  return { ...raw, kind: kindOf(raw.kind) };
}

/**
 * @param {string | null | undefined} text
 */
function parseIfAny(text) {
  return text == null ? undefined : parse(text);
}

/**
 * @param {Query} query
 * @returns {RawQuery}
 */
function rawQuery({ namespace, labelSelector, owner, index, whole, ...unknown }) {
  const [misspelt] = Object.keys(unknown);
  if (misspelt !== undefined) {
    throw new TypeError(`a query has no ${misspelt}: it has namespace, labelSelector, owner, index and whole`);
  }
  return {
    namespace: namespace ?? null,
    labelSelector: labelSelector ?? null,
    owner: owner == null ? null : rawOwner(owner),
    index: index == null ? null : { index: index.name, value: index.value },
    whole: whole ?? false,
  };
}

/**
 * @param {import("./model.js").OwnedBy} owner
 * @returns {RawQuery["owner"]}
 */
function rawOwner(owner) {
  // A uid alone is a mistake that types do not prevent in JavaScript.
  if (typeof owner === "object") {
    if ("controller" in owner) {
      return { tag: "controller", val: owner.controller };
    }
    if ("controllerOrOrphan" in owner) {
      return { tag: "controller-or-orphan", val: owner.controllerOrOrphan };
    }
    if ("any" in owner) {
      return { tag: "any", val: owner.any };
    }
  }
  throw new TypeError("owner of a query is {controller: uid}, {controllerOrOrphan: uid} or {any: uid}");
}
