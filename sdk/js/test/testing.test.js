// The world of a fixture is what the host would show, and outcomes look as cases say.

import assert from "node:assert/strict";
import { test } from "node:test";

import { event, Mutation, Need, Needs, Outcome, Retry, Step, Terminal, tick } from "pintle";
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
  - kind: policy/v1/PodDisruptionBudget
    selects: {field: spec.selector, form: labelSelector, empty: everything}
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
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all, namespace: ns}, spec: {selector: {}}}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: none, namespace: ns}, spec: {}}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: db, namespace: ns}, spec: {selector: {matchLabels: {app: db}}}}
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

test("a duration is in milliseconds", () => {
  const manifest = MANIFEST.replace("config: {", "config: {every: {type: duration, default: 1h30m}, ");
  const every = (/** @type {string} */ given) => {
    let found;
    const input = `key: {kind: v1/Pod, name: a}\nconfig: ${given}`;
    Fixture.parse(manifest, input).run((_, lister) => {
      found = lister.config().every;
      return undefined;
    });
    return found;
  };
  assert.deepEqual(["{}", "{every: 1.5s20ms}", "{every: 1µs}", '{every: "0"}', "{every: 1.1s}"].map(every), [5_400_000, 1520, 1, 0, 1100]);
  for (const wrong of ["", "soon", "1", "s", "1s!", "-1s", "1.2.3s"]) {
    assert.throws(() => every(`{every: "${wrong}"}`), /config: every: ".*" is not a duration/, wrong);
  }
});

test("the rest of the lister is what the input says", () => {
  const more = `
now: 2026-02-03T04:05:06Z
uptime: 12.5
state: {a: x}
attempt: 2
config: {name: n}
failures: [{verb: create, kind: v1/Pod, object: {name: p}, code: 409, reason: Conflict, message: m}]`;
  assert.deepEqual(
    seen((lister) => [lister.now(), lister.uptime(), lister.state("a"), lister.state("b"), lister.attempt(), lister.config()], more),
    ["2026-02-03T04:05:06Z", 12.5, "x", undefined, 2, { size: 3, name: "n" }],
  );
  assert.deepEqual(
    seen((lister) => lister.failures().map(({ verb, kind, object, subresource }) => [verb, `${kind}`, object, subresource]), more),
    [["create", "v1/Pod", { namespace: "", name: "p" }, undefined]],
  );
  assert.deepEqual(seen((lister) => names(lister.selecting("v1/Service", "ns", { app: "web", x: "y" }))), ["ns/s"]);
  // An empty selector matches nothing, or everything where the watch declares that; none at all never does.
  const budgets = (/** @type {import("pintle").Lister} */ lister) => names(lister.selecting("policy/v1/PodDisruptionBudget", "ns", { app: "web" }));
  assert.deepEqual(seen(budgets), ["ns/all"]);
  assert.deepEqual(seen((lister) => names(lister.dependents("o"))), ["default/p", "ns/s"]);
  assert.deepEqual(seen((lister) => lister.byUid("uid-s")?.kind), "Service");
  /** @type {string[]} */
  const queues = [];
  run((key) => void queues.push(key.queue));
  assert.deepEqual(queues, ["first"]);
});

test("the resources of one kind are those of all versions, as of the last discovery", () => {
  const manifest = `${MANIFEST}\ndiscovery: true`;
  const resource = (/** @type {string} */ kind, /** @type {string} */ plural) => `{kind: ${kind}, plural: ${plural}, namespaced: true, verbs: [get]}`;
  const old = [resource("apps/v1beta1/Deployment", "deployments"), resource("apps/v1/Deployment", "deployments")];
  const others = [resource("apps/v1/ReplicaSet", "replicasets"), resource("example.com/v1/Deployment", "plans"), resource("v1/Pod", "pods")];
  const input = `
key: {kind: v1/ConfigMap, namespace: ns, name: a}
resources: [${[...old, ...others].join(", ")}]
discovery: {resources: [${resource("apps/v2/Deployment", "deployments")}]}`;
  const found = (/** @type {string} */ group, /** @type {string} */ kind, again = false) => {
    /** @type {import("pintle").ApiResource[]} */
    let resources = [];
    Fixture.parse(manifest, input).run((_, lister) => {
      if (again) {
        lister.ask(Need.discovery());
      }
      resources = lister.resourcesOf(group, kind);
      return undefined;
    });
    return resources.map((one) => `${one.kind} ${one.plural}`);
  };
  assert.deepEqual(found("apps", "Deployment"), ["apps/v1beta1/Deployment deployments", "apps/v1/Deployment deployments"]);
  assert.deepEqual(found("example.com", "Deployment"), ["example.com/v1/Deployment plans"]);
  assert.deepEqual(found("", "Pod"), ["v1/Pod pods"]);
  assert.deepEqual(found("", "Deployment"), []);
  assert.deepEqual(found("apps", "deployments"), []);
  assert.deepEqual(found("apps", "Deployment", true), ["apps/v2/Deployment deployments"]);
});

