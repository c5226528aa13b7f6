// The contract's lister over plain objects: what the host would give, and a fault where it would end the run with one.

import { Kind } from "../kind.js";
import { answerOf, fieldsMatch, notFound, ok, refused } from "./answers.js";
import { project, segments, valuesAt } from "./manifest.js";
import { kindText, objectText } from "./render.js";
import { fromLabelSelector, fromMap, parseSelector, selects } from "./selector.js";

/** @import { RawFailure, RawQuery, View } from "../lister.js" */
/** @import { AnyObject, ApiError } from "../model.js" */
/** @import { WireNeed } from "../wire.js" */
/** @import { Answer, Answers } from "./answers.js" */
/** @import { Manifest, Watch } from "./manifest.js" */

const ALWAYS = ["apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"];

/** Where the host would end the run with a fault. A controller that catches it fails its case all the same. */
export class Fault extends Error {
  /** @param {string} message */
  constructor(message) {
    super(`fault: ${message}`);
    this.name = "Fault";
  }
}

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
export function store(values) {
  const stored = values.map((given) => {
    const value = structuredClone(given);
    const { name, namespace = "" } = value.metadata ?? {};
    if (!value.apiVersion || !value.kind || !value.metadata || !name) {
      throw new Error(`an object needs apiVersion, kind and metadata.name: ${JSON.stringify(given)}`);
    }
    value.metadata.uid ??= `uid-${name}`;
    value.metadata.resourceVersion ??= "1";
    return { kind: String(Kind.ofObject(value)), namespace, name, value };
  });
  const order = (/** @type {Stored} */ { kind, namespace, name }) => {
    const { group, version, name: kindName } = Kind.of(kind);
    return [group, version, kindName, namespace, name];
  };
  return stored.sort((a, b) => compare(order(a), order(b)));
}

/**
 * @param {string[]} a
 * @param {string[]} b
 */
function compare(a, b) {
  const i = a.findIndex((part, j) => part !== b[j]);
  return i < 0 ? 0 : (a[i] ?? "") < (b[i] ?? "") ? -1 : 1;
}

/** @implements {View} */
export class World {
  /** The first fault of the run, also if the controller caught it. @type {Fault | undefined} */
  fault;
  /** Needs that were asked so far. @type {WireNeed[]} */
  asked = [];
  #manifest;
  #state;

  /**
   * @param {Manifest} manifest
   * @param {WorldState} state
   */
  constructor(manifest, state) {
    this.#manifest = manifest;
    this.#state = state;
  }

  now() {
    return this.#state.now;
  }

  uptime() {
    return this.#state.uptime;
  }

  /**
   * @param {Kind} kind
   * @param {{namespace: string, name: string}} object
   */
  get(kind, { namespace, name }) {
    const watch = this.#watch(String(kind));
    const found = this.#cached(String(kind)).find((stored) => stored.namespace === namespace && stored.name === name);
    return found === undefined ? null : this.#text(found, watch.whole ?? false);
  }

  /**
   * @param {Kind} kind
   * @param {RawQuery} query
   */
  list(kind, query) {
    return this.#matching(String(kind), query).map((stored) => this.#text(stored, query.whole));
  }

  /**
   * @param {Kind} kind
   * @param {RawQuery} query
   */
  count(kind, query) {
    return this.#matching(String(kind), query).length;
  }

