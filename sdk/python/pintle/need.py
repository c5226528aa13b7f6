"""Reads that the cache cannot answer, and other questions to the host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from .encoding import to_json
from .errors import Duration, as_timedelta
from .kinds import Kind, KindLike, ObjectKey

#: Reads that the host takes from one outcome.
MAX_NEEDS = 256

#: How much of each object the answer to a live list has: `metadata` is `apiVersion`, `kind` and `metadata`; `projection` is what the
#: watch of the kind declares, only for kinds that the manifest watches; `whole` is everything. `managedFields` are never there.
Detail = Literal["metadata", "projection", "whole"]


@dataclass(frozen=True)
class LiveObject:
    """One object from the API server itself. Answer: the object as JSON. See `Lister.live` for the short way."""

    kind: Kind
    object: ObjectKey
    #: A subresource that can be read, for example `scale`; the object itself if absent.
    subresource: str | None = None


@dataclass(frozen=True)
class LiveList:
    """A list from the API server itself. Answer: a JSON array of objects."""

    kind: Kind
    #: Empty for all namespaces.
    namespace: str
    label_selector: str | None
    #: At most this many objects.
    limit: int
    #: In the syntax of kubectl, for example `spec.nodeName=n1`.
    field_selector: str | None = None
    detail: Detail = "metadata"


@dataclass(frozen=True)
class RawPath:
    """GET of a path of the API server. Answer: the body."""

    path: str


@dataclass(frozen=True)
class Discovery:
    """Discover the API server's resources now: `Lister.resources` shows them once this is answered.

    Answer: a JSON array of the group versions that did not answer.
    """


@dataclass(frozen=True)
class Review:
    """A verdict of the API server, made by `review`. Answer: the review as JSON, with its status. See `Lister.review` for the short way."""

    kind: Kind
    #: Empty for cluster-scoped kinds.
    namespace: str
    #: The review, as JSON.
    object: str


@dataclass(frozen=True)
class SignJwt:
    """A JSON Web Token, made by `sign_jwt`. Answer: the token."""

    #: A setting of type `key`.
    key: str
    #: A JSON object.
    claims: str


@dataclass(frozen=True)
class SignCertificate:
    """A certificate, made by `sign_certificate`. Answer: the certificate in PEM."""

    #: A setting of type `authority`.
    authority: str
    #: In PEM: one `CERTIFICATE REQUEST`.
    request: str
    usages: tuple[str, ...]
    #: RFC 3339, as `not_after`.
    not_before: str
    not_after: str


@dataclass(frozen=True)
class Call:
    """An operation of an endpoint that the operator has bound, made by `call`. Answer: the body of the response, JSON."""

    #: As `endpoints` of the manifest declares it.
    endpoint: str
    #: One of its operations.
    operation: str
    #: JSON.
    body: str
    #: 30 s if absent.
    timeout: timedelta | None = None


#: A read that the cache cannot answer, or another question to the host. `Lister.ask` gives the answer.
Need = LiveObject | LiveList | RawPath | Discovery | Review | SignJwt | SignCertificate | Call


def live_object(kind: KindLike, namespace: str, name: str, *, subresource: str | None = None) -> Need:
    """One object from the API server itself, or a subresource that can be read, for example `scale`.

    `namespace` is empty for cluster-scoped kinds. The grant must list the subresource.
    """
    return LiveObject(Kind.of(kind), ObjectKey(namespace, name), subresource)


def live_list(
    kind: KindLike,
    namespace: str = "",
    label_selector: str | None = None,
    limit: int = 500,
    *,
    field_selector: str | None = None,
    detail: Detail = "metadata",
) -> Need:
    """At most `limit` objects from the API server itself, of all namespaces if `namespace` is empty.

    Which fields `field_selector` can name depends on the kind, for example `spec.nodeName=n1` for Pods.
    """
    return LiveList(Kind.of(kind), namespace, label_selector, limit, field_selector, detail)


def review(kind: KindLike, namespace: str, obj: Mapping[str, Any]) -> Need:
    """A verdict of the API server, for example on a SubjectAccessReview; `obj` is the review with its spec.

    Only kinds of `authorization.k8s.io` and `authentication.k8s.io` whose names end in `Review`; the grant must allow to create them.
    `namespace` is empty for cluster-scoped kinds, which all are but LocalSubjectAccessReview. The host fills in `apiVersion` and `kind`.
    """
    return Review(Kind.of(kind), namespace, to_json(obj))


def sign_jwt(key: str, claims: Mapping[str, Any]) -> Need:
    """A token with these claims, signed by the key that the operator has bound to the setting `key`, which never enters the component.

    The refusal has the reason `NotGranted` if no key is bound.
    """
    return SignJwt(key, to_json(claims))


def sign_certificate(authority: str, request: str, usages: Iterable[str], not_before: str, not_after: str) -> Need:
    """A certificate, signed by the authority that the operator has bound to the setting `authority`; it is never one of an authority.

    `request` is one `CERTIFICATE REQUEST` in PEM, from which subject and subject alternative names are taken. `usages` are those of
    `certificates.k8s.io`, for example `client auth`. The times are RFC 3339; the host cuts `not_after` to the end of the authority's own
    certificate. The refusal has the reason `Expired` if that is in the past, and `NotGranted` if no authority is bound.
    """
    return SignCertificate(authority, request, tuple(usages), not_before, not_after)


def call(endpoint: str, operation: str, body: Any, *, timeout: Duration | None = None) -> Need:
    """One operation of an endpoint outside of the cluster, which the manifest declares and the operator has bound.

    `body` is anything that JSON has. `timeout` is at most 30 s, which is the default. The host sends the call once, before the outcome of
    the run: expect that what it does is done already when a run is repeated.
    """
    return Call(endpoint, operation, to_json(body), None if timeout is None else as_timedelta(timeout))
