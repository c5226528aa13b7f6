"""Deletes objects whose time to live is over: `janitor.example.com/ttl: 90m` in their annotations, counted from their creation.

The number's unit is s, m, h, d or w. What else there is in the annotation is told by an event, and nothing is deleted.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from pintle import Key, Lister, Mutation, Outcome, Step, event

TTL = "janitor.example.com/ttl"

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

#: Who has longer to live is looked at again in between: the host takes no longer delay than some weeks.
LONGEST_DELAY = timedelta(days=7)


def reconcile(key: Key, lister: Lister) -> Outcome | None:
    """Says whether one object shall go, or when to look again."""
    found = lister.get(key.kind, key.namespace, key.name)
    if found is None or found["metadata"].get("deletionTimestamp"):
        return None
    metadata = found["metadata"]
    text = metadata.get("annotations", {}).get(TTL)
    if text is None:
        return None
    ttl = parse(text)
    if ttl is None:
        problem = event(found, "warning", "InvalidTTL", f"{TTL} is {text!r}, not a number and one of {', '.join(UNITS)}, such as 90m")
        return Outcome().step(Step.sequential([Mutation.event(problem)]))
    age = datetime.fromisoformat(lister.now()) - datetime.fromisoformat(metadata["creationTimestamp"])
    if age < ttl:
        return Outcome().requeue_after(min(ttl - age, LONGEST_DELAY))
    expired = event(found, "normal", "Expired", f"deleted after its time to live of {text}")
    delete = Mutation.delete(
        key.kind, key.namespace, key.name, uid=metadata["uid"], propagation="background", on_success=expired
    )
    return Outcome().step(Step.sequential([delete]))


def parse(text: str) -> timedelta | None:
    """A time such as 90m; None if it is none."""
    # More digits would be more years than a timedelta has.
    match = re.fullmatch(r"([0-9]{1,6})([smhdw])", text)
    return match and timedelta(**{UNITS[match[2]]: int(match[1])})
