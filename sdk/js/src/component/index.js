// The glue between the contract and a controller's functions: what is bundled around them. Runs in components only.

// @ts-expect-error The host provides it.
import contractLog from "pintle:controller/log@0.2.0";

import "./purity.js";
import { Needs, Retry, Terminal } from "../errors.js";
import { parse as parseJson } from "../json.js";
import { Kind } from "../kind.js";
import { Lister } from "../lister.js";
import { log, setSink } from "../log.js";
import { wireError, wireNeeds, wireOutcome, wireWake } from "../wire.js";
import { describe } from "./place.js";

/** @import { KeysOf, Reconcile } from "../controller.js" */
/** @import { View } from "../lister.js" */

/**
 * What the module of a controller exports.
 * @typedef {{reconcile: Reconcile, keysOf?: KeysOf}} ControllerModule
 */

/** @typedef {View & {[Symbol.dispose]: () => void}} OwnedView */
/** @typedef {{group: string, version: string, name: string}} RawKind */

/**
 * Makes a function fit the contract: drops the lister on every path, and logs exceptions before they end the run.
 * @template {unknown[]} A
 * @template R
 * @param {(lister: Lister, ...values: A) => R} body
 * @returns {(view: OwnedView, ...values: A) => R}
 */
function run(body) {
  return (view, ...values) => {
    setSink(contractLog.write);
    try {
      return body(new Lister(view), ...values);
    } catch (thrown) {
      if (!(thrown instanceof WireError)) {
        log.error(describe(thrown, /** @type {any} */ (globalThis)[Symbol.for("pintle.lines")]));
        throw thrown;
      }
      throw thrown.value;
    } finally {
      view[Symbol.dispose]();
    }
  };
}

/** An error that is part of the contract. */
class WireError {
  /** @param {ReturnType<typeof wireError>} value */
  constructor(value) {
    this.value = value;
  }
}

/**
 * The component's exports.
 * @param {ControllerModule} author
 */
export function component(author) {
  if (typeof author.reconcile !== "function") {
    throw new Error("the module that package.json names as main must export it: `export function reconcile(key, lister) { ... }`");
  }
  return {
    reconcile: reconciler(author.reconcile),
    get mapping() {
      if (typeof author.keysOf !== "function") {
        throw new Error("a watch of the manifest says `to: plugin`, so the module that package.json names as main must export `keysOf`");
      }
      return { keysOf: mapper(author.keysOf) };
    },
  };
}

/**
 * The component's `reconcile`.
 * @param {Reconcile} reconcile
 */
function reconciler(reconcile) {
  const body = run((lister, /** @type {{queue: string, kind: RawKind, object: {namespace: string, name: string}}} */ key) => {
    try {
      return wireOutcome(reconcile({ queue: key.queue, kind: kindOf(key.kind), ...key.object }, lister));
    } catch (thrown) {
      if (thrown instanceof Needs) {
        return wireNeeds(thrown.needs);
      }
      if (thrown instanceof Retry || thrown instanceof Terminal) {
        throw new WireError(wireError(thrown, "what reconcile throws"));
      }
      throw thrown;
    }
  });
  return (/** @type {Parameters<typeof body>[1]} */ key, /** @type {OwnedView} */ view) => body(view, key);
}

/**
 * The component's `keys-of`.
 * @param {KeysOf} keysOf
 */
function mapper(keysOf) {
  const body = run((lister, /** @type {RawKind} */ kind, /** @type {string | null} */ before, /** @type {string | null} */ after) => {
    const keys = keysOf(kindOf(kind), parse(before), parse(after), lister);
    if (!Array.isArray(keys)) {
      throw new TypeError("keysOf must return an array of keys");
    }
    return keys.map((wake, i) => wireWake(wake, `keysOf: key ${i}`));
  });
  return (
    /** @type {RawKind} */ kind,
    /** @type {string | null} */ before,
    /** @type {string | null} */ after,
    /** @type {OwnedView} */ view,
  ) => body(view, kind, before, after);
}

/** @param {RawKind} raw */
function kindOf({ group, version, name }) {
  return new Kind(group, version, name);
}

/** @param {string | null} text */
function parse(text) {
  return text == null ? undefined : parseJson(text);
}
