"""Keeps a ConfigMap with the members of each {{Kind}}."""

from api import {{Kind}}Spec, {{Kind}}Status
from pintle import Children, Key, Lister, Object, Outcome, Step, patch_status, set_condition

KIND = "{{apiKind}}"


def reconcile(key: Key, lister: Lister) -> Outcome | None:
    """Says what should change for one {{Kind}}. It is pure: the same view gives the same outcome."""
    owner = lister.get(KIND, key.namespace, key.name)
    if owner is None or owner["metadata"].get("deletionTimestamp"):
        return None
    spec: {{Kind}}Spec = owner["spec"]
    lead = spec.get("lead")
    if lead and lead not in spec["members"]:
        problem = f"spec.lead {lead} is not in spec.members"
        return Outcome().step(report(owner, lister, "False", "InvalidSpec", problem))
    plan = Children(owner, "{{name}}").own("v1/ConfigMap").want(config_map(key.name, spec)).plan(lister)
    if plan.conflicts:
        step = report(owner, lister, "False", "Conflict", str(plan.conflicts[0]))
    else:
        step = report(owner, lister, "True", "Applied", "the ConfigMap is up to date")
    return Outcome().step(Step.parallel(plan.mutations)).step(step)


def config_map(name: str, spec: {{Kind}}Spec) -> Object:
    """The ConfigMap of a {{Kind}}."""
    separator = ", " if spec.get("format") == "Commas" else "\n"
    data = {"members": separator.join(spec["members"])}
    if "lead" in spec:
        data["lead"] = spec["lead"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-members"{{jsonNamespace}}}, "data": data}


def report(owner: Object, lister: Lister, status: str, reason: str, message: str) -> Step:
    """Writes the status, unless it is right."""
    generation = owner["metadata"]["generation"]
    before: {{Kind}}Status = owner.get("status") or {}
    ready = {"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": generation}
    wanted: {{Kind}}Status = {
        "members": len(owner["spec"]["members"]),
        "observedGeneration": generation,
        "conditions": set_condition(before.get("conditions"), ready, lister.now()),
    }
    patch = patch_status(KIND, owner, wanted)
    return Step.sequential([patch] if patch else [])
