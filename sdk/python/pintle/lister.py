"""The world at one instant, as a run sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .errors import Needs, Retry
from .kinds import Kind, KindLike, Object, ObjectKey
from .need import Need, live_object
from .need import review as review_need


@dataclass(frozen=True)
class OwnedBy:
    """Selects by owner references; see `controller`, `controller_or_orphan` and `any_owner`."""

    relation: Literal["controller", "controller-or-orphan", "any"]
    uid: str


def controller(uid: str) -> OwnedBy:
    """Objects whose controller reference has this uid."""
    return OwnedBy("controller", uid)


def controller_or_orphan(uid: str) -> OwnedBy:
    """Objects whose controller reference has this uid, and those that have none at all."""
    return OwnedBy("controller-or-orphan", uid)


def any_owner(uid: str) -> OwnedBy:
    """Objects of which any owner reference has this uid."""
    return OwnedBy("any", uid)


@dataclass(frozen=True)
class Query:
    """Which objects to list; all conditions must hold. Without any: every object of the kind."""

    #: All namespaces if absent.
    namespace: str | None = None
    #: In the syntax of kubectl: `a=b,c in (d,e),!f`.
    label_selector: str | None = None
    #: By owner references.
    owner: OwnedBy | None = None
    #: Name and value of an index that the manifest declares.
    index: tuple[str, str] | None = None
    #: Whole objects instead of the projection; the watch must declare `whole`.
    whole: bool = False


@dataclass(frozen=True)
class ApiResource:
    """A resource that the API server has."""

    kind: Kind
    #: Name in URLs.
    plural: str
    #: Whether its objects live in namespaces.
    namespaced: bool
    #: For example `list`, `delete`.
    verbs: list[str]
    #: For example `status`, `scale`.
    subresources: list[str]
    #: Whether the version is the one that the server prefers for the group.
    preferred: bool


@dataclass(frozen=True)
class MutationFailure:
    """What became of a mutation of the previous run of this key that was neither carried out nor tolerated."""

    #: Place of the step in the previous outcome, and of the mutation in the step.
    step: int
    position: int
    #: `create`, `update`, `patch`, `delete` or `delete-collection`.
    verb: str
    kind: Kind
    #: The name is empty if it was to be generated.
    object: ObjectKey
    subresource: str | None
    #: HTTP status code; 0 if no answer came.
    code: int
    #: The server's reason, for example `AlreadyExists`; or `Transport`, `NotGranted`.
    reason: str
    message: str
    #: Reasons of the causes, for example `NamespaceTerminating`.
    causes: list[str]


@dataclass(frozen=True)
class ApiError:
    """The refusal of a need, by the API server, or by the host before it sends anything."""

    #: HTTP status code; 0 if no answer came.
    code: int
    #: The server's reason, for example `NotFound`; or of the host, for example `NotGranted`, `TooLarge`, `Expired`.
    reason: str
    message: str


# In the classes below `list` is a method.
_Texts = list[str]
_Objects = list[Object]
_Resources = list[ApiResource]
_Failures = list[MutationFailure]


class View(Protocol):
    """The contract's lister, with JSON text for objects."""

    def now(self) -> str: ...
    def uptime(self) -> float: ...
    def get(self, kind: Kind, key: ObjectKey) -> str | None: ...
    def list(self, kind: Kind, query: Query) -> _Texts: ...
    def count(self, kind: Kind, query: Query) -> int: ...
    def selecting(self, kind: Kind, namespace: str, labels: dict[str, str]) -> _Texts: ...
    def dependents(self, uid: str) -> _Texts: ...
    def by_uid(self, uid: str) -> str | None: ...
    def resources(self) -> _Resources: ...
    def resources_of(self, group: str, name: str) -> _Resources: ...
    def config(self) -> str: ...
    def state(self, name: str) -> str | None: ...
    def attempt(self) -> int: ...
    def failures(self) -> _Failures: ...
    def answer(self, need: Need) -> str | ApiError | None: ...


