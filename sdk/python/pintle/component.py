"""The glue between the contract's bindings and a controller's functions. Runs in components only.

The entry that `pintle build` makes imports this before the controller's module.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import wit_world
from componentize_py_types import Err, Ok
from wit_world.imports import log as wit_log
from wit_world.imports import types as t
from wit_world.imports import view as v

from . import guards, log
from .encoding import MAX_U32, milliseconds, to_json
from .errors import Needs, Retry, Terminal, as_timedelta
from .kinds import Key, Kind, ObjectKey
from .lister import ApiError, ApiResource, Lister, MutationFailure, Query
from .mutation import Action, Apply, Create, Delete, DeleteCollection, Event, Mutation, Patch, Update
from .need import MAX_NEEDS, Call, Discovery, LiveList, LiveObject, Need, RawPath, Review, SignCertificate, SignJwt
from .outcome import Done, Failed, Moment, Observation, Outcome, Place, Wake
from .places import describe

R = TypeVar("R")

_LEVELS = {
    "debug": wit_log.Level.DEBUG,
    "info": wit_log.Level.INFO,
    "warn": wit_log.Level.WARN,
    "error": wit_log.Level.ERROR,
}


def _write(level: log.Level, message: str) -> None:
    wit_log.write(_LEVELS[level], message)


guards.install()


def world(author: ModuleType) -> type[wit_world.WitWorld]:
    """The component's world, made of a module with `reconcile`."""
    function: Any = getattr(author, "reconcile", None)
    if not callable(function):
        raise TypeError(f"{author.__name__}.py must define `def reconcile(key, lister):`")

    class WitWorld(wit_world.WitWorld):
        def reconcile(self, key: t.Key, lister: v.Lister) -> t.Outcome:
            return _run(lister, lambda view: _reconcile(function, key, view))

    return WitWorld


def mapping(author: ModuleType) -> type[Any]:
    """The component's mapping, made of a module with `keys_of(kind, before, after, lister)`."""
    function: Any = getattr(author, "keys_of", None)
    if not callable(function):
        raise TypeError(
            f"a watch of the manifest says `to: plugin`, so {author.__name__}.py must define `def keys_of(kind, before, after, lister):`"
        )

    class Mapping:
        def keys_of(self, kind: t.Kind, old: str | None, new: str | None, lister: v.Lister) -> list[t.Wake]:
            def body(view: Lister) -> list[t.Wake]:
                before, after = (None if text is None else json.loads(text) for text in (old, new))
                keys = function(_kind(kind), before, after, view)
                return [_wit_wake(key if isinstance(key, Wake) else Wake(key)) for key in keys]

            return _run(lister, body)

    return Mapping


def _reconcile(function: Callable[[Key, Lister], Outcome | None], key: t.Key, lister: Lister) -> t.Outcome:
    try:
        own = Key(key.queue, _kind(key.kind), key.object.namespace, key.object.name)
        outcome = function(own, lister)
        if outcome is None:
            outcome = Outcome()
        if not isinstance(outcome, Outcome):
            raise TypeError(f"reconcile returned {outcome!r:.100} instead of an Outcome or None")
        return _wit_outcome(outcome)
    except Needs as needs:
        return _wit_outcome(Outcome(needs=needs.needs[:MAX_NEEDS]))
    except (Retry, Terminal) as error:
        raise Err(_wit_error(error)) from None


def _run(raw: v.Lister, body: Callable[[Lister], R]) -> R:
    """Drops the lister on every path, and logs exceptions before they end the run."""
    log.set_sink(_write)
    guards.active = True
    with raw:
        try:
            return body(Lister(_WitView(raw)))
        except Err:
            raise
        except BaseException as error:
            log.error(describe(error))
            # What ends the run prints the exception too, and would read the sources for it: there are no files.
            setattr(sys, "stderr", None)
            raise


