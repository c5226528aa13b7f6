"""Makes the mistake that the name of its key says. What is told of each: `tests/tests/mistakes.rs`."""

from __future__ import annotations

import json
import random
from datetime import datetime
from typing import Any

from churn import churn
from pintle import Key, Lister, Mutation, Outcome, Step, Terminal

MISTAKE = "example.com/v1/Mistake"
CONFIG_MAP = "v1/ConfigMap"
SECRET = "v1/Secret"

runs = 0


def reconcile(key: Key, lister: Lister) -> Outcome | None:
    """Makes a mistake."""
    global runs
    match key.name:
        case "panic":
            return third_of([1])
        case "clock":
            return Outcome().keep("now", datetime.now().isoformat())
        case "random":
            return Outcome().keep("random", str(random.random()))
        case "global":
            runs += 1
            return Outcome().keep("runs", str(runs))
        case "bad-json":
            return parse(key, lister)
        case "bad-type":
            return replicas(key, lister)
        case "undeclared-kind":
            return step(Mutation.create(SECRET, key.namespace, {"metadata": {"name": key.name}}))
        case "forgotten-grant":
            return step(Mutation.delete(CONFIG_MAP, key.namespace, key.name))
        case "unwatched":
            return Outcome().keep("secret", str(lister.get(SECRET, key.namespace, key.name)))
        case "loop":
            while True:
                runs = 0
        case "memory":
            return fill_memory()
        case "deep":
            return Outcome().keep("depth", str(depth(0)))
        case "churn":
            return churn(key, lister)
    raise Terminal(f"there is no mistake {key.name}")


def step(mutation: Mutation) -> Outcome:
    return Outcome().step(Step.sequential([mutation]))


def third_of(items: list[int]) -> Outcome:
    return Outcome().keep("third", str(items[2]))


def read(key: Key, lister: Lister) -> dict[str, Any]:
    mistake = lister.get(MISTAKE, key.namespace, key.name)
    return {} if mistake is None else mistake["spec"]


def parse(key: Key, lister: Lister) -> Outcome:
    return Outcome().keep("settings", str(json.loads(read(key, lister)["settings"])))


def replicas(key: Key, lister: Lister) -> Outcome:
    # Text in this object.
    return Outcome().keep("replicas", str(read(key, lister)["replicas"] + 1))


def fill_memory() -> Outcome:
    everything = []
    while True:
        everything.append(bytearray(1 << 20))


def depth(level: int) -> int:
    return depth(level + 1) + level
