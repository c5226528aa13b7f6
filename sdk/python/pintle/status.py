"""Writing a status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .kinds import KindLike, key_of, metadata
from .mutation import Mutation


def patch_status(kind: KindLike, obj: Mapping[str, Any], status: Mapping[str, Any]) -> Mutation | None:
    """A patch that makes the object's status `status`, or None if it already is.

    A member that the object's status has and `status` has not is removed. None and absent are the same.
    The API server refuses the patch as a conflict if the object has changed since it was read; the run is then repeated.
    Put it into a last step that is `always` carried out, if it shall also report failures.
    """
    current, wanted = _plain(obj.get("status")), _plain(status)
    if equal(current, wanted):
        return None
    key = key_of(obj)
    body = {"status": _replacing(current, wanted)}
    version = metadata(obj).get("resourceVersion")
    return Mutation.patch(kind, key.namespace, key.name, "merge", body, subresource="status", resource_version=version)


def equal(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same; `True` is not 1."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(equal(value, b[name]) for name, value in a.items())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _plain(value: Any) -> Any:
    """A copy without members that are None."""
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items() if member is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _replacing(current: Any, wanted: Any) -> Any:
    """`wanted` in full, with None for what must go: a merge patch leaves alone what it does not name."""
    if not isinstance(current, dict) or not isinstance(wanted, dict):
        return wanted
    patch = {name: _replacing(current.get(name), value) for name, value in wanted.items()}
    return {**patch, **{name: None for name in current if name not in wanted}}
