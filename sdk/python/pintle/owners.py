"""Owner references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .kinds import metadata


def controller_ref(owner: Mapping[str, Any]) -> dict[str, Any]:
    """The reference of an object to its controller, which blocks a foreground deletion of the controller.

    `owner` as it was read: a ValueError if it lacks apiVersion, kind, name or uid.
    """
    meta = metadata(owner)
    reference = {
        "apiVersion": owner.get("apiVersion"),
        "kind": owner.get("kind"),
        "name": meta.get("name"),
        "uid": meta.get("uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    if not all(reference.values()):
        raise ValueError(f"an owner needs apiVersion, kind, metadata.name and metadata.uid: {str(owner)[:200]}")
    return reference


def controller_of(obj: Mapping[str, Any]) -> dict[str, Any] | None:
    """The controller reference of an object."""
    references: list[dict[str, Any]] = metadata(obj).get("ownerReferences") or []
    return next((reference for reference in references if reference.get("controller") is True), None)


def is_controlled_by(obj: Mapping[str, Any], uid: str) -> bool:
    """Whether the controller of an object has this uid."""
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == uid
