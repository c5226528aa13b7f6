"""A hash of JSON that is the same in every language."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .errors import Terminal

#: The largest integer that every language has.
_MAX_INTEGER = 2**53 - 1


def hash_json(value: Any) -> str:
    """FNV-1a with 64 bits over the canonical text, as 16 hexadecimal digits. Not cryptographic. (A function `hash` would take the
    place of the built-in one, also for dataclasses of the module that imports it.)

    Members that are None are left out. Raises Terminal if a number is no integer, or beyond 2^53 - 1.
    """
    found = 0xCBF29CE484222325
    for byte in canonical(value).encode():
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return f"{found:016x}"


def canonical(value: Any) -> str:
    """The canonical text: members sorted by the UTF-8 bytes of their names, no white space, no more escapes than JSON requires."""
    if isinstance(value, Mapping):
        members = sorted((name.encode(), name, member) for name, member in value.items() if member is not None)
        return "{" + ",".join(f"{canonical(name)}:{canonical(member)}" for _, name, member in members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    # 2.0 is an integer: not every language distinguishes it from 2.
    if isinstance(value, int | float) and value == value // 1 and abs(value) <= _MAX_INTEGER:
        return str(int(value))
    raise Terminal("hash: a number is not an integer between -(2^53 - 1) and 2^53 - 1")
