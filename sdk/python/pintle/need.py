"""Reads that the cache cannot answer."""

from __future__ import annotations

from dataclasses import dataclass

from .kinds import Kind, KindLike, ObjectKey

#: Reads that the host takes from one outcome.
MAX_NEEDS = 256


@dataclass(frozen=True)
class LiveObject:
    """One object from the API server itself. Answer: the object as JSON. See `Lister.live` for the short way."""

    kind: Kind
    object: ObjectKey


@dataclass(frozen=True)
class LiveList:
    """A list from the API server itself. Answer: a JSON array of objects with `apiVersion`, `kind` and `metadata` only."""

    kind: Kind
    #: Empty for all namespaces.
    namespace: str
    label_selector: str | None
    #: At most this many objects.
    limit: int


@dataclass(frozen=True)
class RawPath:
    """GET of a path of the API server. Answer: the body."""

    path: str


@dataclass(frozen=True)
class Discovery:
    """Discover the API server's resources now: `Lister.resources` shows them once this is answered.

    Answer: a JSON array of the group versions that did not answer.
    """


#: A read that the cache cannot answer.
Need = LiveObject | LiveList | RawPath | Discovery


def live_object(kind: KindLike, namespace: str, name: str) -> Need:
    """One object from the API server itself; `namespace` is empty for cluster-scoped kinds."""
    return LiveObject(Kind.of(kind), ObjectKey(namespace, name))


def live_list(kind: KindLike, namespace: str = "", label_selector: str | None = None, limit: int = 500) -> Need:
    """At most `limit` objects from the API server itself, of all namespaces if `namespace` is empty."""
    return LiveList(Kind.of(kind), namespace, label_selector, limit)
