"""Conditions of a status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

Condition = dict[str, Any]


def set_condition(conditions: Sequence[Condition] | None, condition: Mapping[str, Any], now: str) -> list[Condition]:
    """The conditions with this one in place of that of the same type, or at the end; the given ones are not changed.

    `condition` has type, status, reason, message and perhaps observedGeneration. `lastTransitionTime` becomes `now` (`Lister.now`) in
    whole seconds, or stays the old one if the status is the same, whatever `condition` contains.
    """
    current = find_condition(conditions, condition["type"])
    kept = current.get("lastTransitionTime") if current and current.get("status") == condition["status"] else None
    wanted = {**condition, "lastTransitionTime": kept or _whole_seconds(now)}
    if current is None:
        return [*(conditions or []), wanted]
    return [wanted if other is current else other for other in conditions or []]


def find_condition(conditions: Sequence[Condition] | None, type: str) -> Condition | None:
    """The condition of this type."""
    return next((condition for condition in conditions or [] if condition.get("type") == type), None)


def is_true(conditions: Sequence[Condition] | None, type: str) -> bool:
    """Whether the condition of this type is `True`."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.get("status") == "True"


def _whole_seconds(time: str) -> str:
    return datetime.fromisoformat(time).astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
