"""Label selectors, as the host matches them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Requirement:
    """A condition on a label."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil it."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None


def parse(text: str) -> list[Requirement]:
    """Parses kubectl's syntax: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. A ValueError if it does not parse."""
    # A comma inside parentheses separates values, not requirements.
    parts = re.split(r",(?![^(]*\))", text.strip()) if text.strip() else []
    requirements = [_requirement(part.strip()) for part in parts]
    found = [one for one in requirements if one is not None and re.fullmatch(r"[^\s()!=,<>]+", one.key)]
    if len(found) < len(parts):
        raise ValueError(f"label selector {text!r} does not parse")
    return found


def _requirement(text: str) -> Requirement | None:
    if text.startswith("!"):
        return Requirement(text[1:].strip(), "DoesNotExist")
    if found := re.fullmatch(r"(.*?)\s+(in|notin)\s*\(([^()]*)\)", text):
        key, operator, values = found.groups()
        return Requirement(key.strip(), "In" if operator == "in" else "NotIn", tuple(map(str.strip, values.split(","))))
    if found := re.fullmatch(r"([^=!]*)(!=|==|=)(.*)", text):
        key, sign, value = found.groups()
        return Requirement(key.strip(), "NotIn" if sign == "!=" else "In", (value.strip(),))
    return Requirement(text, "Exists")


def from_label_selector(selector: Mapping[str, Any]) -> list[Requirement] | None:
    """The selector of an object's spec (`matchLabels`, `matchExpressions`); None if an expression makes no sense."""
    requirements = from_map(selector.get("matchLabels") or {})
    for expression in selector.get("matchExpressions") or []:
        operator, values = expression.get("operator"), tuple(expression.get("values") or ())
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist") or (operator in ("In", "NotIn")) != bool(values):
            return None
        requirements.append(Requirement(expression["key"], operator, values))
    return requirements


def from_map(labels: Mapping[str, str]) -> list[Requirement]:
    """The selector that these labels are."""
    return [Requirement(key, "In", (value,)) for key, value in labels.items()]


def selects(requirements: Sequence[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether labels fulfil all."""
    return all(requirement.matches(labels) for requirement in requirements)
