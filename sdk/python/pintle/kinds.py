"""Names of kinds, objects and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

#: An object as plain JSON.
Object = dict[str, Any]


class OwnerReference(TypedDict):
    """An entry of `metadata.ownerReferences`."""

    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: NotRequired[bool]
    blockOwnerDeletion: NotRequired[bool]


class _Meta(TypedDict):
    #: Absent if the object is cluster-scoped.
    namespace: NotRequired[str]
    generateName: NotRequired[str]
    generation: NotRequired[int]
    #: RFC 3339.
    creationTimestamp: NotRequired[str]
    #: RFC 3339; there while the object is being deleted.
    deletionTimestamp: NotRequired[str]
    labels: NotRequired[dict[str, str]]
    annotations: NotRequired[dict[str, str]]
    finalizers: NotRequired[list[str]]
    ownerReferences: NotRequired[list[OwnerReference]]


class ObjectMeta(_Meta):
    """`metadata` of an object from the cache; for types of objects, such as those that `pintle types` writes."""

    name: str
    uid: str
    resourceVersion: str


class PartialObjectMeta(_Meta):
    """`metadata` of an object that is not in the API server: of a template, or of one that is to be created."""

    name: NotRequired[str]
    uid: NotRequired[str]
    resourceVersion: NotRequired[str]


@dataclass(frozen=True, order=True)
class Kind:
    """A kind as the API server names it. `group` is empty for the core group."""

    group: str
    version: str
    name: str

    @staticmethod
    def of(kind: KindLike) -> Kind:
        """The kind that a text names: `"apps/v1/Deployment"`, `"v1/Pod"`. A ValueError if it names none."""
        if isinstance(kind, Kind):
            return kind
        parts = kind.split("/") if isinstance(kind, str) else []
        if len(parts) not in (2, 3) or not all(parts):
            raise ValueError(f'{kind!r} is not a kind: write "v1/Pod" or "apps/v1/Deployment"')
        return Kind("" if len(parts) == 2 else parts[0], parts[-2], parts[-1])

    @staticmethod
    def of_object(obj: Mapping[str, Any]) -> Kind:
        """The kind that `apiVersion` and `kind` of an object, or of an owner reference, name. A ValueError if it says neither."""
        if not obj.get("apiVersion") or not obj.get("kind"):
            raise ValueError(f"the object has no apiVersion or no kind: {str(obj)[:200]}")
        return Kind.of(f"{obj['apiVersion']}/{obj['kind']}")

    @property
    def api_version(self) -> str:
        """`apiVersion` of its objects: `apps/v1`, or `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}/{self.name}"


#: A kind, or its text form: `"apps/v1/Deployment"`, `"v1/Pod"`.
KindLike = Kind | str


@dataclass(frozen=True, order=True)
class ObjectKey:
    """Name of an object within its kind. `namespace` is empty for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True)
class Key:
    """The root object of a run: one entry of one work queue of this controller. The object may be gone by now.

    The tick of a queue has the kind `pintle/v1/Tick`, no namespace, and the name of the queue. It is not an object: `get` finds nothing.
    """

    queue: str
    kind: Kind
    #: Empty if the object is cluster-scoped.
    namespace: str
    name: str


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata of an object; empty if it has none."""
    found = obj.get("metadata")
    return found if isinstance(found, Mapping) else {}


def key_of(obj: Mapping[str, Any]) -> ObjectKey:
    """Namespace and name of an object."""
    meta = metadata(obj)
    return ObjectKey(meta.get("namespace") or "", meta.get("name") or "")
