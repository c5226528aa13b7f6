// The world of a fixture is what the host would show, and outcomes look as cases say.

import assert from "node:assert/strict";
import { test } from "node:test";

import { event, Mutation, Need, Outcome, Retry, Step, Terminal } from "pintle";
import { Fixture } from "pintle/testing";
import { segments } from "../src/testing/manifest.js";
import { duration } from "../src/testing/render.js";
import { parseSelector, selects } from "../src/testing/selector.js";

const MANIFEST = `
watches:
  - kind: v1/ConfigMap
    whole: true
    fields: [metadata.labels]
    labelSelector: "!hidden"
  - kind: v1/Pod
    namespace: default
    fields: [spec.containers.name, "metadata.annotations['a.b/c']"]
    indexes: [{name: node, field: spec.nodeName}, {name: port, field: spec.containers.ports}]
  - kind: v1/Service
    selects: {field: spec.selector, form: map}
    fields: [metadata.ownerReferences]
queues: [{name: first}, {name: second}]
config: {size: {default: 3}, name: {}}
`;

const OBJECTS = `
objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: ns}, data: {x: "1"}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns, labels: {app: web}}, data: {x: "2"}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns, labels: {hidden: "yes"}}}
  - apiVersion: v1
    kind: Pod
    metadata: {name: p, namespace: default, annotations: {a.b/c: "1", other: "2"}, ownerReferences: [{uid: o, controller: true}]}
    spec: {nodeName: n1, containers: [{name: x, image: i, ports: [80, 81]}]}
  - {apiVersion: v1, kind: Pod, metadata: {name: q, namespace: default}, spec: {nodeName: n2, containers: []}}
  - {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: elsewhere}}
  - {apiVersion: v1, kind: Service, metadata: {name: s, namespace: ns, ownerReferences: [{uid: o}]}, spec: {selector: {app: web}}}
  - {apiVersion: v1, kind: Service, metadata: {name: t, namespace: ns}, spec: {selector: {}}}
`;

/**
 * @param {import("pintle").Reconcile} reconcile
 * @param {string} [more] More of the input.
 */
const run = (reconcile, more = "") =>
  Fixture.parse(MANIFEST, `key: {kind: v1/ConfigMap, namespace: ns, name: a}\n${OBJECTS}\n${more}`).run(reconcile);

/**
 * What a function finds in the world.
 * @param {(lister: import("pintle").Lister) => unknown} read
 * @param {string} [more]
 */
function seen(read, more) {
  /** @type {unknown} */
  let found;
  run((_, lister) => void (found = read(lister)), more);
  return found;
}

const names = (/** @type {import("pintle").AnyObject[]} */ objects) => objects.map(({ metadata }) => `${metadata?.namespace}/${metadata?.name}`);

test("reads give projections, whole objects where that is declared, and only what the watch has", () => {
  assert.deepEqual(seen((lister) => lister.get("v1/ConfigMap", "ns", "a")), {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "a", namespace: "ns", labels: { app: "web" }, uid: "uid-a", resourceVersion: "1" },
    data: { x: "2" },
  });
  assert.deepEqual(seen((lister) => lister.get("v1/Pod", "default", "p")), {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "default", annotations: { "a.b/c": "1" }, uid: "uid-p", resourceVersion: "1" },
    spec: { containers: [{ name: "x" }] },
  });
  assert.equal(seen((lister) => lister.get("v1/ConfigMap", "ns", "c")), undefined);
  assert.equal(seen((lister) => lister.get("v1/Pod", "elsewhere", "p")), undefined);
  const listed = seen((lister) => lister.list("v1/ConfigMap").map(({ metadata, data }) => [metadata?.labels, data]));
  assert.deepEqual(listed, [[{ app: "web" }, undefined], [undefined, undefined]]);
  assert.deepEqual(seen((lister) => lister.list("v1/ConfigMap", { whole: true }).map(({ data }) => data.x)), ["2", "1"]);
});

