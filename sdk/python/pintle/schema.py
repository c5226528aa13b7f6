"""Types of custom resources: TypedDicts with marks that a CustomResourceDefinition needs, beside what Python's types say.

`pintle crds` makes definitions of them with pydantic, which a component does not need: this module is plain Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from .conditions import Condition

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    # pydantic cannot read what a TypedDict of an older Python says.
    try:
        from typing_extensions import TypedDict
    except ImportError:
        from typing import TypedDict

__all__ = ["Conditions", "Schema", "TypedDict"]


class Schema:
    """Members of the schema of a type: `Annotated[str, Schema(pattern="^[a-z]+$", maxLength=63)]`.

    `default` is what the API server fills in; the field must be `NotRequired`. Names that are not words of Python are given as a
    dictionary: `Schema({"x-kubernetes-list-type": "set"}, minItems=1)`.
    """

    def __init__(self, more: dict[str, Any] | None = None, /, **members: Any) -> None:
        self.members = {**(more or {}), **members}

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Called by pydantic."""
        return {**handler(core), **self.members}

    def __repr__(self) -> str:
        return f"Schema({self.members!r})"


_CONDITION = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {
            "type": "string",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
    },
}

#: The conditions of a status, as metav1.Condition has them: one of each type.
Conditions = Annotated[
    list[Condition],
    Schema({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}, items=_CONDITION),
]
