import { Children, Outcome, patchStatus, setCondition, Step } from "pintle";

const KIND = "{{apiKind}}";

/**
 * Keeps a ConfigMap with the text of each {{Kind}}. It is pure: the same view gives the same outcome.
 * @type {import("pintle").Reconcile}
 */
export function reconcile(key, lister) {
  /** @type {import("./api.js").{{Kind}} | undefined} */
  const owner = lister.get(KIND, key.namespace, key.name);
  if (!owner || owner.metadata.deletionTimestamp) {
    return;
  }
  const plan = new Children(owner, "{{name}}").own("v1/ConfigMap").want(configMap(owner)).plan(lister);
  const [conflict] = plan.conflicts;
  const [failure] = plan.mutations.length > 0 ? lister.failures() : [];
  const observedGeneration = owner.metadata.generation;
  const ready = conflict
    ? { type: "Ready", status: "False", reason: "Conflict", message: String(conflict), observedGeneration }
    : failure
      ? { type: "Ready", status: "False", reason: "WriteFailed", message: failure.message, observedGeneration }
      : { type: "Ready", status: "True", reason: "Applied", message: "the ConfigMap is up to date", observedGeneration };
  const status = {
    observedGeneration,
    conditions: setCondition(owner.status?.conditions, ready, lister.now()),
  };
  // The next write may fail, too.
  const report = Step.sequential([patchStatus(KIND, owner, status)], { always: ready.reason === "WriteFailed" });
  return new Outcome().step(Step.parallel(plan.mutations)).step(report);
}

/** The ConfigMap of a {{Kind}}. */
function configMap({ metadata, spec }) {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: metadata.name{{jsNamespace}} },
    data: { text: spec.text },
  };
}
