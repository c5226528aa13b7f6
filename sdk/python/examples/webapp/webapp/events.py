"""What is told of changes."""

from __future__ import annotations

from dataclasses import replace

from pintle import Mutation, event
from pintle.mutation import Create, Delete, Patch

from .types import WebApp


def with_event(app: WebApp, change: Mutation) -> Mutation:
    """Tells what was created and deleted. An apply of what was not seen has no precondition."""
    match change.action:
        case Create(kind=kind, object={"metadata": {"name": name}}):
            reason, message = "Created", f"created {kind} {name}"
        case Patch(kind=kind, object=key, uid=None):
            reason, message = "Created", f"created {kind} {key.name}"
        case Delete(kind=kind, object=key):
            reason, message = "Deleted", f"deleted {kind} {key.name}"
        case _:
            return change
    return replace(change, on_success=event(app.object, "normal", reason, message))
