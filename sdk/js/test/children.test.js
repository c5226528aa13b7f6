// The set of children; what is in it beside these is shown by `tests/webapp/cases`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { APPLIED, Children, hash, Kind, Lister, Terminal } from "pintle";

const OWNER = { apiVersion: "example.com/v1", kind: "Widget", metadata: { name: "w", namespace: "ns", uid: "u" } };
const REFERENCE = { apiVersion: "example.com/v1", kind: "Widget", name: "w", uid: "u", controller: true, blockOwnerDeletion: true };

/**
 * A lister with these objects in the cache, ordered by name.
 * @param {any[]} objects
 */
function cached(objects) {
  const sorted = objects.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const of = (/** @type {Kind} */ kind) => sorted.filter((object) => String(Kind.ofObject(object)) === String(kind));
  return new Lister(/** @type {any} */ ({
    get: (/** @type {Kind} */ kind, /** @type {{namespace: string, name: string}} */ { namespace, name }) => {
      const found = of(kind).find(({ metadata }) => (metadata.namespace ?? "") === namespace && metadata.name === name);
      return found === undefined ? null : JSON.stringify(found);
    },
    list: (/** @type {Kind} */ kind, /** @type {import("../src/lister.js").RawQuery} */ { namespace, owner }) =>
      of(kind)
        .filter(({ metadata }) => namespace === null || metadata.namespace === namespace)
        .filter(({ metadata }) => owner === null || metadata.ownerReferences?.some((/** @type {any} */ { uid }) => uid === owner.val))
        .map((object) => JSON.stringify(object)),
  }));
}

/**
 * @param {object[]} objects The cache.
 * @param {(children: Children) => Children} want
 * @param {import("pintle").KubernetesObject} [owner]
 */
function plan(objects, want, owner = OWNER) {
  const { mutations, conflicts, waiting } = want(new Children(owner, "me")).plan(cached(objects));
  const of = (/** @type {any} */ { kind, namespace, name }) => `${kind} ${namespace}/${name}`;
  return {
    mutations: mutations.map((/** @type {any} */ one) => ({
      patch: of(one),
      form: one.type,
      ...(one.preconditions?.uid === undefined ? {} : { if: one.preconditions }),
      body: one.body,
    })),
    brief: mutations.map((/** @type {any} */ one) => `${one.verb === "delete" ? "delete " : ""}${of(one)} ${one.preconditions.uid ?? "-"}`),
    rest: [conflicts.map(String), waiting.map(String)],
  };
}

/** @param {string} name @param {object} [metadata] */
const map = (name, metadata) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...metadata } });
/** @param {string} name @param {object} [metadata] */
const applied = (name, metadata) => {
  const wanted = map(name, { namespace: "ns" });
  return map(name, { namespace: "ns", uid: name, ownerReferences: [REFERENCE], annotations: { [APPLIED]: hash(wanted) }, ...metadata });
};

test("what is missing is applied with owner and hash, and the wanted object stays as it is", () => {
  const wanted = map("a", { annotations: { x: "y" } });
  const { mutations } = plan([], (children) => children.own("v1/ConfigMap").want(wanted));
  const complete = map("a", { annotations: { x: "y" }, namespace: "ns" });
  assert.deepEqual(mutations, [
    {
      patch: "v1/ConfigMap ns/a",
      form: { fieldManager: "me", force: true },
      body: map("a", { namespace: "ns", ownerReferences: [REFERENCE], annotations: { x: "y", [APPLIED]: hash(complete) } }),
    },
  ]);
  assert.deepEqual(wanted, map("a", { annotations: { x: "y" } }));
});

