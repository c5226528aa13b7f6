// Gives a Namespace with the label `namespace-defaults.example.com/size` what it should not be without: a NetworkPolicy that denies all
// traffic which no other one allows, and a LimitRange for containers that ask for nothing, as large as the label says.

import { type AnyObject, Children, event, type Key, type KubernetesObject, type Lister, log, Mutation, Outcome, Step } from "pintle";

const SIZE = "namespace-defaults.example.com/size";

/** Requests and limits of containers that name none. */
interface Defaults {
  cpu: string;
  memory: string;
}

const SIZES = new Map<string, Defaults>([
  ["small", { cpu: "100m", memory: "128Mi" }],
  ["medium", { cpu: "500m", memory: "512Mi" }],
  ["large", { cpu: "2", memory: "2Gi" }],
]);

/** Says what one Namespace lacks, or has and should not. */
export function reconcile(key: Key, lister: Lister): Outcome | undefined {
  const namespace = lister.get<KubernetesObject>("v1/Namespace", "", key.name);
  if (!namespace || namespace.metadata?.deletionTimestamp) {
    return undefined;
  }
  const children = new Children(namespace, "namespace-defaults").own("networking.k8s.io/v1/NetworkPolicy", "v1/LimitRange");
  const size = namespace.metadata?.labels?.[SIZE];
  if (size !== undefined) {
    const defaults = SIZES.get(size);
    if (!defaults) {
      const message = `${SIZE} is ${JSON.stringify(size)}, which is none of ${[...SIZES.keys()].join(", ")}`;
      return new Outcome().step(Step.sequential([Mutation.event(event(namespace, "warning", "InvalidSize", message))]));
    }
    children.want(denyAll(key.name), limitRange(key.name, defaults));
  }
  const plan = children.plan(lister);
  for (const conflict of plan.conflicts) {
    log.warn(String(conflict));
  }
  return new Outcome().step(Step.parallel(plan.mutations));
}

function denyAll(namespace: string): AnyObject {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: "default-deny", namespace },
    spec: { podSelector: {}, policyTypes: ["Ingress", "Egress"] },
  };
}

function limitRange(namespace: string, { cpu, memory }: Defaults): AnyObject {
  return {
    apiVersion: "v1",
    kind: "LimitRange",
    metadata: { name: "defaults", namespace },
    spec: { limits: [{ type: "Container", defaultRequest: { cpu, memory }, default: { memory } }] },
  };
}