test("lists select by every condition", () => {
  const list = (/** @type {string} */ kind, /** @type {import("pintle").Query} */ query) => {
    const found = seen((lister) => [names(lister.list(kind, query)), lister.count(kind, query)]);
    const [all, count] = /** @type {[string[], number]} */ (found);
    assert.equal(all.length, count);
    return all;
  };
  assert.deepEqual(list("v1/ConfigMap", {}), ["ns/a", "ns/b"]);
  assert.deepEqual(list("v1/ConfigMap", { namespace: "other" }), []);
  assert.deepEqual(list("v1/ConfigMap", { labelSelector: "app in (web,db)" }), ["ns/a"]);
  assert.deepEqual(list("v1/Pod", { index: { name: "node", value: "n1" } }), ["default/p"]);
  assert.deepEqual(list("v1/Pod", { index: { name: "port", value: "81" } }), ["default/p"]);
  assert.deepEqual(list("v1/Pod", { owner: { controller: "o" } }), ["default/p"]);
  assert.deepEqual(list("v1/Pod", { owner: { controllerOrOrphan: "x" } }), ["default/q"]);
  assert.deepEqual(list("v1/Service", { owner: { controller: "o" } }), []);
  assert.deepEqual(list("v1/Service", { owner: { any: "o" } }), ["ns/s"]);
});

test("the rest of the lister is what the input says", () => {
  const more = `
now: 2026-02-03T04:05:06Z
state: {a: x}
attempt: 2
config: {name: n}
failures: [{verb: create, kind: v1/Pod, object: {name: p}, code: 409, reason: Conflict, message: m}]`;
  assert.deepEqual(
    seen((lister) => [lister.now(), lister.state("a"), lister.state("b"), lister.attempt(), lister.config()], more),
    ["2026-02-03T04:05:06Z", "x", undefined, 2, { size: 3, name: "n" }],
  );
  assert.deepEqual(
    seen((lister) => lister.failures().map(({ verb, kind, object, subresource }) => [verb, `${kind}`, object, subresource]), more),
    [["create", "v1/Pod", { namespace: "", name: "p" }, undefined]],
  );
  assert.deepEqual(seen((lister) => names(lister.selecting("v1/Service", "ns", { app: "web", x: "y" }))), ["ns/s"]);
  assert.deepEqual(seen((lister) => names(lister.dependents("o"))), ["default/p", "ns/s"]);
  assert.deepEqual(seen((lister) => lister.byUid("uid-s")?.kind), "Service");
  /** @type {string[]} */
  const queues = [];
  run((key) => void queues.push(key.queue));
  assert.deepEqual(queues, ["first"]);
});

test("what the host would end the run for fails it, even if it is caught", () => {
  for (const [read, message] of /** @type {[(lister: import("pintle").Lister) => unknown, RegExp][]} */ ([
    [(lister) => lister.get("v1/Secret", "ns", "s"), /fault: the manifest does not watch v1\/Secret/],
    [(lister) => lister.list("v1/Pod", { whole: true }), /fault: the watch of v1\/Pod does not declare `whole`/],
    [(lister) => lister.list("v1/Pod", { index: { name: "zone", value: "a" } }), /declares no index "zone"/],
    [(lister) => lister.list("v1/Pod", { labelSelector: "a b" }), /fault: label selector "a b" does not parse/],
    [(lister) => lister.selecting("v1/Pod", "default", {}), /does not declare `selects`/],
    [(lister) => lister.resources(), /discovery: true/],
  ])) {
    const caught = (/** @type {import("pintle").Lister} */ lister) => {
      try {
        read(lister);
      } catch {
        // As a careless controller does.
      }
    };
    assert.throws(() => run((_, lister) => caught(lister)), message);
  }
  assert.throws(() => run((_, lister) => void lister.list("v1/Pod", /** @type {any} */ ({ labels: "a=b" }))), /a query has no labels/);
  assert.throws(() => run(() => void JSON.parse("{")), SyntaxError);
  assert.throws(() => run(() => undefined, "object: []"), /unknown field object/);
});

test("needs are answered until there are no more", () => {
  const live = `
live: [{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default, labels: {a: b}}, spec: {nodeName: live}}]
raw: {/version: {major: "1"}}`;
  const shown = run((_, lister) => {
    const pod = lister.live("v1/Pod", "default", "p");
    const gone = lister.live("v1/Pod", "default", "q");
    const list = lister.ask(Need.liveList("v1/Pod", { namespace: "default", labelSelector: "a=b", limit: 5 }));
    const raw = lister.ask(Need.rawPath("/version"));
    const missing = lister.ask(Need.rawPath("/nothing"));
    return new Outcome().keep("seen", JSON.stringify([pod?.spec.nodeName, gone ?? null, list.ok && JSON.parse(list.text).length, raw.ok, missing.ok]));
  }, live);
  assert.deepEqual(shown, {
    asked: [
      "get v1/Pod default/p",
      "get v1/Pod default/q",
      'list v1/Pod in "default" with "a=b", at most 5',
      "get /version",
      "get /nothing",
    ],
    steps: [],
    state: { seen: '["live",null,1,true,false]' },
  });
  let n = 0;
  assert.throws(() => run((_, lister) => void lister.ask(Need.rawPath(`/${(n += 1)}`))), /still asks for reads after 8 rounds/);
});

