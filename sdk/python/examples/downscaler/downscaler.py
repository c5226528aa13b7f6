"""Scales a Deployment to zero outside of its office hours: `downscaler.example.com/uptime: Mon-Fri 08:00-18:00` in its annotations,
in UTC. How many replicas it had is remembered beside that, and they come back with the office hours or without the annotation.
"""

from __future__ import annotations

from datetime import datetime

from hours import OfficeHours
from pintle import Key, Lister, Mutation, Object, Outcome, Step, event

DEPLOYMENT = "apps/v1/Deployment"
UPTIME = "downscaler.example.com/uptime"
REPLICAS = "downscaler.example.com/replicas"


def reconcile(key: Key, lister: Lister) -> Outcome | None:
    """Says whether one Deployment shall go to sleep or wake up, and when to look again."""
    deployment = lister.get(DEPLOYMENT, key.namespace, key.name)
    if deployment is None or deployment["metadata"].get("deletionTimestamp"):
        return None
    uptime = deployment["metadata"].get("annotations", {}).get(UPTIME)
    if uptime is None:
        return Outcome().step(Step.sequential([wake(deployment)]))
    try:
        hours = OfficeHours.parse(uptime)
    except ValueError as error:
        problem = event(deployment, "warning", "InvalidUptime", f"{UPTIME}: {error}")
        return Outcome().step(Step.sequential([Mutation.event(problem)]))
    now = datetime.fromisoformat(lister.now())
    change = wake(deployment) if hours.are_open(now) else sleep(deployment)
    return Outcome().step(Step.sequential([change])).requeue_after(hours.next_change(now) - now)


def sleep(deployment: Object) -> Mutation | None:
    """To no replicas, unless there are none."""
    replicas = deployment.get("spec", {}).get("replicas", 1)
    if replicas == 0:
        return None
    return patch(deployment, str(replicas), 0, "Slept", f"scaled from {replicas} to 0 outside of its office hours")


def wake(deployment: Object) -> Mutation | None:
    """Back to what it had, if it was put to sleep. Who has scaled it since knows better."""
    remembered = deployment["metadata"].get("annotations", {}).get(REPLICAS)
    if remembered is None:
        return None
    replicas = deployment.get("spec", {}).get("replicas", 1)
    if replicas == 0:
        # Somebody may have written anything there.
        replicas = int(remembered) if remembered.isdecimal() and len(remembered) < 6 else 1
    return patch(deployment, None, replicas, "Woke", f"has {replicas} replicas again")


def patch(deployment: Object, remembered: str | None, replicas: int, reason: str, message: str) -> Mutation:
    """Sets the replicas, and what is remembered. As it depends on both, it is not done if the Deployment has changed meanwhile."""
    metadata = deployment["metadata"]
    return Mutation.patch(
        DEPLOYMENT,
        metadata["namespace"],
        metadata["name"],
        "merge",
        {"metadata": {"annotations": {REPLICAS: remembered}}, "spec": {"replicas": replicas}},
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        on_success=event(deployment, "normal", reason, message),
    )
