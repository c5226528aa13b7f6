// What authors return becomes the contract's shape, and what does not fit is told with its place.

import assert from "node:assert/strict";
import { test } from "node:test";

import { event, Lister, Need, Needs, Mutation, Outcome, Retry, Step, Terminal, tick } from "pintle";
import { wireError, wireNeed, wireNeeds, wireOutcome, wireWake } from "../src/wire.js";
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
  const nothing = { needs: [], steps: [], requeueAfterMs: null, state: [], observations: [], wake: [], runLabels: [], error: null };
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
  assert.deepEqual(wire.observations, [{ metric: "m", labels: ["x"], value: 0.5, at: { tag: "now" } }]);
});

test("keys to wake, moments and labels of the run have the contract's shape", () => {
  const pod = Mutation.delete("v1/Pod", "ns", "p");
  const outcome = new Outcome().step(Step.parallel([pod, pod]));
  outcome
    .observe("m", [], 1, { done: outcome.lastPlace() })
    .observe("m", [], 1, { failed: { step: 0, position: 0 } })
    .wake({ queue: "q", kind: "v1/Pod", namespace: "ns", name: "p" })
    .wake(tick("q"), 1500.5)
    .runLabel("a", "1")
    .runLabel("a", "2");
  const wire = wireOutcome(outcome);
  assert.deepEqual(
    wire.observations.map(({ at }) => at),
    [
      { tag: "done", val: { step: 0, position: 1 } },
      { tag: "failed", val: { step: 0, position: 0 } },
    ],
  );
  assert.deepEqual(wire.wake, [
    { key: { queue: "q", kind: POD, object: { namespace: "ns", name: "p" } }, afterMs: null },
    { key: { queue: "q", kind: { group: "pintle", version: "v1", name: "Tick" }, object: { namespace: "", name: "q" } }, afterMs: 1501 },
  ]);
  assert.deepEqual(wire.runLabels, [["a", "2"]]);
  // What keysOf returns has the same form.
  assert.deepEqual(wireWake({ queue: "q", kind: "v1/Pod", name: "p", afterMs: 3 }, "key"), {
    key: { queue: "q", kind: POD, object: { namespace: "", name: "p" } },
    afterMs: 3,
  });
});

test("an outcome has an error in the shape of one that is thrown", () => {
  const outcome = new Outcome().step(Step.parallel([Mutation.delete("v1/Pod", "ns", "p")]));
  const wire = wireOutcome(outcome.fail(new Terminal("never")).fail(new Retry("later", 1500.5)));
  assert.deepEqual([wire.error, wire.steps.length], [{ tag: "retry", val: { message: "later", afterMs: 1501 } }, 1]);
  assert.deepEqual(wireOutcome({ error: new Retry("later") }).error, { tag: "retry", val: { message: "later", afterMs: null } });
  assert.deepEqual(wireOutcome({ error: new Terminal("never") }).error, { tag: "terminal", val: "never" });
  for (const error of [new Retry("later", 0), new Terminal("never")]) {
    assert.deepEqual(wireOutcome(new Outcome().fail(error)).error, wireError(error, "what reconcile throws"));
  }
});

test("places are those of the steps that are left", () => {
  const pod = Mutation.delete("v1/Pod", "ns", "p");
  const wire = wireOutcome({
    steps: [{ order: "parallel", mutations: [] }, Step.parallel([pod]), { order: "parallel", mutations: [] }, Step.parallel([pod])],
    observations: [1, 3].map((step) => ({ metric: "m", labels: [], value: 1, at: { done: { step, position: 0 } } })),
  });
  assert.deepEqual(
    wire.observations.map(({ at }) => at),
    [0, 1].map((step) => ({ tag: "done", val: { step, position: 0 } })),
  );
});

