"""One case under a debugger: each read gets the answer that is recorded for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..kinds import Key, Kind, Object, ObjectKey
from ..lister import ApiError, ApiResource, Lister, MutationFailure, Query
from ..need import Call, Discovery, LiveList, LiveObject, Need, RawPath, Review, SignCertificate, SignJwt
from ..outcome import Outcome


def debug_case(file: str | Path, reconcile: Callable[[Key, Lister], Outcome | None]) -> Outcome | None:
    """Calls `reconcile` with the case in a file that `pintle test --filter NAME --export FOLDER` has written, and returns what it returns.

    Each read gets the answer that the component got. Raises LookupError at any other read: export the case again after a change of what
    is read. Raises what `reconcile` raises.
    """
    recorded = json.loads(Path(file).read_text(encoding="utf-8"))
    key = recorded["key"]
    return reconcile(Key(key["queue"], Kind.of(key["kind"]), key["namespace"], key["name"]), Lister(_Recorded(recorded)))


class _Recorded:
    def __init__(self, recorded: dict[str, Any]) -> None:
        self._recorded = recorded
        self._resources = [ApiResource(**{**one, "kind": Kind.of(one["kind"])}) for one in recorded["resources"] or []]

    def _answer(self, **read: Any) -> Any:
        wanted = {name: value for name, value in read.items() if value not in (None, "")}
        for one in self._recorded["reads"]:
            if {name: value for name, value in one.items() if name not in ("found", "refusal")} == wanted:
                return ApiError(**one["refusal"]) if "refusal" in one else one["found"]
        raise LookupError(f"the case has no answer to {wanted}: export it again")

    def _object(self, **read: Any) -> str | None:
        found = self._answer(**read)
        return None if found is None else json.dumps(found)

    def _objects(self, **read: Any) -> _Texts:
        return [json.dumps(one) for one in self._answer(**read)]

    def now(self) -> str:
        return str(self._recorded["now"])

    def uptime(self) -> float:
        return float(self._recorded["uptime"])

    def get(self, kind: Kind, key: ObjectKey) -> str | None:
        return self._object(read="get", kind=str(kind), namespace=key.namespace, name=key.name)

    def list(self, kind: Kind, query: Query) -> _Texts:
        return self._objects(read="list", kind=str(kind), query=_query(query))

    def count(self, kind: Kind, query: Query) -> int:
        return int(self._answer(read="count", kind=str(kind), query=_query(query)))

    def selecting(self, kind: Kind, namespace: str, labels: dict[str, str]) -> _Texts:
        return self._objects(read="selecting", kind=str(kind), namespace=namespace, labels=labels)

    def dependents(self, uid: str) -> _Texts:
        return self._objects(read="dependents", uid=uid)

    def by_uid(self, uid: str) -> str | None:
        return self._object(read="byUid", uid=uid)

    def resources(self) -> _Resources:
        return self._resources

    def resources_of(self, group: str, name: str) -> _Resources:
        return [one for one in self._resources if (one.kind.group, one.kind.name) == (group, name)]

    def config(self) -> str:
        return json.dumps(self._recorded["config"])

    def state(self, name: str) -> str | None:
        value: str | None = self._recorded["state"].get(name)
        return value

    def attempt(self) -> int:
        return int(self._recorded["attempt"])

    def failures(self) -> _Failures:
        return [_failure(**one) for one in self._recorded["failures"]]

    def answer(self, need: Need) -> str | ApiError | None:
        answer: str | ApiError = self._answer(read="answer", need=_need(need))
        return answer


# In the class above `list` is a method.
_Texts = list[str]
_Resources = list[ApiResource]
_Failures = list[MutationFailure]


def _failure(kind: str, object: dict[str, str], subresource: str | None = None, causes: _Texts | None = None, **rest: Any) -> MutationFailure:
    key = ObjectKey(object.get("namespace", ""), object.get("name", ""))
    return MutationFailure(kind=Kind.of(kind), object=key, subresource=subresource, causes=causes or [], **rest)


def _set(**members: Any) -> Object:
    return {name: value for name, value in members.items() if value not in (None, "", False)}


def _query(query: Query) -> Object:
    owner = query.owner and {"by": query.owner.relation, "uid": query.owner.uid}
    index = query.index and {"name": query.index[0], "value": query.index[1]}
    return _set(namespace=query.namespace, labelSelector=query.label_selector, owner=owner, index=index, whole=query.whole)


def _need(need: Need) -> Object:
    match need:
        case LiveObject(kind, key, subresource):
            return _set(type="object", kind=str(kind), **asdict(key), subresource=subresource)
        case LiveList(kind, namespace, labels, limit, fields, detail):
            more = {"labelSelector": labels, "fieldSelector": fields, "detail": None if detail == "metadata" else detail}
            return _set(type="list", kind=str(kind), namespace=namespace, limit=limit, **more)
        case RawPath(path):
            return _set(type="path", path=path)
        case Discovery():
            return _set(type="discovery")
        case Review(kind, namespace, body):
            return _set(type="review", kind=str(kind), namespace=namespace, body=body)
        case SignJwt(name, claims):
            return _set(type="sign-jwt", key=name, body=claims)
        case SignCertificate(authority, request, usages, start, end):
            request_of = {"authority": authority, "request": request, "usages": [*usages], "notBefore": start, "notAfter": end}
            return _set(type="sign-certificate", certificate=request_of)
        case Call(endpoint, operation, body):
            return _set(type="call", endpoint=endpoint, operation=operation, body=body)