test("outcomes look as the expected files do", () => {
  const shown = run((key, lister) => {
    const map = lister.get("v1/ConfigMap", key.namespace, key.name) ?? {};
    const told = event(map, "warning", "R", "m {error}");
    const pod = Mutation.create("v1/Pod", "ns", { metadata: { generateName: "x-" } }, { onFailure: told, tolerate: ["already-exists"] });
    return new Outcome()
      .step(Step.slowStart([pod, pod, Mutation.update("v1/ConfigMap", { ...map, data: { y: "1" } })]))
      .step(
        Step.sequential(
          [
            Mutation.patch("v1/ConfigMap", "ns", "a", "strategic-merge", {}, { uid: "u" }),
            Mutation.delete("v1/Pod", "ns", "p", { resourceVersion: "1", propagation: "foreground", gracePeriodSeconds: 0 }),
            Mutation.deleteCollection("v1/Pod", "ns"),
            Mutation.event(told),
          ],
          { always: true },
        ),
      )
      .requeueAfter(90_000)
      .forget("x")
      .observe("n", ["a", "b"], 1);
  });
  assert.deepEqual(shown, {
    steps: [
      {
        order: "slow-start",
        mutations: [
          {
            create: "v1/Pod ns",
            object: { metadata: { generateName: "x-" } },
            onFailure: "Warning R on v1/ConfigMap ns/a (uid-a): m {error}",
            tolerate: ["already-exists"],
            times: 2,
          },
          { update: "v1/ConfigMap ns/a", changes: { data: { x: null, y: "1" } } },
        ],
      },
      {
        order: "sequential",
        always: true,
        mutations: [
          { patch: "v1/ConfigMap ns/a", form: "strategic-merge", if: { uid: "u" }, body: {} },
          { delete: "v1/Pod ns/p", if: { resourceVersion: "1" }, propagation: "foreground", gracePeriodSeconds: 0 },
          { deleteCollection: "v1/Pod ns" },
          { event: "Warning R on v1/ConfigMap ns/a (uid-a): m {error}" },
        ],
      },
    ],
    requeueAfter: "90s",
    state: { x: null },
    observations: ["n{a,b} 1"],
  });
  assert.deepEqual(run(() => { throw new Retry("later", 1500); }), { retry: "later", after: "1.5s" });
  assert.deepEqual(run(() => { throw new Terminal("never"); }), { terminal: "never" });
});

test("times and paths are written as elsewhere", () => {
  assert.deepEqual([0, 250, 1000, 1500, 90_000].map(duration), ["0ns", "250ms", "1s", "1.5s", "90s"]);
  assert.deepEqual(segments("metadata.annotations['a.b/c'].d"), ["metadata", "annotations", "a.b/c", "d"]);
  assert.throws(() => segments("a..b"), /not a field path/);
});

test("selectors match as kubectl says", () => {
  for (const [selector, labels, expected] of /** @type {[string, Record<string, string>, boolean][]} */ ([
    ["", { a: "b" }, true],
    ["a=b", { a: "b" }, true],
    ["a==b", { a: "c" }, false],
    ["a!=b", {}, true],
    ["a in (b, c),d", { a: "c", d: "x" }, true],
    ["a in (b,c),d", { a: "c" }, false],
    ["a notin (b,c)", { a: "b" }, false],
    ["a notin (b,c)", {}, true],
    ["!a", { a: "b" }, false],
    ["!a,b", { b: "" }, true],
    ["toString", {}, false],
  ])) {
    assert.equal(selects(parseSelector(selector), labels), expected, `${selector} on ${JSON.stringify(labels)}`);
  }
  for (const text of ["a b", "a in b", "in (b)", "=b", "a in (b", "a,,b"]) {
    assert.throws(() => parseSelector(text), /does not parse/, text);
  }
});