class _WitView:
    """The host's lister."""

    def __init__(self, raw: v.Lister) -> None:
        self._raw = raw

    def now(self) -> str:
        return self._raw.now()

    def uptime(self) -> float:
        return self._raw.uptime()

    def get(self, kind: Kind, key: ObjectKey) -> str | None:
        return self._raw.get(_wit_kind(kind), _wit_object(key))

    def list(self, kind: Kind, query: Query) -> _Texts:
        return self._raw.list(_wit_kind(kind), _wit_query(query))

    def count(self, kind: Kind, query: Query) -> int:
        return self._raw.count(_wit_kind(kind), _wit_query(query))

    def selecting(self, kind: Kind, namespace: str, labels: dict[str, str]) -> _Texts:
        return self._raw.selecting(_wit_kind(kind), namespace, [*labels.items()])

    def dependents(self, uid: str) -> _Texts:
        return self._raw.dependents(uid)

    def by_uid(self, uid: str) -> str | None:
        return self._raw.by_uid(uid)

    def resources(self) -> _Resources:
        return [_resource(one) for one in self._raw.resources()]

    def resources_of(self, group: str, name: str) -> _Resources:
        return [_resource(one) for one in self._raw.resources_of(group, name)]

    def config(self) -> str:
        return self._raw.config()

    def state(self, name: str) -> str | None:
        return self._raw.state(name)

    def attempt(self) -> int:
        return self._raw.attempt()

    def failures(self) -> _Failures:
        return [
            MutationFailure(
                step=one.step,
                position=one.position,
                verb=one.verb,
                kind=_kind(one.kind),
                object=ObjectKey(one.object.namespace, one.object.name),
                subresource=one.subresource,
                code=one.code,
                reason=one.reason,
                message=one.message,
                causes=one.causes,
            )
            for one in self._raw.failures()
        ]

    def answer(self, need: Need) -> str | ApiError | None:
        match self._raw.answer(_wit_need(need)):
            case Ok(text):
                return text
            case Err(error):
                return ApiError(error.code, error.reason, error.message)
            case _:
                return None


# In the class above `list` is a method.
_Texts = list[str]
_Resources = list[ApiResource]
_Failures = list[MutationFailure]


def _kind(kind: t.Kind) -> Kind:
    return Kind(kind.group, kind.version, kind.name)


def _resource(one: v.ApiResource) -> ApiResource:
    return ApiResource(_kind(one.kind), one.plural, one.namespaced, one.verbs, one.subresources, one.preferred)


def _wit_kind(kind: Kind) -> t.Kind:
    return t.Kind(kind.group, kind.version, kind.name)


def _wit_object(key: ObjectKey) -> t.ObjectKey:
    return t.ObjectKey(key.namespace, key.name)


def _wit_key(key: Key) -> t.Key:
    return t.Key(key.queue, _wit_kind(Kind.of(key.kind)), t.ObjectKey(key.namespace, key.name))


def _wit_query(query: Query) -> v.Query:
    owner: v.OwnedBy | None = None
    if query.owner is not None:
        uid = query.owner.uid
        match query.owner.relation:
            case "controller":
                owner = v.OwnedBy_Controller(uid)
            case "controller-or-orphan":
                owner = v.OwnedBy_ControllerOrOrphan(uid)
            case "any":
                owner = v.OwnedBy_Any(uid)
    index = None if query.index is None else v.IndexQuery(*query.index)
    return v.Query(query.namespace, query.label_selector, owner, index, query.whole)


def _wit_need(need: Need) -> t.Need:
    match need:
        case LiveObject(kind, key, subresource):
            return t.Need_LiveObject(t.LiveObject(_wit_kind(kind), _wit_object(key), subresource))
        case LiveList(kind, namespace, labels, limit, fields, detail):
            how_much = t.Detail[_name(detail)]
            return t.Need_LiveList(t.LiveList(_wit_kind(kind), namespace, labels, fields, how_much, min(limit, MAX_U32)))
        case RawPath(path):
            return t.Need_RawPath(path)
        case Discovery():
            return t.Need_Discovery()
        case Review(kind, namespace, obj):
            return t.Need_Review(t.Review(_wit_kind(kind), namespace, obj))
        case SignJwt(key_name, claims):
            return t.Need_SignJwt(t.SignJwt(key_name, claims))
        case SignCertificate(authority, request, usages, not_before, not_after):
            return t.Need_SignCertificate(t.SignCertificate(authority, request, [*usages], not_before, not_after))
        case Call(endpoint, operation, body, timeout):
            timeout_ms = None if timeout is None else milliseconds(timeout)
            return t.Need_Call(t.Call(endpoint, operation, body, timeout_ms))


def _wit_wake(wake: Wake) -> t.Wake:
    after_ms = None if wake.after is None else milliseconds(as_timedelta(wake.after))
    return t.Wake(_wit_key(wake.key), after_ms)


def _wit_observation(one: Observation) -> t.Observation:
    return t.Observation(one.metric, [*one.labels], float(one.value), _wit_moment(one.at))


