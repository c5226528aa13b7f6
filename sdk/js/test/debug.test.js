// A recorded case has the answer to each of its reads. A test of the host writes the file.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Kind, Need } from "pintle";
import { debugCase } from "pintle/testing";

const RECORDED = fileURLToPath(new URL("../../vectors/debug.json", import.meta.url));

test("each read has the recorded answer", () => {
  const owner = { controller: "r" };
  const query = { namespace: "default", labelSelector: "app=web", owner, index: { name: "node", value: "n1" }, whole: true };
  const validity = { notBefore: "2026-01-01T00:00:00Z", notAfter: "2026-01-02T00:00:00Z" };
  const needs = [
    Need.liveObject("v1/Pod", "default", "web"),
    Need.liveObject("v1/Pod", "default", "web", { subresource: "scale" }),
    Need.liveList("v1/Pod", { namespace: "default", labelSelector: "app=web", fieldSelector: "spec.nodeName=n1", detail: "projection", limit: 5 }),
    Need.rawPath("/version"),
    Need.discovery(),
    Need.review("authorization.k8s.io/v1/SubjectAccessReview", "", { spec: { user: "ann" } }),
    Need.signJwt("signer", { sub: "ann" }),
    Need.signCertificate({ authority: "authority", request: "PEM", usages: ["client auth"], ...validity }),
    Need.call("desk", "look-up", { name: "ann" }, { timeoutMs: 2000 }),
  ];
  const returned = debugCase(RECORDED, (key, lister) => {
    assert.deepEqual(key, { queue: "pods", kind: Kind.of("v1/Pod"), namespace: "default", name: "web" });
    assert.deepEqual([new Date(lister.now()).getUTCFullYear(), lister.uptime(), lister.attempt()], [2026, 1.5, 2]);
    assert.deepEqual([lister.state("seen"), lister.state("other"), lister.config()["size"]], ["yes", undefined, 3]);
    const [failure] = lister.failures();
    assert.deepEqual([failure?.verb, String(failure?.kind), failure?.subresource, failure?.code], ["patch", "v1/Pod", "status", 409]);
    assert.equal(lister.get("v1/Pod", "default", "web")?.["spec"].nodeName, "n1");
    assert.equal(lister.get("v1/Pod", "default", "gone"), undefined);
    assert.equal(lister.byUid("uid-web")?.metadata?.name, "web");
    const lists = [lister.list("v1/Pod", query), lister.selecting("v1/Service", "default", { app: "web" }), lister.dependents("r")];
    assert.deepEqual([...lists.map((list) => list.length), lister.count("v1/Pod")], [1, 1, 1, 1]);
    assert.deepEqual(lister.resourcesOf("", "Pod").map(({ plural }) => plural), ["pods"]);
    assert(lister.resources().length > 1);
    const refusals = needs.map((need) => lister.ask(need)).map((answer) => (answer.ok ? "" : answer.error.reason));
    assert.deepEqual(refusals, ["", "NotFound", "", "", "", "", "", "Expired", ""]);
    return { requeueAfterMs: 7 };
  });
  assert.deepEqual(returned, { requeueAfterMs: 7 });
});

test("a read that is not recorded says what to do", () => {
  const read = () => debugCase(RECORDED, (_, lister) => void lister.dependents("other"));
  assert.throws(read, /the case has no answer to \{"read":"dependents","uid":"other"\}: export it again/);
});
