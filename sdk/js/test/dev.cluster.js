// `Dev` with a real `pintle`: run by the long tier, as `node --test test/dev.cluster.js`. PLUGIN names a component.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";

import { ApiError, Dev } from "../src/testing/index.js";

const plugins = [process.env["PLUGIN"] ?? "PLUGIN is not set"];
const flags = ["--controllers=namespace", "--nodes=0"];

test("a controller runs on a cluster of the test", async () => {
  const cluster = await Dev.start({ plugins, flags });
  try {
    await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: "team" } });
    const account = await cluster.wait("v1/ServiceAccount", "default", "team");
    assert.equal(account?.["metadata"].namespace, "team");
    await cluster.delete("v1/Namespace", "team");
    await cluster.wait("v1/Namespace", "team", undefined, { until: (object) => object === undefined });
    assert.equal(await cluster.get("v1/ServiceAccount", "default", "team"), undefined);
    const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "p", namespace: "default" } };
    await assert.rejects(cluster.apply(pod), (error) => {
      assert(error instanceof ApiError && error.code === 422, String(error));
      return error.message.startsWith('422 Invalid: Pod "p" is invalid: spec.containers: Required value');
    });
    await assert.rejects(cluster.wait("v1/Namespace", "team", undefined, { timeout: 100 }), /is not as expected after 100 ms/);
    assert(existsSync(cluster.kubeconfig));
  } finally {
    await cluster.stop();
  }
  assert(!existsSync(cluster.kubeconfig));
  assert.throws(() => process.kill(cluster.ready["pid"], 0), /ESRCH/);
});

test("what does not run is an error with its reason", async () => {
  await assert.rejects(Dev.start({ plugins: [import.meta.filename], flags }), /a plugin does not run: .*no version runs yet/);
  await assert.rejects(Dev.start({ flags: ["--nonsense"] }), /`pintle dev` ended:[^]*unexpected argument '--nonsense'/);
});
