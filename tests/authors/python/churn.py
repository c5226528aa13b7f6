"""Reads the world again and again while the heap is full of garbage, and looks whether what was read is what was there."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, TypeVar

from pintle import Key, Lister, Outcome, Query, Terminal, log

R = TypeVar("R")

#: How often everything is read in one run.
N_ROUNDS = 2


class Collections:
    """Counts those that end while the host is being asked."""

    def __init__(self) -> None:
        self.during = 0
        self._is_asking = False

    def __call__(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "stop" and self._is_asking:
            self.during += 1

    def ask(self, call: Callable[[], R]) -> R:
        self._is_asking = True
        try:
            return call()
        finally:
            self._is_asking = False


class Node:
    """Garbage that only a collection finds: it refers to itself."""

    def __init__(self, size: int) -> None:
        self.text = "y" * size
        self.itself = self


#: Lives until it is replaced, between what dies at once.
kept: list[Node | None] = [None] * 64


def garbage() -> None:
    for i in range(64):
        node = Node((i * 97) % 1500 + 1)
        if i % 8 == 0:
            kept[i] = node


def churn(key: Key, lister: Lister) -> Outcome:
    seen = Collections()
    gc.callbacks.append(seen)
    # A collection is due at once, whatever is made.
    gc.set_threshold(1, 1, 1)
    try:
        checked = sum(read_all(key, lister, seen) for _ in range(N_ROUNDS))
    finally:
        gc.callbacks.remove(seen)
    log.warn(f"collections during calls: {seen.during}")
    return Outcome().keep("checked", str(checked))


def read_all(key: Key, lister: Lister, seen: Collections) -> int:
    garbage()
    checked = 0
    for listed in seen.ask(lambda: lister.list("v1/ConfigMap", Query(namespace=key.namespace))):
        name = listed["metadata"]["name"]
        one: Any = seen.ask(lambda: lister.get("v1/ConfigMap", key.namespace, name))
        for read in (listed, one):
            if read["data"]["text"] != name * int(read["data"]["times"]):
                raise Terminal(f"corrupt: {name}")
            checked += 1
    if seen.ask(lambda: lister.state("word")) != seen.ask(lister.config)["word"]:
        raise Terminal("corrupt: state or configuration")
    return checked
