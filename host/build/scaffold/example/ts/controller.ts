import { Children, type Key, type Lister, Outcome, patchStatus, setCondition, Step } from "pintle";

import type { {{Kind}}, {{Kind}}Status } from "./api.ts";

const KIND = "{{apiKind}}";

/** Keeps a ConfigMap with the members of each {{Kind}}. It is pure: the same view gives the same outcome. */
export function reconcile(key: Key, lister: Lister): Outcome | undefined {
  const owner = lister.get<{{Kind}}>(KIND, key.namespace, key.name);
  if (!owner || owner.metadata?.deletionTimestamp) {
    return undefined;
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
function configMap({ metadata, spec }: {{Kind}}) {
  const members = spec.members.join(spec.format === "Commas" ? ", " : "\n");
  const data = spec.lead ? { members, lead: spec.lead } : { members };
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name: `${metadata?.name}-members`{{jsNamespace}} }, data };
}

/** Writes the status, unless it is right. */
function report(owner: {{Kind}}, lister: Lister, status: "True" | "False", reason: string, message: string): Step {
  const observedGeneration = owner.metadata?.generation;
  const ready = { type: "Ready", status, reason, message, observedGeneration };
  const wanted: {{Kind}}Status = {
    members: owner.spec.members.length,
    observedGeneration,
    conditions: setCondition(owner.status?.conditions, ready, lister.now()),
  };
  const patch = patchStatus(KIND, owner, wanted);
  return Step.sequential(patch ? [patch] : []);
}
