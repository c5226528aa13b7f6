"""Finalizers: an object that has one is deleted only after it was taken out.

Add it before anything is made that must be cleaned up, and remove it once all of that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .kinds import KindLike, key_of, metadata
from .mutation import Mutation


def _finalizers(obj: Mapping[str, Any]) -> list[str]:
    return list(metadata(obj).get("finalizers") or [])


def has_finalizer(obj: Mapping[str, Any], name: str) -> bool:
    """Whether an object has the finalizer."""
    return name in _finalizers(obj)


def add_finalizer(kind: KindLike, obj: Mapping[str, Any], name: str) -> Mutation:
    """A patch that adds the finalizer as the last one.

    The API server refuses it as a conflict if the object has changed since it was read, because the patch holds the whole list;
    the run is then repeated.
    """
    return _replace(kind, obj, _finalizers(obj) + ([] if has_finalizer(obj, name) else [name]))


def remove_finalizer(kind: KindLike, obj: Mapping[str, Any], name: str) -> Mutation:
    """A patch that takes the finalizer out, and leaves those of others. A conflict as for `add_finalizer`."""
    return _replace(kind, obj, [finalizer for finalizer in _finalizers(obj) if finalizer != name])


def _replace(kind: KindLike, obj: Mapping[str, Any], finalizers: list[str]) -> Mutation:
    key, meta = key_of(obj), metadata(obj)
    body = {"metadata": {"finalizers": finalizers}}
    uid, version = meta.get("uid"), meta.get("resourceVersion")
    return Mutation.patch(kind, key.namespace, key.name, "merge", body, uid=uid, resource_version=version)