test("every need has the contract's shape, and equal ones have equal texts", () => {
  const object = { namespace: "ns", name: "p" };
  const request = { authority: "a", request: "PEM", usages: ["client auth"], notBefore: "b", notAfter: "c" };
  const review = { group: "authorization.k8s.io", version: "v1", name: "SubjectAccessReview" };
  const list = { kind: POD, namespace: "", labelSelector: null, fieldSelector: null, detail: "metadata", limit: 500 };
  for (const [make, tag, val] of /** @type {[() => import("pintle").Need, string, any][]} */ ([
    [() => Need.liveObject("v1/Pod", "ns", "p"), "live-object", { kind: POD, object, subresource: null }],
    [() => Need.liveObject("v1/Pod", "ns", "p", { subresource: "scale" }), "live-object", { kind: POD, object, subresource: "scale" }],
    [() => Need.liveList("v1/Pod"), "live-list", list],
    [
      () => Need.liveList("v1/Pod", { namespace: "ns", labelSelector: "a=b", fieldSelector: "c=d", detail: "whole", limit: 5 }),
      "live-list",
      { kind: POD, namespace: "ns", labelSelector: "a=b", fieldSelector: "c=d", detail: "whole", limit: 5 },
    ],
    [() => Need.rawPath("/version"), "raw-path", "/version"],
    [
      () => Need.review(`authorization.k8s.io/v1/${review.name}`, "", { spec: { user: "ann" } }),
      "review",
      { kind: review, namespace: "", object: '{"spec":{"user":"ann"}}' },
    ],
    [() => Need.signJwt("key", { sub: "ann" }), "sign-jwt", { key: "key", claims: '{"sub":"ann"}' }],
    [() => Need.signCertificate(request), "sign-certificate", request],
    [() => Need.call("desk", "look-up", ["ann"]), "call", { endpoint: "desk", operation: "look-up", body: '["ann"]', timeoutMs: null }],
    [
      () => Need.call("desk", "look-up", null, { timeoutMs: 30_000 }),
      "call",
      { endpoint: "desk", operation: "look-up", body: "null", timeoutMs: 30_000 },
    ],
  ])) {
    assert.deepEqual(wireNeed(make(), "need"), { tag, val });
    assert.equal(JSON.stringify(wireNeed(make(), "need")), JSON.stringify(wireNeed(make(), "need")));
  }
  assert.deepEqual(wireNeed(Need.discovery(), "need"), { tag: "discovery" });
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
    [
      { observations: [{ metric: "m", labels: [], value: 1, at: { done: { step: 0, position: 0 } } }] },
      /outcome.observations\[0\].at is about steps\[0\].mutations\[0\], which is not there/,
    ],
    [
      { steps: [Step.parallel([any])], observations: [{ metric: "m", labels: [], value: 1, at: { failed: { step: 0, position: 1 } } }] },
      /is about steps\[0\].mutations\[1\]/,
    ],
    [{ observations: [{ metric: "m", labels: [], value: 1, at: "done" }] }, /at must be \{done: place\} or \{failed: place\}, got "done"/],
    [{ wakes: [{ kind: "v1/Pod", name: "p" }] }, /outcome.wakes\[0\].queue must be a string/],
    [{ wakes: [{ queue: "q", kind: "Pod", name: "p" }] }, /"Pod" is not a kind/],
    [{ wakes: [{ queue: "q", kind: "v1/Pod", name: "p", afterMs: -1 }] }, /outcome.wakes\[0\].afterMs must not be negative/],
    [{ runLabels: { a: 1 } }, /outcome.runLabels.a must be a string, got 1/],
    [{ error: "late" }, /outcome.error must be a Retry or a Terminal, got "late"/],
    [{ error: new RangeError("late") }, /outcome.error must be a Retry or a Terminal, got RangeError: late/],
    [new Outcome().fail(new Needs([])), /outcome.error must be a Retry or a Terminal, got Needs: 0 reads/],
    [{ error: new Retry("late", -1) }, /afterMs of a Retry must not be negative, got -1/],
    [{ needs: ["discovery"] }, /outcome.needs\[0\] must be a Need, .* got "discovery"/],
    [{ needs: [Need.liveList("v1/Pod", { limit: 0 })] }, /outcome.needs\[0\]: limit must be a whole number from 1 to 2147483647, got 0/],
    [{ needs: [Need.liveList("v1/Pod", { detail: /** @type {any} */ ("all") })] }, /detail must be one of metadata, projection, whole, got "all"/],
    [{ needs: [Need.signJwt("key", /** @type {any} */ ("{}"))] }, /claims must be an object, got "{}"/],
    [{ needs: [Need.call("desk", "look-up", undefined)] }, /body must become JSON, got undefined/],
    [{ needs: [Need.call("desk", "look-up", {}, { timeoutMs: 30_001 })] }, /timeoutMs must be at most 30000, got 30001/],
  ])) {
    assert.throws(() => wireOutcome(wrong), { name: "TypeError", message });
  }
  const wrong = /** @type {any} */ ({ kind: Kind.of("v1/Pod"), name: "p" });
  assert.throws(() => wireWake(wrong, "keysOf: key 2"), /keysOf: key 2.queue must be a string/);
});

test("a query by a uid alone says what an owner is", () => {
  const lister = new Lister(/** @type {any} */ ({ list: () => [] }));
  assert.throws(() => lister.list("v1/Pod", { owner: /** @type {any} */ ("uid") }), /owner of a query is \{controller: uid\}/);
});
