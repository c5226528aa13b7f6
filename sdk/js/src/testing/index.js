// Native tests of controllers: a case is a file with two YAML documents, the input and the expected outcome.

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { parse, stringify } from "yaml";

import { Needs, Retry, Terminal } from "../errors.js";
import { Kind } from "../kind.js";
import { Lister } from "../lister.js";
import { MAX_NEEDS, MAX_WAKES, wireError, wireNeeds, wireOutcome } from "../wire.js";
import { ANSWERS, answersOf } from "./answers.js";
import { renderError, renderNeed, renderOutcome } from "./render.js";
import { configOf } from "./manifest.js";
import { World, store } from "./world.js";

export { ApiError, Dev } from "./dev.js";

/** @import { Key } from "../model.js" */
/** @import { Reconcile } from "../controller.js" */
/** @import { WireOutcome } from "../wire.js" */

/** Calls of one run, as in the host. */
const MAX_ROUNDS = 8;
const INPUT = [
  ...["key", "now", "uptime", "objects", "live", "config", "state", "attempt", "failures", "resources", "raw"],
  ...[...ANSWERS, "discovery", "settle", "define"],
];

/**
 * Runs every case below `folder/cases` with `folder/manifest.yaml`, as one test of `node --test` each, and compares the outcomes.
 *
 * The lister of a case gives what the host would give: only watched kinds, only projected fields, only declared indexes; anything else
 * fails the case. Where what is expected is missing or differs, the message shows the outcome; `pintle test --update` writes it.
 * @param {string} folder The controller's folder; relative to where the tests are started, which is the package with `npm test`.
 * @param {Reconcile} reconcile
 * @param {{cases?: string}} [options] `cases`: another folder of cases, relative to `folder`.
 */
export function checkCases(folder, reconcile, { cases = "cases" } = {}) {
  const manifest = readFileSync(join(folder, "manifest.yaml"), "utf8");
  const root = resolve(folder, cases);
  const names = readdirSync(root).sort();
  const old = names.map((name) => join(root, name)).find((path) => existsSync(join(path, "input.yaml")));
  assert(!old, `${old} is a folder, but a case is one file: write input.yaml, a line --- and expected.yaml to ${old}.yaml`);
  const files = names.filter((name) => name.endsWith(".yaml"));
  assert(files.length > 0, `no cases in ${root}`);
  for (const file of files) {
    test(file.slice(0, -".yaml".length), () => {
      // A third document is the end of a case that settles, for `pintle test`.
      const [input = "", expected = ""] = readFileSync(join(root, file), "utf8").split("\n---\n");
      const actual = Fixture.parse(manifest, input).run(reconcile);
      assert.deepEqual(actual, readYaml(expected), `the outcome is not the expected one of ${file}. It is:\n${stringify(actual)}`);
    });
  }
}

/** One run: a key and the cluster that it reads. */
export class Fixture {
  #world;

  /**
   * @param {Key} key
   * @param {World} world
   */
  constructor(key, world) {
    /** The key of the run. */
    this.key = key;
    /** The world. */
    this.lister = new Lister(world);
    this.#world = world;
  }

