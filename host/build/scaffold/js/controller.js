import { Children, log, Outcome, Step } from "pintle";

/**
 * Keeps a ConfigMap with its ports beside each Service. It is pure: the same view gives the same outcome.
 * @type {import("pintle").Reconcile}
 */
export function reconcile(key, lister) {
  const service = lister.get("v1/Service", key.namespace, key.name);
  if (!service || service.metadata.deletionTimestamp) {
    return;
  }
  const data = {};
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