  /**
   * @param {Kind} kind
   * @param {string} namespace
   * @param {[string, string][]} labels
   */
  selecting(kind, namespace, labels) {
    const declared = this.#watch(String(kind)).selects;
    if (declared === undefined) {
      throw this.#fail(`the watch of ${kind} does not declare \`selects\``);
    }
    const path = segments(declared.field);
    return this.#cached(String(kind))
      .filter((stored) => stored.namespace === namespace)
      .filter((stored) => {
        const selector = path.reduce((value, name) => value?.[name], /** @type {any} */ (stored.value));
        const requirements =
          selector == null ? undefined : declared.form === "map" ? fromMap(selector) : fromLabelSelector(selector);
        const isPossible = requirements !== undefined && (requirements.length > 0 || declared.empty === "everything");
        return isPossible && selects(requirements, Object.fromEntries(labels));
      })
      .map((stored) => this.#text(stored, false));
  }

  /** @param {string} uid */
  dependents(uid) {
    const names = (/** @type {Stored} */ { value }) => value.metadata?.ownerReferences?.some((owner) => owner.uid === uid);
    return this.#watched().filter(names).map((stored) => this.#text(stored, false));
  }

  /** @param {string} uid */
  byUid(uid) {
    const found = this.#watched().find(({ value }) => value.metadata?.uid === uid);
    return found === undefined ? null : this.#text(found, false);
  }

  resources() {
    this.#needsDiscovery();
    const discovered = this.asked.some(({ tag }) => tag === "discovery") ? this.#state.discovery.resources : undefined;
    return (discovered ?? this.#state.resources).map((resource) => ({
      subresources: [],
      preferred: false,
      ...resource,
      kind: Kind.of(resource.kind),
    }));
  }

  /**
   * @param {string} group
   * @param {string} name
   */
  resourcesOf(group, name) {
    return this.resources().filter(({ kind }) => kind.group === group && kind.name === name);
  }

  config() {
    return JSON.stringify(this.#state.config);
  }

  /** @param {string} name */
  state(name) {
    return this.#state.state[name] ?? null;
  }

  attempt() {
    return this.#state.attempt;
  }

  failures() {
    return this.#state.failures;
  }

  /** @param {WireNeed} need */
  hasAsked(need) {
    const text = JSON.stringify(need);
    return this.asked.some((asked) => JSON.stringify(asked) === text);
  }

  /**
   * @param {WireNeed} need
   * @returns {Answer | null}
   */
  answer(need) {
    return this.hasAsked(need) ? (answerOf(need, this.#state.answers) ?? this.#read(need)) : null;
  }

  /**
   * @param {WireNeed} need
   * @returns {Answer}
   */
  #read(need) {
    switch (need.tag) {
      case "live-object": {
        const { kind, object } = need.val;
        const found = this.#state.live.find(
          (stored) => stored.kind === kindText(kind) && stored.namespace === object.namespace && stored.name === object.name,
        );
        return found ? ok(found.value) : notFound(`${kindText(kind)} ${objectText(object)}`);
      }
      case "live-list":
        return this.#liveList(need.val);
      case "raw-path":
        return need.val in this.#state.raw ? ok(this.#state.raw[need.val]) : notFound(need.val);
      case "discovery": {
        this.#needsDiscovery();
        const { error, failed = [] } = this.#state.discovery;
        return error ? refused(error) : ok(failed);
      }
      default:
        throw new Error(`nothing answers a ${need.tag}`);
    }
  }

  /**
   * @param {Extract<WireNeed, {tag: "live-list"}>["val"]} list
   * @returns {Answer}
   */
  #liveList({ kind, namespace, labelSelector, fieldSelector, detail, limit }) {
    const name = kindText(kind);
    if (detail === "projection" && !this.#manifest.watches?.some((watch) => watch.kind === name)) {
      throw this.#fail(`a live list asks for the projection of ${name}, which the manifest does not watch`);
    }
    const metadata = ["apiVersion", "kind", "metadata"].map(segments);
    const show = (/** @type {Stored} */ stored) => {
      switch (detail) {
        case "metadata":
          return project(stored.value, metadata);
        case "projection":
          return JSON.parse(this.#text(stored, false));
        case "whole":
          return stored.value;
      }
    };
    try {
      const requirements = parseSelector(labelSelector ?? "");
      const items = this.#state.live
        .filter((stored) => stored.kind === name && (namespace === "" || stored.namespace === namespace))
        .filter(({ value }) => selects(requirements, value.metadata?.labels ?? {}))
        .filter(({ value }) => fieldsMatch(fieldSelector ?? "", value))
        .slice(0, limit);
      return ok(items.map(show));
    } catch (error) {
      // The API server refuses selectors that it does not understand.
      return refused({ code: 400, reason: "BadRequest", message: error instanceof Error ? error.message : String(error) });
    }
  }

  /**
   * The cached object that an update would replace.
   * @param {string} kind
   * @param {string} namespace
   * @param {string} name
   */
  original(kind, namespace, name) {
    const { objects } = this.#state;
    return objects.find((stored) => stored.kind === kind && stored.namespace === namespace && stored.name === name)?.value;
  }

  /** @param {string} message */
  #fail(message) {
    const fault = new Fault(message);
    this.fault ??= fault;
    return fault;
  }

  /** @param {string} text */
  #selector(text) {
    try {
      return parseSelector(text);
    } catch (error) {
      throw this.#fail(error instanceof Error ? error.message : String(error));
    }
  }

  #needsDiscovery() {
    if (!this.#manifest.discovery) {
      throw this.#fail("the manifest does not declare `discovery: true`");
    }
  }

  /** @param {string} kind */
  #watch(kind) {
    const watches = this.#manifest.watches ?? [];
    const watch = watches.find((one) => one.kind === kind) ?? watches.find((one) => one.every != null);
    if (watch === undefined) {
      throw this.#fail(`the manifest does not watch ${kind}`);
    }
    return watch;
  }

  /**
   * Whether the watch would have the object in the cache.
   * @param {Watch} watch
   * @param {Stored} stored
   */
  #isCached(watch, stored) {
    return (
      (watch.namespace === undefined || watch.namespace === stored.namespace) &&
      selects(this.#selector(watch.labelSelector ?? ""), stored.value.metadata?.labels ?? {})
    );
  }

  /** @param {string} kind */
  #cached(kind) {
    const watch = this.#watch(kind);
    return this.#state.objects.filter((stored) => stored.kind === kind && this.#isCached(watch, stored));
  }

  #watched() {
    const watches = this.#manifest.watches ?? [];
    return this.#state.objects.filter((stored) =>
      watches.some((watch) => (watch.every != null || watch.kind === stored.kind) && this.#isCached(watch, stored)),
    );
  }

  /**
   * @param {Stored} stored
   * @param {boolean} whole
   */
  #text({ kind, value }, whole) {
    if (whole) {
      return JSON.stringify(value);
    }
    const watch = this.#watch(kind);
    // Watches of every kind hold the metadata.
    const fields = watch.every != null ? ["metadata"] : (watch.fields ?? []);
    return JSON.stringify(project(value, [...ALWAYS, ...fields].map(segments)));
  }

  /**
   * @param {string} kind
   * @param {RawQuery} query
   */
  #matching(kind, { namespace, labelSelector, owner, index, whole }) {
    const watch = this.#watch(kind);
    if (whole && !watch.whole) {
      throw this.#fail(`the watch of ${kind} does not declare \`whole\``);
    }
    const requirements = this.#selector(labelSelector ?? "");
    const declared = watch.indexes?.find(({ name }) => name === index?.index);
    if (index !== null && declared === undefined) {
      throw this.#fail(`the watch of ${kind} declares no index ${JSON.stringify(index.index)}`);
    }
    return this.#cached(kind).filter(
      (stored) =>
        (namespace === null || stored.namespace === namespace) &&
        selects(requirements, stored.value.metadata?.labels ?? {}) &&
        (owner === null || isOwned(stored.value, owner)) &&
        (index === null || valuesAt(stored.value, segments(declared?.field ?? "")).some((value) => indexes(value, index.value))),
    );
  }
}

/**
 * @param {AnyObject} value
 * @param {NonNullable<RawQuery["owner"]>} owner
 */
function isOwned({ metadata }, { tag, val: uid }) {
  const references = metadata?.ownerReferences ?? [];
  const controller = references.find((reference) => reference.controller === true);
  switch (tag) {
    case "controller":
      return controller?.uid === uid;
    case "controller-or-orphan":
      return controller === undefined || controller.uid === uid;
    case "any":
      return references.some((reference) => reference.uid === uid);
  }
}

/**
 * @param {unknown} value
 * @param {string} wanted
 */
function indexes(value, wanted) {
  return ["string", "number", "boolean"].includes(typeof value) && String(value) === wanted;
}
