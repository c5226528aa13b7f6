"""Outcomes in the form of the expected ones of cases."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from ..encoding import milliseconds
from ..errors import Retry, Terminal, as_timedelta
from ..kinds import Kind, Object, ObjectKey, key_of
from ..mutation import Action, Apply, Create, Delete, DeleteCollection, Event, Mutation, Patch, Update
from ..need import Call, Discovery, LiveList, LiveObject, Need, RawPath, Review, SignCertificate, SignJwt
from ..outcome import Done, Failed, Moment, Outcome, Place, Wake
from ..status import equal
from .world import World


def render_outcome(outcome: Outcome, world: World) -> Object:
    """Updates are shown as differences to the world's objects."""
    steps = [
        _compact(
            order=step.order,
            always=step.always or None,
            mutations=_mutations(step.mutations, world),
        )
        for step in outcome.steps
        if step.mutations
    ]
    observations = [
        f"{one.metric}{{{','.join(one.labels)}}} {_number(one.value)}{_moment(one.at)}" for one in outcome.observations
    ]
    return _compact(
        needs=[render_need(need) for need in outcome.needs] or None,
        steps=steps,
        requeueAfter=None if outcome.requeue is None else duration(outcome.requeue),
        state=dict(outcome.state) or None,
        observations=observations or None,
        wake=[_wake(one) for one in outcome.wakes] or None,
        runLabels=dict(outcome.run_labels) or None,
        error=None if outcome.error is None else render_error(outcome.error),
    )


def render_error(error: Retry | Terminal) -> Object:
    """An error that is raised, or that an outcome has."""
    if isinstance(error, Terminal):
        return {"terminal": error.message}
    return _compact(retry=error.message, after=None if error.after is None else duration(error.after))


def _moment(moment: Moment | None) -> str:
    match moment:
        case None:
            return ""
        case Done(place):
            return f" when {_place(place)} is done"
        case Failed(place):
            return f" when {_place(place)} has failed"


def _place(place: Place) -> str:
    return f"steps[{place.step}].mutations[{place.position}]"


def _wake(wake: Wake) -> str:
    after = "" if wake.after is None else f" after {duration(as_timedelta(wake.after))}"
    key = wake.key
    return f"{key.queue}: {key.kind} {ObjectKey(key.namespace, key.name)}{after}"


def _mutations(mutations: Iterable[Mutation], world: World) -> list[Object]:
    shown: list[Object] = []
    last: Mutation | None = None
    for mutation in mutations:
        if last is not None and last == mutation:
            shown[-1]["times"] = shown[-1].get("times", 1) + 1
        else:
            shown.append(_mutation(mutation, world))
        last = mutation
    return shown


def _mutation(mutation: Mutation, world: World) -> Object:
    return {
        **_action(mutation.action, world),
        **_compact(
            onSuccess=None if mutation.on_success is None else _event(mutation.on_success),
            onFailure=None if mutation.on_failure is None else _event(mutation.on_failure),
            tolerate=list(mutation.tolerate) or None,
        ),
    }


def _action(action: Action, world: World) -> Object:
    match action:
        case Create(kind, namespace, obj, subresource):
            return {"create": _target(kind, ObjectKey("", namespace), subresource), "object": _sent(obj)}
        case Update(kind, obj, subresource):
            new = _sent(obj)
            key = key_of(new)
            original = world.original(kind, key)
            changes = {"object": new} if original is None else {"changes": _difference(original, new)}
            return {"update": _target(kind, key, subresource), **changes}
        case Patch(kind, key, form, body, subresource, uid, version):
            force = "true" if isinstance(form, Apply) and form.force else "false"
            shown = f"apply by {form.field_manager}, force: {force}" if isinstance(form, Apply) else form
            conditions = {"if": _compact(uid=uid, resourceVersion=version)} if uid or version else {}
            return {"patch": _target(kind, key, subresource), "form": shown, **conditions, "body": _sent(body)}
        case Delete(kind, key, uid, version, propagation, grace):
            conditions = {"if": _compact(uid=uid, resourceVersion=version)} if uid or version else {}
            return {
                "delete": _target(kind, key, None),
                **conditions,
                **_compact(propagation=propagation, gracePeriodSeconds=grace),
            }
        case DeleteCollection(kind, namespace, label_selector, propagation):
            shown = _target(kind, ObjectKey("", namespace), None)
            return {"deleteCollection": shown, **_compact(labelSelector=label_selector, propagation=propagation)}
        case Event():
            return {"event": _event(action)}


def render_need(need: Need) -> str | Object:
    """A read in words, another need by its parts."""
    match need:
        case LiveObject(kind, key, subresource):
            return f"get {_target(kind, key, subresource)}"
        case LiveList(kind, namespace, label_selector, limit, field_selector, detail):
            fields = "" if field_selector is None else f" and fields {json.dumps(field_selector)}"
            selected = f"{json.dumps(label_selector or '')}{fields}"
            how_much = {"metadata": "", "projection": ", as projections", "whole": ", whole"}[detail]
            return f"list {kind} in {json.dumps(namespace)} with {selected}, at most {limit}{how_much}"
        case RawPath(path):
            return f"get {path}"
        case Discovery():
            return "discover"
        case Review(kind, namespace, obj):
            return {"review": f"{kind} in {namespace}" if namespace else str(kind), "object": json.loads(obj)}
        case SignJwt(key_name, claims):
            return {"sign-jwt": key_name, "claims": json.loads(claims)}
        case SignCertificate(authority, request, usages, not_before, not_after):
            return {
                "sign-certificate": authority,
                "request": request,
                "usages": list(usages),
                "notBefore": not_before,
                "notAfter": not_after,
            }
        case Call(endpoint, operation, body, timeout):
            timeout_ms = None if timeout is None else milliseconds(timeout)
            return {"call": f"{endpoint}/{operation}", "body": json.loads(body), **_compact(timeoutMs=timeout_ms)}


def _event(event: Event) -> str:
    return f"{event.type.capitalize()} {event.reason} on {event.kind} {event.regarding} ({event.uid}): {event.message}"


def duration(span: timedelta) -> str:
    """A time as Rust writes it: `1.5s`, `250ms`, `90s`."""
    micros = span // timedelta(microseconds=1)
    for unit, size in (("s", 1_000_000), ("ms", 1000), ("µs", 1)):
        if micros >= size:
            whole, rest = divmod(micros, size)
            decimals = f"{rest / size:.6f}"[1:].rstrip("0").rstrip(".")
            return f"{whole}{decimals}{unit}"
    return "0ns"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _target(kind: Kind, key: ObjectKey, subresource: str | None) -> str:
    return f"{kind}{f'/{subresource}' if subresource else ''} {key}".rstrip()


def _sent(body: Any) -> Any:
    """What arrives at the host."""
    return json.loads(json.dumps(body, allow_nan=False))


def _difference(old: Any, new: Any) -> Any:
    """What changes, in the form of a merge patch (RFC 7386)."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    changed = {
        name: _difference(old[name], value) if name in old else value
        for name, value in new.items()
        if name not in old or not equal(old[name], value)
    }
    return {**changed, **{name: None for name in old if name not in new}}


def _compact(**members: Any) -> Object:
    return {name: value for name, value in members.items() if value is not None}
