"""Field paths of a manifest. The format is the host's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def segments(path: str) -> list[str]:
    """Segments of a field path such as `spec.nodeName` or `metadata.annotations['example.com/x']`."""
    found = []
    rest = path
    while rest:
        match = re.match(r"(?:\['(.*?)'\]|([^.\[]+))\.?", rest)
        if match is None:
            raise ValueError(f"{path!r} is not a field path: write spec.nodeName or metadata.labels['example.com/x']")
        found.append(match[1] if match[1] is not None else match[2])
        rest = rest[match.end() :]
    return found


def values_at(value: Any, path: Sequence[str]) -> list[Any]:
    """The values at a path; a list on the way stands for its elements, and so does one at the end."""
    if isinstance(value, list):
        return [found for item in value for found in values_at(item, path)]
    if not path:
        return [value]
    return values_at(value[path[0]], path[1:]) if isinstance(value, dict) and path[0] in value else []


def project(value: Any, paths: Sequence[Sequence[str]]) -> Any:
    """A copy with only what the paths name."""
    if isinstance(value, list):
        return [project(item, paths) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, member in value.items():
        below = [path[1:] for path in paths if path and path[0] == name]
        if below:
            kept[name] = member if any(not path for path in below) else project(member, below)
    return kept
