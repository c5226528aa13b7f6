// One case under a debugger: each read gets the answer that is recorded for it.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

import { Kind } from "../kind.js";
import { Lister } from "../lister.js";

/** @import { Reconcile } from "../controller.js" */
/** @import { RawQuery, View } from "../lister.js" */
/** @import { WireNeed } from "../wire.js" */

/**
 * Calls `reconcile` with the case in a file that `pintle test --filter NAME --export FOLDER` has written, and returns what it returns. Each
 * read gets the answer that the component got.
 * @param {string} file
 * @param {Reconcile} reconcile
 * @returns {ReturnType<Reconcile>}
 * @throws {Error} What `reconcile` throws; or the file has no answer to a read: export the case again after a change of what is read.
 */
export function debugCase(file, reconcile) {
  const recorded = JSON.parse(readFileSync(file, "utf8"));
  const { queue, kind, namespace, name } = recorded.key;
  return reconcile({ queue, kind: Kind.of(kind), namespace, name }, new Lister(viewOf(recorded)));
}

/**
 * @param {any} recorded
 * @returns {View}
 */
function viewOf(recorded) {
  /** @param {object} question */
  const answer = (question) => {
    const wanted = set(question);
    const found = recorded.reads.find((/** @type {any} */ { found, refusal, ...read }) => isDeepStrictEqual(read, wanted));
    if (found === undefined) {
      throw new Error(`the case has no answer to ${JSON.stringify(wanted)}: export it again`);
    }
    return found;
  };
  /** @param {object} question */
  const object = (question) => {
    const { found } = answer(question);
    return found === null ? null : JSON.stringify(found);
  };
  /** @param {object} question @returns {string[]} */
  const objects = (question) => answer(question).found.map((/** @type {object} */ one) => JSON.stringify(one));
  const resources = recorded.resources?.map((/** @type {any} */ one) => ({ ...one, kind: Kind.of(one.kind) }));
  return {
    now: () => recorded.now,
    uptime: () => recorded.uptime,
    attempt: () => recorded.attempt,
    config: () => JSON.stringify(recorded.config),
    state: (name) => recorded.state[name],
    failures: () => recorded.failures.map((/** @type {any} */ one) => ({ causes: [], ...one, kind: Kind.of(one.kind) })),
    resources: () => resources,
    resourcesOf: (group, name) => resources.filter((/** @type {any} */ { kind }) => kind.group === group && kind.name === name),
    get: (kind, { namespace, name }) => object({ read: "get", kind, namespace, name }),
    list: (kind, query) => objects({ read: "list", kind, query: queryOf(query) }),
    count: (kind, query) => answer({ read: "count", kind, query: queryOf(query) }).found,
    selecting: (kind, namespace, labels) => objects({ read: "selecting", kind, namespace, labels: Object.fromEntries(labels) }),
    dependents: (uid) => objects({ read: "dependents", uid }),
    byUid: (uid) => object({ read: "byUid", uid }),
    answer: (need) => {
      const { found, refusal } = answer({ read: "answer", need: needOf(need) });
      return refusal === undefined ? { tag: "ok", val: found } : { tag: "err", val: refusal };
    },
  };
}

/** @param {RawQuery} query */
function queryOf({ owner, index, ...rest }) {
  return { ...rest, owner: owner && { by: owner.tag, uid: owner.val }, index: index && { name: index.index, value: index.value } };
}

/** @param {WireNeed} need */
function needOf({ tag, ...rest }) {
  const { kind, object, claims, body = claims, detail, timeoutMs, ...val } = /** @type {any} */ ("val" in rest ? rest.val : {});
  const types = { "live-object": "object", "live-list": "list", "raw-path": "path" };
  const type = /** @type {Record<string, string>} */ (types)[tag] ?? tag;
  const name = kind && { kind: new Kind(kind.group, kind.version, kind.name) };
  switch (type) {
    case "path":
      return { type, path: /** @type {any} */ (rest).val };
    case "object":
      return { type, ...name, ...object, ...val };
    case "sign-certificate":
      return { type, certificate: val };
    default:
      return { type, ...name, body: object ?? body, detail: detail === "metadata" ? undefined : detail, ...val };
  }
}

/**
 * The members that are set, as JSON.
 * @param {object} question
 */
function set(question) {
  return JSON.parse(JSON.stringify(question, (_, value) => (value === null || value === "" || value === false ? undefined : value)));
}
