import { Children, type Key, type KubernetesObject, type Lister, log, Outcome, Step } from "pintle";

/** What the manifest keeps of a Service. */
interface Service extends KubernetesObject {
  spec?: { ports?: { name?: string; port: number }[] };
}

/** Keeps a ConfigMap with its ports beside each Service. It is pure: the same view gives the same outcome. */
export function reconcile(key: Key, lister: Lister): Outcome | undefined {
  const service = lister.get<Service>("v1/Service", key.namespace, key.name);
  if (!service || service.metadata?.deletionTimestamp) {
    return undefined;
  }
  const data: Record<string, string> = {};
  for (const { name, port } of service.spec?.ports ?? []) {
    data[name ?? String(port)] = String(port);
  }
  const plan = new Children(service, "{{name}}")
    .own("v1/ConfigMap")
    .want({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: `${key.name}-ports` }, data })
    .plan(lister);
  for (const conflict of plan.conflicts) {
    log.warn(String(conflict));
  }
  return new Outcome().step(Step.sequential(plan.mutations));
}
