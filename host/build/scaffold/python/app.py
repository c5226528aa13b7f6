"""Keeps a ConfigMap with its ports beside each Service."""

from pintle import Children, Key, Lister, Outcome, Step, log


def reconcile(key: Key, lister: Lister) -> Outcome | None:
    """Says what should change for one Service. It is pure: the same view gives the same outcome."""
    service = lister.get("v1/Service", key.namespace, key.name)
    if service is None or service["metadata"].get("deletionTimestamp"):
        return None
    ports = service.get("spec", {}).get("ports", [])
    data = {port.get("name") or str(port["port"]): str(port["port"]) for port in ports}
    plan = (
        Children(service, "{{name}}")
        .own("v1/ConfigMap")
        .want({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{key.name}-ports"}, "data": data})
        .plan(lister)
    )
    for conflict in plan.conflicts:
        log.warn(str(conflict))
    return Outcome().step(Step.sequential(plan.mutations))