test("what the host would end the run for fails it, even if it is caught", () => {
  for (const [read, message] of /** @type {[(lister: import("pintle").Lister) => unknown, RegExp][]} */ ([
    [(lister) => lister.get("v1/Secret", "ns", "s"), /fault: the manifest does not watch v1\/Secret/],
    [(lister) => lister.list("v1/Pod", { whole: true }), /fault: the watch of v1\/Pod does not declare `whole`/],
    [(lister) => lister.list("v1/Pod", { index: { name: "zone", value: "a" } }), /declares no index "zone"/],
    [(lister) => lister.list("v1/Pod", { labelSelector: "a b" }), /fault: label selector "a b" does not parse/],
    [(lister) => lister.selecting("v1/Pod", "default", {}), /does not declare `selects`/],
    [(lister) => lister.resources(), /discovery: true/],
    [(lister) => lister.resourcesOf("apps", "Deployment"), /discovery: true/],
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
  for (const [more, message] of /** @type {[string, RegExp][]} */ ([
    ["object: []", /unknown field object/],
    ["uptime: soon", /uptime must be seconds, got "soon"/],
    ["uptime: -1", /uptime must be seconds, got -1/],
    ["calls: {}", /calls of the input must be a list/],
    ["calls: [{endpoint: e}]", /calls\[0\] of the input needs operation/],
    ["reviews: [{kind: v1/Review, status: {}, verdict: {}}]", /reviews\[0\] of the input has an unknown field verdict/],
    ["subresources: [{kind: Pod, name: p, subresource: s, answer: {}}]", /"Pod" is not a kind/],
  ])) {
    assert.throws(() => run(() => undefined, more), message);
  }
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

/**
 * What a controller asks for, and the answers or refusals that it gets.
 * @param {import("pintle").Need[]} needs
 * @param {string} more
 */
function asked(needs, more) {
  /** @type {any[]} */
  let answers = [];
  let isFirst = true;
  const shown = run((_, lister) => {
    if (isFirst) {
      isFirst = false;
      throw new Needs(needs);
    }
    answers = needs.map((need) => {
      const answer = lister.ask(need);
      return answer.ok ? answer.text : `${answer.error.code} ${answer.error.reason}: ${answer.error.message}`;
    });
  }, more);
  return { shown: shown["asked"], answers };
}

test("live lists select by fields, and show as much as they are asked for", () => {
  const live = `
live:
  - apiVersion: v1
    kind: Pod
    metadata: {name: p, namespace: default, labels: {a: b}}
    spec: {nodeName: n1, priority: 5, containers: [{name: c, image: i}]}
  - {apiVersion: v1, kind: Pod, metadata: {name: q, namespace: default}, spec: {nodeName: n2}}
  - {apiVersion: v1, kind: Pod, metadata: {name: r, namespace: default}}`;
  const list = (/** @type {import("pintle").LiveListOptions} */ options) =>
    Need.liveList("v1/Pod", { namespace: "default", limit: 9, ...options });
  const { shown, answers } = asked(
    [
      list({ fieldSelector: "spec.nodeName=n1" }),
      list({ fieldSelector: "spec.nodeName=n1,spec.priority==5", detail: "projection" }),
      list({ fieldSelector: "spec.nodeName!=n1", limit: 1, detail: "whole" }),
      list({ fieldSelector: "spec.nodeName=" }),
      list({ fieldSelector: "spec.nodeName" }),
      list({ labelSelector: "a b" }),
    ],
    live,
  );
  assert.deepEqual(shown, [
    'list v1/Pod in "default" with "" and fields "spec.nodeName=n1", at most 9',
    'list v1/Pod in "default" with "" and fields "spec.nodeName=n1,spec.priority==5", at most 9, as projections',
    'list v1/Pod in "default" with "" and fields "spec.nodeName!=n1", at most 1, whole',
    'list v1/Pod in "default" with "" and fields "spec.nodeName=", at most 9',
    'list v1/Pod in "default" with "" and fields "spec.nodeName", at most 9',
    'list v1/Pod in "default" with "a b", at most 9',
  ]);
  const [pod, projection, others, without, ...refused] = answers.map((answer) => (answer.startsWith("[") ? JSON.parse(answer) : answer));
  const metadata = { name: "p", namespace: "default", labels: { a: "b" }, uid: "uid-p", resourceVersion: "1" };
  assert.deepEqual(pod, [{ apiVersion: "v1", kind: "Pod", metadata }]);
  const { labels, ...always } = metadata;
  assert.deepEqual([projection[0].metadata, projection[0].spec], [always, { containers: [{ name: "c" }] }], JSON.stringify(labels));
  assert.deepEqual([others.length, others[0].spec], [1, { nodeName: "n2" }]);
  assert.deepEqual(names(without), ["default/r"]);
  assert.deepEqual(refused, [
    '400 BadRequest: "spec.nodeName" is not a term of a field selector: write spec.nodeName=n1',
    '400 BadRequest: label selector "a b" does not parse',
  ]);
  const unwatched = Need.liveList("v1/Secret", { detail: "projection" });
  assert.throws(() => asked([unwatched], ""), /fault: a live list asks for the projection of v1\/Secret, which the manifest does not watch/);
});

test("subresources, reviews, signatures and calls have the answers of the case", () => {
  const more = `
subresources:
  - {kind: apps/v1/Deployment, namespace: ns, name: web, subresource: scale, answer: {spec: {replicas: 3}}}
reviews:
  - {kind: authentication.k8s.io/v1/TokenReview, spec: {token: t, audiences: [a]}, status: {authenticated: true}}
  - {kind: authorization.k8s.io/v1/LocalSubjectAccessReview, namespace: ns, status: {allowed: false}}
signatures:
  - {by: key, claims: {sub: bob}, answer: for.bob.x}
  - {by: key, error: {code: 0, reason: NotGranted}}
  - {by: authority, answer: CERTIFICATE}
calls:
  - {endpoint: desk, operation: look-up, body: {name: ann}, answer: {place: third floor}}
  - {endpoint: desk, operation: look-up, error: {code: 404, reason: NotFound, message: nobody}}`;
  const scale = (/** @type {string} */ name, subresource = "scale") => Need.liveObject("apps/v1/Deployment", "ns", name, { subresource });
  const token = (/** @type {object} */ spec) => Need.review("authentication.k8s.io/v1/TokenReview", "", { spec });
  const validity = { notBefore: "2026-01-01T00:00:00Z", notAfter: "2026-01-02T00:00:00Z" };
  const request = { authority: "authority", request: "PEM", usages: ["client auth"], ...validity };
  const { shown, answers } = asked(
    [
      scale("web"),
      scale("web", "status"),
      token({ token: "t", audiences: ["a"], more: 1 }),
      token({ token: "t", audiences: ["a", "b"] }),
      Need.review("authorization.k8s.io/v1/LocalSubjectAccessReview", "ns", {}),
      Need.review("authorization.k8s.io/v1/LocalSubjectAccessReview", "other", {}),
      Need.signJwt("key", { sub: "bob", aud: "x" }),
      Need.signJwt("key", { sub: "ann" }),
      Need.signJwt("other", {}),
      Need.signCertificate(request),
      Need.call("desk", "look-up", { name: "ann", floor: 3 }, { timeoutMs: 2000 }),
      Need.call("desk", "look-up", { name: "bob" }),
      Need.call("desk", "move", {}),
    ],
    more,
  );
  assert.deepEqual(shown.slice(0, 5), [
    "get apps/v1/Deployment/scale ns/web",
    "get apps/v1/Deployment/status ns/web",
    { review: "authentication.k8s.io/v1/TokenReview", object: { spec: { token: "t", audiences: ["a"], more: 1 } } },
    { review: "authentication.k8s.io/v1/TokenReview", object: { spec: { token: "t", audiences: ["a", "b"] } } },
    { review: "authorization.k8s.io/v1/LocalSubjectAccessReview in ns", object: {} },
  ]);
  const { authority, ...rest } = request;
  assert.deepEqual(shown.slice(6, 12), [
    { "sign-jwt": "key", claims: { sub: "bob", aud: "x" } },
    { "sign-jwt": "key", claims: { sub: "ann" } },
    { "sign-jwt": "other", claims: {} },
    { "sign-certificate": authority, ...rest },
    { call: "desk/look-up", body: { name: "ann", floor: 3 }, timeoutMs: 2000 },
    { call: "desk/look-up", body: { name: "bob" } },
  ]);
  assert.deepEqual(answers, [
    '{"spec":{"replicas":3}}',
    "404 NotFound: apps/v1/Deployment/status ns/web; a case has it in `subresources` not found",
    '{"spec":{"token":"t","audiences":["a"],"more":1},"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true}}',
    '404 NotFound: a verdict on authentication.k8s.io/v1/TokenReview {"token":"t","audiences":["a","b"]}; a case has it in `reviews` not found',
    '{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","status":{"allowed":false}}',
    "404 NotFound: a verdict on authorization.k8s.io/v1/LocalSubjectAccessReview undefined; a case has it in `reviews` not found",
    "for.bob.x",
    "0 NotGranted: ",
    "404 NotFound: a signature by other; a case has it in `signatures` not found",
    "CERTIFICATE",
    '{"place":"third floor"}',
    "404 NotFound: nobody",
    "404 NotFound: an answer to desk/move {}; a case has it in `calls` not found",
  ]);
});

test("the short ways give what is in the answers, and retry if the server refuses", () => {
  const more = `
subresources:
  - {kind: apps/v1/Deployment, namespace: ns, name: web, subresource: scale, answer: {spec: {replicas: 3}}}
reviews:
  - {kind: authorization.k8s.io/v1/SubjectAccessReview, spec: {user: ann}, status: {allowed: true}}`;
  const review = "authorization.k8s.io/v1/SubjectAccessReview";
  const shown = run((_, lister) => {
    const scale = lister.liveSubresource("apps/v1/Deployment", "ns", "web", "scale");
    const gone = lister.liveSubresource("apps/v1/Deployment", "ns", "gone", "scale");
    const { allowed } = lister.review(review, "", { spec: { user: "ann" } });
    return new Outcome().keep("found", JSON.stringify([scale?.spec.replicas, gone === undefined, allowed]));
  }, more);
  assert.deepEqual(shown["state"], { found: "[3,true,true]" });
  const refused = run((_, lister) => void lister.review(review, "", { spec: { user: "bob" } }), more);
  assert.match(refused["retry"], /^ask for a SubjectAccessReview: a verdict on .* not found$/);
});

test("a run wakes as many keys as it may", () => {
  const pod = (/** @type {number} */ i) => ({ queue: "first", kind: "v1/Pod", namespace: "ns", name: `p${i}` });
  const crowd = (/** @type {number} */ n) => () => ({ wakes: Array.from({ length: n }, (_, i) => pod(i)) });
  assert.equal(run(crowd(10_000))["wake"].length, 10_000);
  assert.throws(() => run(crowd(10_001)), /fault: the outcome has 10001 keys to wake, more than 10000/);
});

test("a run needs as much as it may", () => {
  const crowd = (/** @type {number} */ n) => {
    const needs = Array.from({ length: n }, (_, i) => Need.rawPath(`/${i}`));
    let isFirst = true;
    return () => {
      const first = isFirst;
      isFirst = false;
      return first ? { needs } : undefined;
    };
  };
  assert.equal(run(crowd(256))["asked"].length, 256);
  assert.throws(() => run(crowd(257)), /fault: the outcome has 257 needs, more than 256/);
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
      .observe("n", ["a", "b"], 1)
      .observe("n", ["a", "c"], 2, { done: { step: 0, position: 2 } })
      .observe("n", ["a", "d"], 2.5, { failed: { step: 1, position: 0 } })
      .wake({ queue: "second", kind: "v1/Pod", namespace: "ns", name: "p" })
      .wake(tick("second"), 1500)
      .runLabel("action", "scaled");
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
    observations: ["n{a,b} 1", "n{a,c} 2 when steps[0].mutations[2] is done", "n{a,d} 2.5 when steps[1].mutations[0] has failed"],
    wake: ["second: v1/Pod ns/p", "second: pintle/v1/Tick second after 1.5s"],
    runLabels: { action: "scaled" },
  });
  assert.deepEqual(run(() => { throw new Retry("later", 1500); }), { retry: "later", after: "1.5s" });
  assert.deepEqual(run(() => { throw new Terminal("never"); }), { terminal: "never" });
  const failed = (/** @type {Retry | Terminal} */ error) => run(() => new Outcome().keep("a", "1").fail(error));
  assert.deepEqual(failed(new Retry("later", 1500)), { steps: [], state: { a: "1" }, error: { retry: "later", after: "1.5s" } });
  assert.deepEqual(failed(new Retry("later")), { steps: [], state: { a: "1" }, error: { retry: "later" } });
  assert.deepEqual(failed(new Terminal("never")), { steps: [], state: { a: "1" }, error: { terminal: "never" } });
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
