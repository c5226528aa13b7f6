"""What a case answers to needs that its objects do not answer: subresources, reviews, signatures and calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..encoding import to_json
from ..kinds import Kind, ObjectKey
from ..lister import ApiError
from ..need import Call, Review, SignCertificate, SignJwt
from ..status import equal

#: Fields of the entries of each list: those that are needed, and the others.
_FIELDS: dict[str, tuple[list[str], list[str]]] = {
    "subresources": (["kind", "name", "subresource", "answer"], ["namespace"]),
    "reviews": (["kind", "status"], ["namespace", "spec"]),
    "signatures": (["by"], ["claims", "answer", "error"]),
    "calls": (["endpoint", "operation"], ["body", "answer", "error"]),
}


@dataclass(frozen=True)
class Answers:
    """The lists of a case, by name. The first entry that fits counts."""

    lists: Mapping[str, Sequence[dict[str, Any]]]

    @staticmethod
    def read(given: Mapping[str, Any]) -> Answers:
        """Those of an input. A ValueError says what is wrong with them."""
        lists = {name: given.get(name) or [] for name in _FIELDS}
        for name, (needed, optional) in _FIELDS.items():
            for i, one in enumerate(lists[name]):
                missing = [field for field in needed if field not in one]
                unknown = [field for field in one if field not in [*needed, *optional]]
                if missing:
                    raise ValueError(f"{name}[{i}].{missing[0]} is missing")
                if unknown:
                    fields = ", ".join([*needed, *optional])
                    raise ValueError(f"{name}[{i}] has an unknown field {unknown[0]}: it may have {fields}")
        return Answers(lists)

    def subresource(self, kind: Kind, key: ObjectKey, subresource: str) -> str | ApiError:
        """What a live read of a subresource finds."""
        for one in self.lists["subresources"]:
            asked = (one["kind"], one.get("namespace") or "", one["name"], one["subresource"])
            if asked == (str(kind), key.namespace, key.name, subresource):
                return json.dumps(one["answer"])
        return not_found(f"{kind}/{subresource} {key}; a case has it in `subresources`")

    def review(self, need: Review) -> str | ApiError:
        """The API server's verdict."""
        review = json.loads(need.object)
        for one in self.lists["reviews"]:
            asked = (one["kind"], one.get("namespace") or "")
            if asked == (str(need.kind), need.namespace) and _contains(review.get("spec"), one.get("spec")):
                kind = {"apiVersion": need.kind.api_version, "kind": need.kind.name}
                return json.dumps({**review, **kind, "status": one["status"]})
        return not_found(f"a verdict on {need.kind} {json.dumps(review.get('spec'))}; a case has it in `reviews`")

    def signature(self, need: SignJwt | SignCertificate) -> str | ApiError:
        """A token or a certificate."""
        claims = json.loads(need.claims) if isinstance(need, SignJwt) else None
        by = need.key if isinstance(need, SignJwt) else need.authority
        for one in self.lists["signatures"]:
            if one["by"] == by and _contains(claims, one.get("claims")):
                return _error(one) or one.get("answer") or ""
        return not_found(f"a signature by {by}; a case has it in `signatures`")

    def call(self, need: Call) -> str | ApiError:
        """What an endpoint answers."""
        for one in self.lists["calls"]:
            asked = (one["endpoint"], one["operation"])
            if asked == (need.endpoint, need.operation) and _contains(json.loads(need.body), one.get("body")):
                return _error(one) or json.dumps(one.get("answer"))
        return not_found(f"an answer to {need.endpoint}/{need.operation} {need.body}; a case has it in `calls`")


@dataclass(frozen=True)
class FieldTerm:
    """A condition on a field."""

    path: tuple[str, ...]
    value: str
    #: Whether the field must have the value, or must not have it.
    is_equal: bool

    def matches(self, obj: Any) -> bool:
        """Whether an object fulfils it; a field that is not there is empty."""
        found = obj
        for name in self.path:
            found = found.get(name) if isinstance(found, dict) else None
        text = "" if found is None else found if isinstance(found, str) else to_json(found)
        return (text == self.value) == self.is_equal


def parse_fields(selector: str) -> list[FieldTerm]:
    """Parses a field selector: `a.b=x,c!=y`. A ValueError if it does not parse."""
    return [_term(text) for text in selector.split(",") if text]


def _term(text: str) -> FieldTerm:
    sign = next((sign for sign in ("!=", "==", "=") if sign in text), None)
    if sign is None:
        raise ValueError(f"{text!r} is not a term of a field selector: write spec.nodeName=n1")
    path, _, value = text.partition(sign)
    return FieldTerm(tuple(path.split(".")), value, sign != "!=")


def not_found(what: str) -> ApiError:
    """The API server's refusal to give what it does not have."""
    return ApiError(404, "NotFound", f"{what} not found")


def error_of(given: Mapping[str, Any]) -> ApiError:
    """A refusal as an input has it."""
    return ApiError(given["code"], given["reason"], given.get("message") or "")


def _error(one: Mapping[str, Any]) -> ApiError | None:
    return error_of(one["error"]) if one.get("error") else None


def _contains(value: Any, wanted: Any) -> bool:
    """Whether a value has all that another one has; None asks for nothing."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        return all(name in value and _contains(value[name], one) for name, one in wanted.items())
    return wanted is None or equal(value, wanted)