class Lister:
    """A snapshot of the cluster, for one run: repeated reads give the same answer.

    All reads together are one state of the host's caches, never older than this key's own last writes.
    Only kinds that the manifest watches can be read; another is a fault that ends the run.
    It is valid until `reconcile` returns. What it returns is yours: change it as you like.
    """

    def __init__(self, view: View) -> None:
        self._view = view

    def now(self) -> str:
        """Time at which this run began: RFC 3339 with microseconds, UTC. `parse_time` reads it."""
        return self._view.now()

    def uptime(self) -> float:
        """Seconds since the host started, when this run began, by a monotonic clock.

        Only differences of two values of the same host have a meaning: keep one in the state, which is lost together with this clock.
        """
        return self._view.uptime()

    def get(self, kind: KindLike, namespace: str, name: str) -> Object | None:
        """The object, whole if its watch declares `whole`, else its projection; None if it is not in the cache.

        `namespace` is empty for cluster-scoped kinds.
        """
        return _decode(self._view.get(Kind.of(kind), ObjectKey(namespace, name)))

    def list(self, kind: KindLike, query: Query = Query()) -> _Objects:
        """The objects that match, ordered by namespace and name: their projections, unless the query says `whole`."""
        return [json.loads(text) for text in self._view.list(Kind.of(kind), query)]

    def count(self, kind: KindLike, query: Query = Query()) -> int:
        """How many objects match. Costs less than a list."""
        return self._view.count(Kind.of(kind), query)

    def selecting(self, kind: KindLike, namespace: str, labels: Mapping[str, str]) -> _Objects:
        """Objects in the namespace whose own selector (declared as `selects` in their watch) matches these labels."""
        return [json.loads(text) for text in self._view.selecting(Kind.of(kind), namespace, dict(labels))]

    def dependents(self, uid: str) -> _Objects:
        """Objects of any watched kind that name this uid among their owners, ordered by kind, namespace and name."""
        return [json.loads(text) for text in self._view.dependents(uid)]

    def by_uid(self, uid: str) -> Object | None:
        """The object of any watched kind with this uid."""
        return _decode(self._view.by_uid(uid))

    def resources(self) -> _Resources:
        """What the API server offers, as of the last discovery, seconds ago. Only with `discovery: true` in the manifest."""
        return self._view.resources()

    def resources_of(self, group: str, kind: str) -> _Resources:
        """Those of `resources` whose kind has this group and name, of all versions, at a small part of the cost.

        `group` is empty for the core group. Only with `discovery: true` in the manifest.
        """
        return self._view.resources_of(group, kind)

    def config(self) -> dict[str, Any]:
        """The controller's configuration: it fits the manifest's schema, defaults filled in."""
        found: dict[str, Any] = json.loads(self._view.config())
        return found

    def state(self, name: str) -> str | None:
        """What an earlier outcome kept under this name."""
        return self._view.state(name)

    def attempt(self) -> int:
        """How often this key has failed in a row: 0 on the first try."""
        return self._view.attempt()

    def failures(self) -> _Failures:
        """What failed of this key's previous outcome; empty after a success."""
        return self._view.failures()

    def live(self, kind: KindLike, namespace: str, name: str, *, subresource: str | None = None) -> Object | None:
        """The object as the API server itself has it now, or its subresource, for example `scale`; None if it is gone there.

        Raises Needs in the first round: let it pass; the host reads, and runs the key again. Raises Retry if the server refused.
        """
        answer = self.ask(live_object(kind, namespace, name, subresource=subresource))
        if isinstance(answer, str):
            return _decode(answer)
        if answer.code == 404:
            return None
        part = "" if subresource is None else f"{subresource} of "
        raise Retry(f"read {part}{Kind.of(kind)} {namespace}/{name}: {answer.message}")

    def review(self, kind: KindLike, namespace: str, obj: Mapping[str, Any]) -> dict[str, Any]:
        """The API server's verdict: the status of a review, for example of a SubjectAccessReview. `obj` is the review with its spec.

        Raises Needs in the first round, as `live`, and Retry if the server refused. The function `review` makes the need alone.
        """
        answer = self.ask(review_need(kind, namespace, obj))
        if isinstance(answer, ApiError):
            raise Retry(f"ask for a {Kind.of(kind).name}: {answer.message}")
        status: dict[str, Any] = json.loads(answer).get("status") or {}
        return status

    def ask(self, need: Need) -> str | ApiError:
        """The answer to any need: its text, or the refusal.

        Raises Needs in the first round: let it pass.
        """
        answer = self._view.answer(need)
        if answer is None:
            raise Needs([need])
        return answer


def _decode(text: str | None) -> Object | None:
    if text is None:
        return None
    decoded: Object = json.loads(text)
    return decoded
