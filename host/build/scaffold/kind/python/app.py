"""Keeps a ConfigMap with the text of each {{Kind}}."""

from api import {{Kind}}Spec, {{Kind}}Status
from pintle import Children, Key, Lister, Object, Outcome, Step, patch_status, set_condition

KIND = "{{apiKind}}"


def reconcile(key: Key, lister: Lister) -> Outcome | None:
    """Computes the changes for one {{Kind}}. It is pure: the same view gives the same outcome."""
    owner = lister.get(KIND, key.namespace, key.name)
    if owner is None or owner["metadata"].get("deletionTimestamp"):
        return None
    plan = Children(owner, "{{name}}").own("v1/ConfigMap").want(config_map(key.name, owner["spec"])).plan(lister)
    generation = owner["metadata"]["generation"]
    ready = {"type": "Ready", "status": "True", "reason": "Applied", "message": "the ConfigMap is up to date"}
    if plan.conflicts:
        ready |= {"status": "False", "reason": "Conflict", "message": str(plan.conflicts[0])}
    elif plan.mutations and (failures := lister.failures()):
        ready |= {"status": "False", "reason": "WriteFailed", "message": failures[0].message}
    before: {{Kind}}Status = owner.get("status") or {}
    status: {{Kind}}Status = {
        "observedGeneration": generation,
        "conditions": set_condition(before.get("conditions"), ready | {"observedGeneration": generation}, lister.now()),
    }
    # The next write may fail, too.
    report = Step.sequential([patch_status(KIND, owner, status)], always=ready["reason"] == "WriteFailed")
    return Outcome().step(Step.parallel(plan.mutations)).step(report)


def config_map(name: str, spec: {{Kind}}Spec) -> Object:
    """The ConfigMap of a {{Kind}}."""
    metadata = {"name": name{{jsonNamespace}}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": spec["text"]}}
