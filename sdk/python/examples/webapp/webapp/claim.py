"""The claim of the host: an ExternalName of that name. Whoever has it may have an Ingress for the host."""

from __future__ import annotations

from dataclasses import dataclass, field

from pintle import Lister, Mutation, Object

from .types import EXTERNAL_NAME, WebApp, is_deleting


@dataclass
class ClaimPlan:
    """What is to be done about claims."""

    #: Releases in the order of their names, then the new claim.
    mutations: list[Mutation]
    #: Whether the cache shows that the host is ours.
    is_held: bool = False
    #: Whose the host is, if it is somebody else's.
    conflicts: list[str] = field(default_factory=list)
    #: The claim, if it is ours and being deleted.
    waiting: list[str] = field(default_factory=list)


def plan_claim(app: WebApp, claims: list[Object], lister: Lister) -> ClaimPlan:
    """Compares the claims of a WebApp with its host."""
    others = [claim for claim in claims if claim["metadata"]["name"] != app.host and not is_deleting(claim)]
    plan = ClaimPlan([release(claim) for claim in others])
    if not app.host:
        return plan
    existing = lister.get(EXTERNAL_NAME, "", app.host)
    if existing is None:
        plan.mutations.append(_claim(app))
    elif existing["spec"]["uid"] != app.uid:
        plan.conflicts.append(f"{EXTERNAL_NAME} {app.host} is claimed by {existing['spec']['webapp']}")
    elif is_deleting(existing):
        plan.waiting.append(f"{EXTERNAL_NAME} {app.host}")
    else:
        plan.is_held = True
    return plan


def release(claim: Object) -> Mutation:
    """Gives a name back."""
    return Mutation.delete(EXTERNAL_NAME, "", claim["metadata"]["name"], uid=claim["metadata"]["uid"])


def _claim(app: WebApp) -> Mutation:
    claim = {
        "apiVersion": "example.com/v1",
        "kind": "ExternalName",
        "metadata": {"name": app.host},
        "spec": {"webapp": f"{app.namespace}/{app.name}", "uid": app.uid},
    }
    return Mutation.create(EXTERNAL_NAME, "", claim)
