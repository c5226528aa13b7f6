// What authors return becomes the contract's shape, and what does not fit is told with its place.

import assert from "node:assert/strict";
import { test } from "node:test";

import { event, Need, Mutation, Outcome, Step } from "pintle";
import { wireKey, wireNeeds, wireOutcome } from "../src/wire.js";
import { Kind } from "../src/kind.js";

/** @typedef {import("pintle").Mutation} AnyMutation */

const POD = { group: "", version: "v1", name: "Pod" };
const NONE = { uid: null, resourceVersion: null };

/** @param {AnyMutation} mutation */
const wired = (mutation) => wireOutcome({ steps: [Step.sequential([mutation])] }).steps[0]?.mutations[0];

test("every verb has the contract's shape", () => {
  const about = event({ apiVersion: "v1", kind: "Pod", metadata: { name: "p", uid: "u" } }, "normal", "R", "m");
  const wiredEvent = {
    regardingKind: POD,
    regarding: { namespace: "", name: "p" },
    regardingUid: "u",
    eventType: "normal",
    reason: "R",
    message: "m",
  };
  const object = { namespace: "ns", name: "p" };
  for (const [mutation, tag, val] of /** @type {[AnyMutation, string, any][]} */ ([
    [Mutation.create("v1/Pod", "ns", { a: undefined, b: 1 }), "create", { kind: POD, namespace: "ns", object: '{"b":1}', subresource: null }],
    [Mutation.update("v1/Pod", { a: 1 }), "update", { kind: POD, object: '{"a":1}', subresource: null }],
    [Mutation.updateStatus("v1/Pod", {}), "update", { kind: POD, object: "{}", subresource: "status" }],
    [
      Mutation.patch("v1/Pod", "ns", "p", "json", [], { subresource: "scale", uid: "u", resourceVersion: "7" }),
      "patch",
      { kind: POD, object, subresource: "scale", patchType: { tag: "json" }, body: "[]", preconditions: { uid: "u", resourceVersion: "7" } },
    ],
    [
      Mutation.apply("me", { apiVersion: "v1", kind: "Pod", metadata: object }, { force: false }),
      "patch",
      {
        kind: POD,
        object,
        subresource: null,
        patchType: { tag: "apply", val: { fieldManager: "me", force: false } },
        body: '{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"ns","name":"p"}}',
        preconditions: NONE,
      },
    ],
    [
      Mutation.delete("v1/Pod", "ns", "p", { uid: "u", propagation: "orphan", gracePeriodSeconds: 0 }),
      "delete",
      { kind: POD, object, preconditions: { uid: "u", resourceVersion: null }, propagation: "orphan", gracePeriodSeconds: 0 },
    ],
    [
      Mutation.deleteCollection("v1/Pod", "ns", { labelSelector: "a=b" }),
      "delete-collection",
      { kind: POD, namespace: "ns", labelSelector: "a=b", propagation: null },
    ],
    [Mutation.event(about), "event", wiredEvent],
  ])) {
    assert.deepEqual(wired(mutation), { action: { tag, val }, onSuccess: null, onFailure: null, tolerate: [] });
  }
  const told = wired(Mutation.delete("v1/Pod", "ns", "p", { onSuccess: about, onFailure: about, tolerate: ["not-found"] }));
  assert.deepEqual([told?.onSuccess, told?.onFailure, told?.tolerate], [wiredEvent, wiredEvent, ["not-found"]]);
});

test("an outcome is made step by step or is a plain object, and nothing is nothing", () => {
  const nothing = { needs: [], steps: [], requeueAfterMs: null, state: [], observations: [] };
  assert.deepEqual(wireOutcome(undefined), nothing);
  assert.deepEqual(wireOutcome({}), nothing);
  assert.deepEqual(wireOutcome(new Outcome().step(Step.parallel([undefined, null, false]))), nothing);
  assert.deepEqual(wireOutcome({ steps: [{ order: "parallel", mutations: [] }] }), nothing);
  const made = new Outcome()
    .step(Step.slowStart([Mutation.update("v1/Pod", {})], { always: true }))
    .requeueAfter(2000.2)
    .requeueAfter(3000)
    .keep("a", "1")
    .forget("b")
    .observe("m", ["x"], 0.5);
  const wire = wireOutcome(made);
  assert.deepEqual([wire.steps[0]?.order, wire.steps[0]?.always, wire.requeueAfterMs], ["slow-start", true, 2001]);
  assert.deepEqual(wire.state, [{ name: "a", value: "1" }, { name: "b", value: null }]);
  assert.deepEqual(wire.observations, [{ metric: "m", labels: ["x"], value: 0.5 }]);
});

test("numbers stay in the contract's range, and needs too", () => {
  assert.equal(wireOutcome({ requeueAfterMs: 1e12 }).requeueAfterMs, 2_147_483_647);
  assert.equal(wireNeeds(Array.from({ length: 300 }, (_, i) => Need.rawPath(`/${i}`))).needs.length, 256);
});

test("what does not fit is told with its place", () => {
  /** @type {any} */
  const any = { ...Mutation.update("v1/Pod", {}) };
  for (const [wrong, message] of /** @type {[any, RegExp][]} */ ([
    [5, /reconcile returned 5 instead of an Outcome/],
    [Promise.resolve(), /must not be async/],
    [{ requeueAfter: 5 }, /an outcome has no requeueAfter/],
    [{ requeueAfterMs: "5" }, /outcome.requeueAfterMs must be a number, got "5"/],
    [{ requeueAfterMs: -1 }, /must not be negative/],
    [{ steps: [{ order: "slowStart", mutations: [any] }] }, /outcome.steps\[0\].order must be one of sequential, .* got "slowStart"/],
    [{ steps: [Step.parallel([any, { ...any, verb: "replace" }])] }, /outcome.steps\[0\].mutations\[1\].verb must be one of/],
    [{ steps: [Step.parallel([{ ...any, object: "{}" }])] }, /mutations\[0\].object must be an object, got "{}"/],
    [{ steps: [Step.parallel([{ ...any, tolerate: ["NotFound"] }])] }, /tolerate must be one of/],
    [{ steps: [Step.parallel([{ ...any, onSuccess: "done" }])] }, /onSuccess must be an Event/],
    [{ steps: [Step.parallel([Mutation.delete("v1/Pod", "ns", /** @type {any} */ (undefined))])] }, /mutations\[0\].name must be a string/],
    [{ state: [{ name: "a", value: 1 }] }, /outcome.state\[0\].value must be a string, got 1/],
    [{ observations: [{ metric: "m", labels: [], value: NaN }] }, /outcome.observations\[0\].value must be a number/],
  ])) {
    assert.throws(() => wireOutcome(wrong), { name: "TypeError", message });
  }
  assert.throws(() => wireKey(/** @type {any} */ ({ kind: Kind.of("v1/Pod"), name: "p" }), 2), /keysOf: key 2: queue must be a string/);
});
