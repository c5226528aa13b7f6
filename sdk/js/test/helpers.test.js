import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  addFinalizer,
  controllerOf,
  controllerRef,
  covers,
  event,
  findCondition,
  hasFinalizer,
  hash,
  isControlledBy,
  isTrue,
  Kind,
  Mutation,
  patchStatus,
  removeFinalizer,
  setCondition,
  Terminal,
} from "pintle";
import { canonical } from "../src/hash.js";
import { parse } from "../src/json.js";

const WIDGET = Kind.of("example.com/v1/Widget");

/** @param {object} [metadata] */
const widget = (metadata) => ({
  apiVersion: "example.com/v1",
  kind: "Widget",
  metadata: { name: "w", namespace: "default", uid: "u", resourceVersion: "7", ...metadata },
});

/** @param {string} name */
const vectors = (name) => parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8"));

test("texts and hashes are those of every language", () => {
  const all = vectors("hash");
  assert(all.length > 10);
  for (const { name, value, text, hash: wanted } of all) {
    assert.equal(canonical(value), text, name);
    assert.equal(hash(value), wanted, name);
  }
});

test("undefined is null to a hash, and numbers that languages write differently are errors", () => {
  assert.equal(canonical({ a: undefined, b: [undefined], c: -0 }), '{"b":[null],"c":0}');
  for (const number of [0.5, 1e300, 2 ** 53, NaN, Infinity]) {
    assert.throws(() => hash([number]), Terminal);
  }
});

test("objects cover what every language says they do", () => {
  const all = vectors("covers");
  assert(all.length > 10);
  for (const { name, existing, wanted, covers: expected } of all) {
    assert.equal(covers(existing, wanted), expected, name);
  }
});

test("a kind is read from text and from objects", () => {
  for (const [text, group, version, name] of [
    ["v1/Pod", "", "v1", "Pod"],
    ["apps/v1/Deployment", "apps", "v1", "Deployment"],
  ]) {
    const kind = Kind.of(text ?? "");
    assert.deepEqual([kind.group, kind.version, kind.name, String(kind), JSON.stringify(kind)], [group, version, name, text, `"${text}"`]);
    assert.deepEqual(Kind.ofObject({ apiVersion: kind.apiVersion, kind: kind.name }), kind);
  }
  for (const text of ["", "Pod", "/v1/Pod", "a/b/c/d", "v1/"]) {
    assert.throws(() => Kind.of(text), /is not a kind/, text);
  }
  assert.throws(() => Kind.ofObject({ kind: "Pod" }), /no apiVersion/);
});

test("a controller is known by its uid", () => {
  const reference = controllerRef(widget());
  assert.deepEqual(reference, {
    apiVersion: "example.com/v1",
    kind: "Widget",
    name: "w",
    uid: "u",
    controller: true,
    blockOwnerDeletion: true,
  });
  const owned = { metadata: { ownerReferences: [{ ...reference, uid: "x", controller: false }, reference] } };
  assert.deepEqual(controllerOf(owned), reference);
  assert(isControlledBy(owned, "u") && !isControlledBy(owned, "x") && !isControlledBy({}, "u"));
  assert.equal(controllerOf(widget()), undefined);
  assert.throws(() => controllerRef({ apiVersion: "v1", kind: "Pod", metadata: { name: "p" } }), /uid/);
});

test("a finalizer comes last and once, and others stay", () => {
  /** @param {string[]} finalizers */
  const patch = (finalizers) =>
    Mutation.patch(WIDGET, "default", "w", "merge", { metadata: { finalizers } }, { uid: "u", resourceVersion: "7" });
  assert.deepEqual(addFinalizer(WIDGET, widget(), "b"), patch(["b"]));
  assert.deepEqual(addFinalizer(WIDGET, widget({ finalizers: ["a"] }), "b"), patch(["a", "b"]));
  assert.deepEqual(addFinalizer(WIDGET, widget({ finalizers: ["b", "a"] }), "b"), patch(["b", "a"]));
  assert.deepEqual(removeFinalizer(WIDGET, widget({ finalizers: ["a", "b", "c"] }), "b"), patch(["a", "c"]));
  assert(hasFinalizer(widget({ finalizers: ["a", "b"] }), "b") && !hasFinalizer(widget(), "b"));
});

test("a transition is a change of the status alone", () => {
  /** @type {(type: string, status: "True" | "False", reason: string) => import("pintle").Condition} */
  const condition = (type, status, reason) => ({ type, status, reason, message: "" });
  const times = (/** @type {import("pintle").Condition[]} */ all) => all.map((one) => `${one.type} ${one.reason} ${one.lastTransitionTime}`);
  const first = setCondition(undefined, condition("A", "False", "x"), "2026-01-01T00:00:01.999999Z");
  const second = setCondition(first, condition("B", "True", "y"), "2026-01-01T00:00:02Z");
  assert.deepEqual(times(second), ["A x 2026-01-01T00:00:01Z", "B y 2026-01-01T00:00:02Z"]);
  const third = setCondition(second, { ...condition("A", "False", "z"), lastTransitionTime: "ignored" }, "2026-01-01T00:00:03Z");
  assert.deepEqual(times(third), ["A z 2026-01-01T00:00:01Z", "B y 2026-01-01T00:00:02Z"]);
  const fourth = setCondition(third, condition("A", "True", "z"), "2026-01-01T00:00:04Z");
  assert.deepEqual(times(fourth), ["A z 2026-01-01T00:00:04Z", "B y 2026-01-01T00:00:02Z"]);
  assert.deepEqual(times(setCondition([condition("A", "True", "x")], condition("A", "True", "x"), "2026-01-01T00:00:05Z")), [
    "A x 2026-01-01T00:00:05Z",
  ]);
  assert.equal(first.length, 1, "the old list stays as it is");
  assert(isTrue(fourth, "A") && !isTrue(undefined, "A") && findCondition(fourth, "C") === undefined);
});

test("a status is written if it changes, and what is no longer wanted is removed", () => {
  /** @type {(current: any, wanted: any) => any} */
  const body = (current, wanted) => {
    const patch = /** @type {any} */ (patchStatus(WIDGET, { ...widget(), status: current }, wanted));
    if (patch) {
      assert.deepEqual([patch.subresource, patch.type, patch.preconditions], ["status", "merge", { uid: undefined, resourceVersion: "7" }]);
    }
    return patch?.body.status;
  };
  assert.equal(body({ a: [1], b: { c: null } }, { b: {}, a: [1] }), undefined);
  assert.equal(body({ a: 1 }, { a: 1, b: undefined }), undefined);
  // Lists have an order, and their nulls count.
  assert.deepEqual(body({ a: [1, 2] }, { a: [2, 1] }), { a: [2, 1] });
  assert.deepEqual(body({ a: [null] }, { a: [] }), { a: [] });
  assert.deepEqual(body({ a: 1, b: { c: 1, d: 2 }, e: { f: 1 } }, { a: 1, b: { c: 2 }, g: [{}] }), {
    a: 1,
    b: { c: 2, d: null },
    g: [{}],
    e: null,
  });
  assert.deepEqual(body(undefined, { a: 1 }), { a: 1 });
});

test("an event is about the object that was read", () => {
  assert.deepEqual(event(widget(), "warning", "Broken", "it is"), {
    kind: WIDGET,
    regarding: { namespace: "default", name: "w" },
    uid: "u",
    type: "warning",
    reason: "Broken",
    message: "it is",
  });
});
