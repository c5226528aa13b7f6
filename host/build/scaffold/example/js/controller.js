import { Children, Outcome, patchStatus, setCondition, Step } from "pintle";

const KIND = "{{apiKind}}";

/**
 * Keeps a ConfigMap with the members of each {{Kind}}. It is pure: the same view gives the same outcome.
 * @type {import("pintle").Reconcile}
 */
export function reconcile(key, lister) {
  /** @type {import("./api.js").{{Kind}} | undefined} */
  const owner = lister.get(KIND, key.namespace, key.name);
  if (!owner || owner.metadata.deletionTimestamp) {
    return;
  }
  const { lead, members } = owner.spec;
  if (lead && !members.includes(lead)) {
    return new Outcome().step(report(owner, lister, "False", "InvalidSpec", `spec.lead ${lead} is not in spec.members`));
  }
  const plan = new Children(owner, "{{name}}").own("v1/ConfigMap").want(configMap(owner)).plan(lister);
  const [conflict] = plan.conflicts;
  const step = conflict
    ? report(owner, lister, "False", "Conflict", String(conflict))
    : report(owner, lister, "True", "Applied", "the ConfigMap is up to date");
  return new Outcome().step(Step.parallel(plan.mutations)).step(step);
}

/** The ConfigMap of a {{Kind}}. */
function configMap({ metadata, spec }) {
  const members = spec.members.join(spec.format === "Commas" ? ", " : "\n");
  const data = spec.lead ? { members, lead: spec.lead } : { members };
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name: `${metadata.name}-members`{{jsNamespace}} }, data };
}

/** Writes the status, unless it is right. */
function report(owner, lister, status, reason, message) {
  const observedGeneration = owner.metadata.generation;
  const ready = { type: "Ready", status, reason, message, observedGeneration };
  const wanted = {
    members: owner.spec.members.length,
    observedGeneration,
    conditions: setCondition(owner.status?.conditions, ready, lister.now()),
  };
  const patch = patchStatus(KIND, owner, wanted);
  return Step.sequential(patch ? [patch] : []);
}
