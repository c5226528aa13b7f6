"""Writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .kinds import Kind, KindLike, ObjectKey, key_of, metadata

#: How the API server refused a write, as far as controllers distinguish refusals.
Refusal = Literal["not-found", "already-exists", "conflict", "invalid", "forbidden", "namespace-terminating"]
#: What becomes of the objects that a deleted one owns.
Propagation = Literal["background", "foreground", "orphan"]
#: `json` is RFC 6902, `merge` RFC 7386, `strategic-merge` Kubernetes' own for built-in kinds.
PatchType = Literal["json", "merge", "strategic-merge"]
#: What can be sent: an object, or for JSON patches a list of operations.
Body = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True)
class Event:
    """A Kubernetes Event, made by `event`. The host adds time, source, count and series."""

    kind: Kind
    regarding: ObjectKey
    #: Empty if not known.
    uid: str
    type: Literal["normal", "warning"]
    reason: str
    message: str


def event(obj: Mapping[str, Any], type: Literal["normal", "warning"], reason: str, message: str) -> Event:
    """An event about an object as it was read, for `Mutation.event`, `on_success` and `on_failure`.

    `reason` is upper camel case, for machines; `message` for humans, at most 1,024 bytes. In `on_success` and `on_failure`,
    `{name}` stands for the name of the written object and `{error}` for the server's message.
    """
    return Event(Kind.of_object(obj), key_of(obj), metadata(obj).get("uid") or "", type, reason, message)


@dataclass(frozen=True)
class Create:
    """See `Mutation.create`."""

    kind: Kind
    namespace: str
    object: Body
    subresource: str | None


@dataclass(frozen=True)
class Update:
    """See `Mutation.update`."""

    kind: Kind
    object: Body
    subresource: str | None


@dataclass(frozen=True)
class Apply:
    """Server-side apply, as the form of a patch. `force` takes over fields of other managers."""

    field_manager: str
    force: bool


@dataclass(frozen=True)
class Patch:
    """See `Mutation.patch` and `Mutation.apply`."""

    kind: Kind
    object: ObjectKey
    form: PatchType | Apply
    body: Body
    subresource: str | None
    uid: str | None
    resource_version: str | None


@dataclass(frozen=True)
class Delete:
    """See `Mutation.delete`."""

    kind: Kind
    object: ObjectKey
    uid: str | None
    resource_version: str | None
    propagation: Propagation | None
    grace_period_seconds: int | None


@dataclass(frozen=True)
class DeleteCollection:
    """See `Mutation.delete_collection`."""

    kind: Kind
    namespace: str
    label_selector: str | None
    propagation: Propagation | None


#: One write.
Action = Create | Update | Patch | Delete | DeleteCollection | Event


@dataclass(frozen=True)
class Mutation:
    """One write, and what to do with its result.

    All makers take: `on_success` and `on_failure`, events that are recorded when the write has succeeded or failed; `tolerate`,
    refusals that count as success. What the grants of the manifest do not allow is not sent, and fails with the reason `NotGranted`.
    """

    action: Action
    on_success: Event | None = None
    on_failure: Event | None = None
    tolerate: tuple[Refusal, ...] = field(default=())

    @staticmethod
    def create(
        kind: KindLike,
        namespace: str,
        obj: Mapping[str, Any],
        *,
        subresource: str | None = None,
        on_success: Event | None = None,
        on_failure: Event | None = None,
        tolerate: Iterable[Refusal] = (),
    ) -> Mutation:
        """Creates an object; the host fills in `apiVersion` and `kind`. `metadata.generateName` is honoured."""
        return Mutation(Create(Kind.of(kind), namespace, obj, subresource), on_success, on_failure, tuple(tolerate))

    @staticmethod
    def update(
        kind: KindLike,
        obj: Mapping[str, Any],
        *,
        subresource: str | None = None,
        on_success: Event | None = None,
        on_failure: Event | None = None,
        tolerate: Iterable[Refusal] = (),
    ) -> Mutation:
        """Replaces an object. It must carry `metadata.resourceVersion` or `metadata.uid`, and all fields: change a whole one that you read."""
        return Mutation(Update(Kind.of(kind), obj, subresource), on_success, on_failure, tuple(tolerate))

    @staticmethod
    def update_status(
        kind: KindLike,
        obj: Mapping[str, Any],
        *,
        on_success: Event | None = None,
        on_failure: Event | None = None,
        tolerate: Iterable[Refusal] = (),
    ) -> Mutation:
        """Replaces the status of an object. The whole metadata must be there, since the API server takes some of it from a status
        update too. `patch_status` needs less."""
        return Mutation(Update(Kind.of(kind), obj, "status"), on_success, on_failure, tuple(tolerate))

    @staticmethod
    def patch(
        kind: KindLike,
        namespace: str,
        name: str,
        form: PatchType | Apply,
        body: Body,
        *,
        subresource: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        on_success: Event | None = None,
        on_failure: Event | None = None,
        tolerate: Iterable[Refusal] = (),
    ) -> Mutation:
        """Changes part of an object. With `uid` or `resource_version` it fails as a conflict if the object has another one by then."""
        action = Patch(Kind.of(kind), ObjectKey(namespace, name), form, body, subresource, uid, resource_version)
        return Mutation(action, on_success, on_failure, tuple(tolerate))

    @staticmethod
    def apply(
        field_manager: str,
        obj: Mapping[str, Any],
        *,
        force: bool = True,
        subresource: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        on_success: Event | None = None,
        on_failure: Event | None = None,
        tolerate: Iterable[Refusal] = (),
    ) -> Mutation:
        """Server-side apply of an object, which names its kind, namespace and name. Takes over fields of other managers if `force`."""
        form = Apply(field_manager, force)
        action = Patch(Kind.of_object(obj), key_of(obj), form, obj, subresource, uid, resource_version)
        return Mutation(action, on_success, on_failure, tuple(tolerate))

    @staticmethod
    def delete(
        kind: KindLike,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        on_success: Event | None = None,
        on_failure: Event | None = None,
        tolerate: Iterable[Refusal] = (),
    ) -> Mutation:
        """Deletes an object. Give the uid that was seen, so that a namesake survives. An object that is gone already counts as done."""
        action = Delete(Kind.of(kind), ObjectKey(namespace, name), uid, resource_version, propagation, grace_period_seconds)
        return Mutation(action, on_success, on_failure, tuple(tolerate))

    @staticmethod
    def delete_collection(
        kind: KindLike,
        namespace: str,
        label_selector: str | None = None,
        *,
        propagation: Propagation | None = None,
        on_success: Event | None = None,
        on_failure: Event | None = None,
        tolerate: Iterable[Refusal] = (),
    ) -> Mutation:
        """Deletes the objects of a kind in a namespace that the selector matches, or all."""
        action = DeleteCollection(Kind.of(kind), namespace, label_selector, propagation)
        return Mutation(action, on_success, on_failure, tuple(tolerate))

    @staticmethod
    def event(event: Event) -> Mutation:
        """An event on its own. One that cannot be written fails nothing."""
        return Mutation(event)
