import { Mutation, Outcome, Step } from "pintle";

/**
 * Ensures that every namespace has a ServiceAccount `robot`.
 * @type {import("pintle").Reconcile}
 */
export function reconcile(key, lister) {
  const namespace = lister.get("v1/Namespace", "", key.name);
  if (!namespace || namespace.metadata?.deletionTimestamp || lister.get("v1/ServiceAccount", key.name, "robot")) {
    return;
  }
  const create = Mutation.create("v1/ServiceAccount", key.name, { metadata: { name: "robot" } }, { tolerate: ["already-exists"] });
  return new Outcome().step(Step.sequential([create]));
}