test("what is there is left alone, adopted, applied again, waited for, or somebody else's", () => {
  const others = [{ apiVersion: "v1", kind: "Pod", name: "p", uid: "x", controller: true }];
  const node = { apiVersion: "v1", kind: "Node", name: "n", uid: "x" };
  const weak = { ...REFERENCE, controller: false };
  const { mutations, brief, rest } = plan(
    [
      applied("same"),
      applied("orphan", { ownerReferences: [node, weak], resourceVersion: "7" }),
      { ...map("unlike", { namespace: "ns", uid: "unlike", resourceVersion: "8" }), data: { k: "other" } },
      applied("older", { annotations: { [APPLIED]: "0" } }),
      applied("deleted", { deletionTimestamp: "2026-01-01T00:00:00Z" }),
      applied("foreign", { ownerReferences: others }),
    ],
    (children) => children.own("v1/ConfigMap").want(...["same", "orphan", "unlike", "older", "deleted", "foreign"].map((name) => map(name))),
  );
  assert.deepEqual(brief, ["v1/ConfigMap ns/orphan orphan", "v1/ConfigMap ns/unlike unlike", "v1/ConfigMap ns/older older"]);
  // Nothing else of them changes before they are adopted.
  const adoption = (/** @type {string} */ name, /** @type {string} */ resourceVersion, /** @type {object[]} */ ...ownerReferences) => ({
    patch: `v1/ConfigMap ns/${name}`,
    form: "merge",
    if: { uid: name, resourceVersion },
    body: { metadata: { ownerReferences } },
  });
  assert.deepEqual(mutations.slice(0, 2), [adoption("orphan", "7", node, REFERENCE), adoption("unlike", "8", REFERENCE)]);
  assert.deepEqual(rest, [["v1/ConfigMap ns/foreign is controlled by v1/Pod p"], ["v1/ConfigMap ns/deleted"]]);
});

test("drift is repaired, and what others add is not drift", () => {
  const there = { ...applied("a"), data: { added: "x" } };
  assert.deepEqual(plan([there], (children) => children.own("v1/ConfigMap").want(map("a"))).brief, []);
  const wanted = { ...map("a"), data: { k: "v" } };
  const annotations = { [APPLIED]: hash({ ...map("a", { namespace: "ns" }), data: { k: "v" } }) };
  const drifted = { ...applied("a", { annotations }), data: { k: "other" } };
  assert.deepEqual(plan([drifted], (children) => children.own("v1/ConfigMap").want(wanted)).brief, ["v1/ConfigMap ns/a a"]);
});

test("what is no longer wanted is deleted by kind and name", () => {
  const secret = { ...applied("s"), kind: "Secret" };
  const cache = [applied("b"), applied("a"), secret, applied("gone", { deletionTimestamp: "2026-01-01T00:00:00Z" }), applied("elsewhere", { namespace: "other" })];
  const { brief } = plan([...cache, map("free", { namespace: "ns" })], (children) => children.own("v1/Secret", "v1/ConfigMap"));
  assert.deepEqual(brief, ["delete v1/Secret ns/s s", "delete v1/ConfigMap ns/a a", "delete v1/ConfigMap ns/b b"]);
  const cluster = { ...OWNER, metadata: { name: "w", uid: "u" } };
  assert.equal(plan(cache, (children) => children.own("v1/ConfigMap"), cluster).brief.length, 3, "all namespaces");
});

test("mistakes are told", () => {
  for (const [want, message] of /** @type {[(children: Children) => Children, RegExp][]} */ ([
    [(children) => children.want(map("a")), /v1\/ConfigMap ns\/a is of a kind that is not owned: call own/],
    [(children) => children.own("v1/ConfigMap").want(map("")), /a v1\/ConfigMap has no metadata.name/],
    [(children) => children.own("v1/ConfigMap").want(map("a"), map("a")), /v1\/ConfigMap ns\/a is wanted twice/],
    [(children) => children.own("v1/ConfigMap").want(map("a", { namespace: "x" })), /v1\/ConfigMap x\/a is in another namespace/],
    [(children) => children.own("v1/ConfigMap").want({ ...map("a"), data: 0.5 }), /not an integer/],
  ])) {
    assert.throws(() => want(new Children(OWNER, "me")).plan(cached([])), (error) => error instanceof Terminal && message.test(error.message));
  }
});
