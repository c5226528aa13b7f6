"""The contract's lister over plain objects: what the host would give, and a fault where it would end the run with one."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..kinds import Kind, Object, ObjectKey, key_of
from ..lister import ApiError, ApiResource, MutationFailure, OwnedBy, Query
from ..need import Call, Detail, Discovery, LiveList, LiveObject, Need, RawPath, Review, SignCertificate, SignJwt
from .answers import Answers, error_of, not_found, parse_fields
from .manifest import project, segments, values_at
from .selector import Requirement, from_label_selector, from_map, parse, selects

_ALWAYS = ["apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"]
_Texts = list[str]


class Fault(Exception):
    """Where the host would end the run with a fault. A controller that catches it fails its case all the same."""


@dataclass(frozen=True)
class Stored:
    """An object with what queries need of it."""

    kind: Kind
    key: ObjectKey
    value: Object

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.value["metadata"].get("labels") or {}

    @property
    def owners(self) -> list[dict[str, Any]]:
        """Its owner references."""
        return self.value["metadata"].get("ownerReferences") or []


def store(values: Iterable[Object]) -> list[Stored]:
    """Objects ordered by kind, namespace and name."""
    stored = []
    for given in values:
        value = copy.deepcopy(given)
        if not value.get("apiVersion") or not value.get("kind") or not (value.get("metadata") or {}).get("name"):
            raise ValueError(f"an object needs apiVersion, kind and metadata.name: {given}")
        value["metadata"].setdefault("uid", f"uid-{value['metadata']['name']}")
        value["metadata"].setdefault("resourceVersion", "1")
        stored.append(Stored(Kind.of_object(value), key_of(value), value))
    return sorted(stored, key=lambda one: (one.kind, one.key))


@dataclass
class World:
    """A view of what an input says."""

    manifest: dict[str, Any]
    now_text: str
    uptime_seconds: float
    objects: list[Stored]
    live: list[Stored]
    settings: dict[str, Any]
    kept: dict[str, str]
    n_attempts: int
    failed: list[MutationFailure]
    known: list[ApiResource]
    raw: dict[str, Any]
    #: `resources`, `failed`, `error` of a discovery.
    discovery: dict[str, Any]
    answers: Answers
    #: Needs that were asked so far.
    asked: list[Need] = field(default_factory=list)
    #: The first fault of the run, also if the controller caught it.
    fault: Fault | None = None

    def now(self) -> str:
        return self.now_text

    def uptime(self) -> float:
        return self.uptime_seconds

    def get(self, kind: Kind, key: ObjectKey) -> str | None:
        whole = bool(self._watch(kind).get("whole"))
        return next((self._text(one, whole) for one in self._cached(kind) if one.key == key), None)

    def list(self, kind: Kind, query: Query) -> _Texts:
        return [self._text(one, query.whole) for one in self._matching(kind, query)]

    def count(self, kind: Kind, query: Query) -> int:
        return len(self._matching(kind, query))

    def selecting(self, kind: Kind, namespace: str, labels: dict[str, str]) -> _Texts:
        declared = self._watch(kind).get("selects")
        if declared is None:
            raise self._fail(f"the watch of {kind} does not declare `selects`")
        found = []
        for one in self._cached(kind):
            selector: Any = one.value
            for name in segments(declared["field"]):
                selector = selector.get(name) if isinstance(selector, dict) else None
            if selector is None or one.key.namespace != namespace:
                continue
            requirements = from_map(selector) if declared["form"] == "map" else from_label_selector(selector)
            if requirements is None or not (requirements or declared.get("empty") == "everything"):
                continue
            if selects(requirements, labels):
                found.append(self._text(one, False))
        return found

    def dependents(self, uid: str) -> _Texts:
        return [self._text(one, False) for one in self._watched() if any(owner.get("uid") == uid for owner in one.owners)]

    def by_uid(self, uid: str) -> str | None:
        return next((self._text(one, False) for one in self._watched() if one.value["metadata"]["uid"] == uid), None)

    def resources(self) -> _Resources:
        self._needs_discovery()
        discovered = self.discovery.get("resources") if Discovery() in self.asked else None
        return self.known if discovered is None else read_resources(discovered)

    def resources_of(self, group: str, name: str) -> _Resources:
        return [one for one in self.resources() if (one.kind.group, one.kind.name) == (group, name)]

    def config(self) -> str:
        return json.dumps(self.settings)

    def state(self, name: str) -> str | None:
        return self.kept.get(name)

    def attempt(self) -> int:
        return self.n_attempts

    def failures(self) -> _Failures:
        return self.failed

    def answer(self, need: Need) -> str | ApiError | None:
        if need not in self.asked:
            return None
        match need:
            case LiveObject(kind, key, None):
                found = next((one.value for one in self.live if (one.kind, one.key) == (kind, key)), None)
                return not_found(f"{kind} {key}") if found is None else json.dumps(found)
            case LiveObject(kind, key, str(subresource)):
                return self.answers.subresource(kind, key, subresource)
            case LiveList():
                return self._live_list(need)
            case RawPath(path):
                return json.dumps(self.raw[path]) if path in self.raw else not_found(path)
            case Review():
                return self.answers.review(need)
            case SignJwt() | SignCertificate():
                return self.answers.signature(need)
            case Call():
                return self.answers.call(need)
            case Discovery():
                self._needs_discovery()
                error = self.discovery.get("error")
                return error_of(error) if error else json.dumps(self.discovery.get("failed") or [])
        raise TypeError(f"{need!r:.100} is not a need")

    def _live_list(self, need: LiveList) -> str:
        if need.detail == "projection":
            self._watch(need.kind)
        requirements = self._selector(need.label_selector)
        try:
            terms = parse_fields(need.field_selector or "")
        except ValueError as error:
            raise self._fail(str(error)) from None
        matching = [
            one
            for one in self.live
            if one.kind == need.kind
            and need.namespace in ("", one.key.namespace)
            and selects(requirements, one.labels)
            and all(term.matches(one.value) for term in terms)
        ]
        return f"[{','.join(self._live_text(one, need.detail) for one in matching[: need.limit])}]"

    def _live_text(self, one: Stored, detail: Detail) -> str:
        match detail:
            case "metadata":
                return json.dumps(project(one.value, [["apiVersion"], ["kind"], ["metadata"]]))
            case "projection":
                return self._text(one, False)
            case "whole":
                return json.dumps(one.value)

    def original(self, kind: Kind, key: ObjectKey) -> Object | None:
        """The cached object that an update would replace."""
        return next((one.value for one in self.objects if (one.kind, one.key) == (kind, key)), None)

    def _fail(self, message: str) -> Fault:
        fault = Fault(f"fault: {message}")
        self.fault = self.fault or fault
        return fault

    def _selector(self, text: str | None) -> Sequence[Requirement]:
        try:
            return parse(text or "")
        except ValueError as error:
            raise self._fail(str(error)) from None

    def _needs_discovery(self) -> None:
        if not self.manifest.get("discovery"):
            raise self._fail("the manifest does not declare `discovery: true`")

    def _watch(self, kind: Kind) -> dict[str, Any]:
        watches: Sequence[dict[str, Any]] = self.manifest.get("watches") or []
        for watch in watches:
            if watch.get("kind") == str(kind):
                return watch
        for watch in watches:
            if watch.get("every") is not None:
                return watch
        raise self._fail(f"the manifest does not watch {kind}")

    def _is_cached(self, watch: dict[str, Any], one: Stored) -> bool:
        """Whether the watch would have the object in the cache."""
        in_namespace = watch.get("namespace") in (None, one.key.namespace)
        return in_namespace and selects(self._selector(watch.get("labelSelector")), one.labels)

    def _cached(self, kind: Kind) -> Sequence[Stored]:
        watch = self._watch(kind)
        return [one for one in self.objects if one.kind == kind and self._is_cached(watch, one)]

    def _watched(self) -> Sequence[Stored]:
        def is_watched(one: Stored) -> bool:
            return any(
                (watch.get("every") is not None or watch.get("kind") == str(one.kind)) and self._is_cached(watch, one)
                for watch in self.manifest.get("watches") or []
            )

        return [one for one in self.objects if is_watched(one)]

    def _text(self, one: Stored, whole: bool) -> str:
        if whole:
            return json.dumps(one.value)
        watch = self._watch(one.kind)
        # Watches of every kind hold the metadata.
        fields = ["metadata"] if watch.get("every") is not None else watch.get("fields") or []
        return json.dumps(project(one.value, [segments(path) for path in [*_ALWAYS, *fields]]))

    def _matching(self, kind: Kind, query: Query) -> Sequence[Stored]:
        watch = self._watch(kind)
        if query.whole and not watch.get("whole"):
            raise self._fail(f"the watch of {kind} does not declare `whole`")
        requirements = self._selector(query.label_selector)
        path: Sequence[str] = []
        if query.index is not None:
            declared = next((index for index in watch.get("indexes") or [] if index["name"] == query.index[0]), None)
            if declared is None:
                raise self._fail(f"the watch of {kind} declares no index {query.index[0]!r}")
            path = segments(declared["field"])

        def matches(one: Stored) -> bool:
            return (
                query.namespace in (None, one.key.namespace)
                and selects(requirements, one.labels)
                and (query.owner is None or _is_owned(one, query.owner))
                and (query.index is None or query.index[1] in map(_index_text, values_at(one.value, path)))
            )

        return [one for one in self._cached(kind) if matches(one)]


# In the class above `list` is a method.
_Resources = list[ApiResource]
_Failures = list[MutationFailure]


def read_resources(given: Iterable[dict[str, Any]]) -> list[ApiResource]:
    """Resources as an input has them."""
    return [
        ApiResource(
            kind=Kind.of(one["kind"]),
            plural=one["plural"],
            namespaced=one["namespaced"],
            verbs=one["verbs"],
            subresources=one.get("subresources") or [],
            preferred=one.get("preferred") or False,
        )
        for one in given
    ]


def _is_owned(one: Stored, owner: OwnedBy) -> bool:
    controllers = [reference.get("uid") for reference in one.owners if reference.get("controller") is True][:1]
    match owner.relation:
        case "controller":
            return controllers == [owner.uid]
        case "controller-or-orphan":
            return controllers in ([], [owner.uid])
        case "any":
            return any(reference.get("uid") == owner.uid for reference in one.owners)


def _index_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None