  /**
   * Reads a manifest and an input, both YAML. The input has `key` (`kind`, `namespace`, `name`, and `queue` if it is not the manifest's
   * first), `now`, `uptime`, `objects` (the cache), `live` (what the API server itself has; the same if absent), `raw` (path -> body),
   * `subresources`, `reviews`, `signatures`, `calls` (answers to needs), `discovery`, `config`, `state`, `attempt`, `failures`,
   * `resources`.
   * @param {string} manifestText
   * @param {string} inputText
   * @returns {Fixture}
   * @throws {Error} What is wrong with them.
   */
  static parse(manifestText, inputText) {
    const manifest = readYaml(manifestText);
    const input = readYaml(inputText);
    const unknown = Object.keys(input).find((name) => !INPUT.includes(name));
    assert(unknown === undefined, `the input has an unknown field ${unknown}: it may have ${INPUT.join(", ")}`);
    assert(input.key?.kind && input.key?.name, "the input needs key.kind and key.name");
    const queue = input.key.queue ?? manifest.queues?.[0]?.name;
    assert(queue !== undefined, "the manifest declares no queue");
    const uptime = input.uptime ?? 0;
    assert(typeof uptime === "number" && uptime >= 0 && uptime < Infinity, `uptime must be seconds, got ${JSON.stringify(uptime)}`);
    const objects = store(input.objects ?? []);
    const world = new World(manifest, {
      now: input.now ?? "2026-01-01T00:00:00Z",
      uptime,
      objects,
      live: input.live == null ? objects : store(input.live),
      config: configOf(manifest, input.config ?? {}),
      state: input.state ?? {},
      attempt: input.attempt ?? 0,
      failures: (input.failures ?? []).map(failure),
      resources: input.resources ?? [],
      raw: input.raw ?? {},
      answers: answersOf(input),
      discovery: input.discovery ?? {},
    });
    const { kind, namespace = "", name } = input.key;
    return new Fixture({ queue, kind: Kind.of(kind), namespace, name }, world);
  }

  /**
   * Runs the key, answers its needs until there are no more, and shows the result in the form of the expected outcome of a case.
   * @param {Reconcile} reconcile
   * @returns {Record<string, any>}
   * @throws {Error} What the controller threw, if it is neither {@link Retry} nor {@link Terminal}; or the fault of the run.
   */
  run(reconcile) {
    const result = this.#result(reconcile);
    const asked = this.#world.asked.length > 0 ? { asked: this.#world.asked.map(renderNeed) } : {};
    if (result instanceof Error) {
      return { ...asked, ...renderError(wireError(result, "what reconcile throws")) };
    }
    return { ...asked, ...renderOutcome(result, this.#world) };
  }

  /**
   * @param {Reconcile} reconcile
   * @returns {WireOutcome | Retry | Terminal}
   */
  #result(reconcile) {
    this.#world.asked = [];
    this.#world.fault = undefined;
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const result = this.#round(reconcile);
      if (this.#world.fault) {
        throw this.#world.fault;
      }
      if (result instanceof Error || result.needs.length === 0) {
        return result;
      }
      for (const need of result.needs.filter((one) => !this.#world.hasAsked(one))) {
        this.#world.asked.push(need);
      }
    }
    const asked = this.#world.asked.map(renderNeed).map((need) => (typeof need === "string" ? need : JSON.stringify(need)));
    throw new Error(`the controller still asks for reads after ${MAX_ROUNDS} rounds: ${asked.join("; ")}`);
  }

  /**
   * @param {Reconcile} reconcile
   * @returns {WireOutcome | Retry | Terminal}
   */
  #round(reconcile) {
    try {
      const result = reconcile(this.key, this.lister);
      const wire = wireOutcome(result);
      for (const [what, found, most] of /** @type {const} */ ([
        ["needs", wire.needs.length, MAX_NEEDS],
        ["keys to wake", wire.wake.length, MAX_WAKES],
      ])) {
        assert(found <= most, `fault: the outcome has ${found} ${what}, more than ${most}`);
      }
      return wire;
    } catch (error) {
      if (error instanceof Needs) {
        return wireNeeds(error.needs);
      }
      if (error instanceof Retry || error instanceof Terminal) {
        return error;
      }
      throw error;
    }
  }
}

/** @param {any} given */
function failure(given) {
  return {
    step: 0,
    position: 0,
    verb: "",
    code: 0,
    reason: "",
    message: "",
    causes: [],
    ...given,
    kind: Kind.of(given.kind ?? "v1/Unknown"),
    object: { namespace: "", name: "", ...given.object },
  };
}

/**
 * @param {string} text
 * @returns {any}
 */
function readYaml(text) {
  // The files are written as YAML 1.1, to which these two are line breaks, and what follows them indentation.
  const lines = text.replace(/([\u2028\u2029])[ \t]+/g, "$1");
  return parse(lines, { merge: true, maxAliasCount: -1 });
}