def _wit_moment(moment: Moment | None) -> t.Moment:
    match moment:
        case None:
            return t.Moment_Now()
        case Done(place):
            return t.Moment_Done(_wit_place(place))
        case Failed(place):
            return t.Moment_Failed(_wit_place(place))


def _wit_place(place: Place) -> t.Place:
    if not (0 <= place.step <= MAX_U32 and 0 <= place.position <= MAX_U32):
        raise ValueError(f"{place} is not the place of a mutation: use outcome.last_place()")
    return t.Place(place.step, place.position)


def _wit_outcome(outcome: Outcome) -> t.Outcome:
    steps = [
        t.Step(t.Order[_name(step.order)], [_wit_mutation(one) for one in step.mutations], step.always)
        for step in outcome.steps
        if step.mutations
    ]
    return t.Outcome(
        needs=[_wit_need(need) for need in outcome.needs],
        steps=steps,
        requeue_after_ms=None if outcome.requeue is None else milliseconds(outcome.requeue),
        state=[t.StateWrite(name, value) for name, value in outcome.state.items()],
        observations=[_wit_observation(one) for one in outcome.observations],
        wake=[_wit_wake(wake) for wake in outcome.wakes],
        run_labels=[*outcome.run_labels.items()],
        error=None if outcome.error is None else _wit_error(outcome.error),
    )


def _wit_error(error: Retry | Terminal) -> t.ReconcileError:
    if isinstance(error, Terminal):
        return t.ReconcileError_Terminal(error.message)
    after_ms = None if error.after is None else milliseconds(error.after)
    return t.ReconcileError_Retry(t.Retry(error.message, after_ms))


def _wit_mutation(mutation: Mutation) -> t.Mutation:
    return t.Mutation(
        action=_wit_action(mutation.action),
        on_success=None if mutation.on_success is None else _wit_event(mutation.on_success),
        on_failure=None if mutation.on_failure is None else _wit_event(mutation.on_failure),
        tolerate=[t.Refusal[_name(refusal)] for refusal in mutation.tolerate],
    )


def _wit_action(action: Action) -> t.Action:
    match action:
        case Create(kind, namespace, obj, subresource):
            return t.Action_Create(t.Create(_wit_kind(kind), namespace, to_json(obj), subresource))
        case Update(kind, obj, subresource):
            return t.Action_Update(t.Update(_wit_kind(kind), to_json(obj), subresource))
        case Patch(kind, key, form, body, subresource, uid, version):
            conditions = t.Preconditions(uid, version)
            patch = t.Patch(_wit_kind(kind), _wit_object(key), subresource, _wit_form(form), to_json(body), conditions)
            return t.Action_Patch(patch)
        case Delete(kind, key, uid, version, propagation, grace):
            conditions = t.Preconditions(uid, version)
            seconds = None if grace is None else min(grace, MAX_U32)
            return t.Action_Delete(t.Delete(_wit_kind(kind), _wit_object(key), conditions, _wit_propagation(propagation), seconds))
        case DeleteCollection(kind, namespace, label_selector, propagation):
            collection = t.DeleteCollection(_wit_kind(kind), namespace, label_selector, _wit_propagation(propagation))
            return t.Action_DeleteCollection(collection)
        case Event():
            return t.Action_Event(_wit_event(action))


def _wit_form(form: str | Apply) -> t.PatchType:
    match form:
        case Apply(manager, force):
            return t.PatchType_Apply(t.Apply(manager, force))
        case "json":
            return t.PatchType_Json()
        case "merge":
            return t.PatchType_Merge()
        case "strategic-merge":
            return t.PatchType_StrategicMerge()
    raise ValueError(f"there is no form of patches {form!r}: json, merge, strategic-merge, or Apply")


def _wit_propagation(propagation: str | None) -> t.Propagation | None:
    return None if propagation is None else t.Propagation[_name(propagation)]


def _wit_event(event: Event) -> t.Event:
    event_type = t.EventType[_name(event.type)]
    return t.Event(_wit_kind(event.kind), _wit_object(event.regarding), event.uid, event_type, event.reason, event.message)


def _name(word: str) -> str:
    """The name of a case of the bindings' enums."""
    return word.upper().replace("-", "_")


class _Lines:
    """Standard output of a component: its lines go to the log."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            # While the component is built there is no host yet.
            if guards.active:
                self._write(line)
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""


sys.stdout = _Lines(log.info)
sys.stderr = _Lines(log.warn)
