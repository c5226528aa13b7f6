"""Native tests of controllers: a case is a file with two YAML documents, the input and the expected outcome. Needs PyYAML.

    import unittest
    from pathlib import Path
    from pintle.testing import check_cases
    from app import reconcile

    class Cases(unittest.TestCase):
        def test_cases(self) -> None:
            check_cases(Path(__file__).parent, reconcile)

The input has `key` (`kind`, `namespace`, `name`, and `queue` if it is not the manifest's first), `now`, `uptime` (seconds), `objects`
(the cache), `live` (what the API server itself has; the same if absent), the answers to other needs (`subresources`, `reviews`,
`signatures`, `calls`, `raw` (path -> body), `discovery`), `config`, `state`, `attempt`, `failures`, `resources`. `settle`, with a third document, is for `pintle test`, which carries the outcomes out; it is ignored here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from difflib import unified_diff
from math import ceil, inf
from pathlib import Path
from typing import Any

import yaml

from ..errors import Needs, Retry, Terminal
from ..kinds import Key, Kind, Object, ObjectKey
from ..lister import Lister, MutationFailure
from ..need import MAX_NEEDS
from ..outcome import Outcome
from ..status import equal
from .answers import Answers
from .render import render_error, render_need, render_outcome
from .world import Fault, World, read_resources, store
from .yaml12 import read_yaml

__all__ = ["Fault", "Fixture", "Reconcile", "check_cases"]

#: What a controller's module defines as `reconcile`.
Reconcile = Callable[[Key, Lister], Outcome | None]

#: Calls of one run, as in the host.
_MAX_ROUNDS = 8
_INPUT = [
    "key",
    "now",
    "uptime",
    "objects",
    "live",
    "config",
    "state",
    "attempt",
    "failures",
    "resources",
    "subresources",
    "reviews",
    "signatures",
    "calls",
    "raw",
    "discovery",
    "settle",
    "define",
]


def check_cases(folder: str | Path, reconcile: Reconcile, cases: str | Path = "cases") -> None:
    """Runs every case below `folder/cases` with `folder/manifest.yaml` and compares the outcomes.

    The lister of a case gives what the host would give: only watched kinds, only projected fields, only declared indexes; anything else
    fails the case. `cases` is another folder of cases, relative to `folder`. Raises an AssertionError that names the cases that differ,
    and shows how; `pintle test --update` writes the expected outcomes.
    """
    manifest = (Path(folder) / "manifest.yaml").read_text(encoding="utf-8")
    root = Path(folder) / cases
    for old in root.iterdir():
        assert not (old / "input.yaml").exists(), f"{old} is a folder, but a case is one file: write input.yaml, a line --- and expected.yaml to {old}.yaml"
    paths = sorted(root.glob("*.yaml"))
    assert paths, f"no cases in {root}"
    wrong = {path.stem: told for path in paths if (told := _check(manifest, path, reconcile))}
    if wrong:
        name, told = next(iter(wrong.items()))
        raise AssertionError(f"{len(wrong)} of {len(paths)} cases failed: {', '.join(wrong)}\n{name}: {told}")


def _check(manifest: str, path: Path, reconcile: Reconcile) -> str | None:
    """What is wrong with a case."""
    try:
        given, _, rest = path.read_text(encoding="utf-8").partition("\n---\n")
        # A third document is the end of a case that settles, for `pintle test`.
        wanted = rest.partition("\n---\n")[0]
        actual = Fixture.parse(manifest, given).run(reconcile)
    except Exception as error:
        error.add_note(f"in case {path.stem}")
        raise
    if not wanted:
        return f"no outcome is expected yet. It is:\n{_show(actual)}"
    expected = read_yaml(wanted)
    if equal(actual, expected):
        return None
    return "\n".join(unified_diff(_show(expected).splitlines(), _show(actual).splitlines(), "expected", "actual", lineterm=""))


def _show(value: Any) -> str:
    shown: str = yaml.safe_dump(value, sort_keys=True, allow_unicode=True, width=1000)
    return shown


class Fixture:
    """One run: a key and the cluster that it reads."""

    def __init__(self, key: Key, world: World) -> None:
        self.key = key
        self.lister = Lister(world)
        self._world = world

    @staticmethod
    def parse(manifest_text: str, input_text: str) -> Fixture:
        """Reads a manifest and an input, both YAML. A ValueError says what is wrong with them."""
        manifest, given = read_yaml(manifest_text), read_yaml(input_text)
        unknown = [name for name in given if name not in _INPUT]
        if unknown:
            raise ValueError(f"the input has an unknown field {unknown[0]}: it may have {', '.join(_INPUT)}")
        root = given.get("key") or {}
        if not root.get("kind") or not root.get("name"):
            raise ValueError("the input needs key.kind and key.name")
        queues = [queue["name"] for queue in manifest.get("queues") or []]
        if not root.get("queue") and not queues:
            raise ValueError("the manifest declares no queue")
        objects = store(given.get("objects") or [])
        world = World(
            manifest=manifest,
            now_text=given.get("now") or "2026-01-01T00:00:00Z",
            uptime_seconds=_uptime(given.get("uptime")),
            objects=objects,
            live=objects if given.get("live") is None else store(given["live"]),
            settings=_config(manifest, given.get("config") or {}),
            kept=given.get("state") or {},
            n_attempts=given.get("attempt") or 0,
            failed=[_failure(one) for one in given.get("failures") or []],
            known=read_resources(given.get("resources") or []),
            raw=given.get("raw") or {},
            discovery=given.get("discovery") or {},
            answers=Answers.read(given),
        )
        key = Key(root.get("queue") or queues[0], Kind.of(root["kind"]), root.get("namespace") or "", root["name"])
        return Fixture(key, world)

    def run(self, reconcile: Reconcile) -> Object:
        """Runs the key, answers its needs until there are no more, and shows the result in the form of the expected outcome of a case.

        Raises what the controller raises, if it is neither Retry nor Terminal, or the Fault of the run.
        """
        self._world.asked, self._world.fault = [], None
        result = self._result(reconcile)
        asked = {"asked": [render_need(need) for need in self._world.asked]} if self._world.asked else {}
        match result:
            case Retry() | Terminal():
                return {**asked, **render_error(result)}
            case _:
                return {**asked, **render_outcome(result, self._world)}

    def _result(self, reconcile: Reconcile) -> Outcome | Retry | Terminal:
        for _ in range(_MAX_ROUNDS):
            result = self._round(reconcile)
            if self._world.fault:
                raise self._world.fault
            if not isinstance(result, Outcome) or not result.needs:
                return result
            if len(result.needs) > MAX_NEEDS:
                raise Fault(f"fault: {len(result.needs)} needs, more than {MAX_NEEDS}")
            for need in result.needs:
                if need not in self._world.asked:
                    self._world.asked.append(need)
        shown = "; ".join(str(render_need(need)) for need in self._world.asked)
        raise Fault(f"fault: the controller still asks for reads after {_MAX_ROUNDS} rounds: {shown}")

    def _round(self, reconcile: Reconcile) -> Outcome | Retry | Terminal:
        try:
            outcome = reconcile(self.key, self.lister)
        except Needs as needs:
            return Outcome(needs=needs.needs[:MAX_NEEDS])
        except (Retry, Terminal) as error:
            return error
        if outcome is None:
            return Outcome()
        if not isinstance(outcome, Outcome):
            raise TypeError(f"reconcile returned {outcome!r:.100} instead of an Outcome or None")
        return outcome


#: Nanoseconds of the units of a duration.
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")


def _config(manifest: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The configuration as the controller sees it."""
    settings = {name: setting or {} for name, setting in (manifest.get("config") or {}).items()}
    defaults = {name: one["default"] for name, one in settings.items() if one.get("default") is not None}
    durations = {name for name, one in settings.items() if one.get("type") == "duration"}
    values = {**defaults, **given}
    return {name: _milliseconds(name, value) if name in durations else value for name, value in values.items()}


def _milliseconds(name: str, value: Any) -> Any:
    """A duration in Go's syntax, in whole milliseconds, rounded up."""
    if not isinstance(value, str):
        return value
    parts = _PART.findall(value)
    if value != "0" and (not parts or "".join(map("".join, parts)) != value):
        raise ValueError(f"config: {name}: {value!r} is not a duration")
    nanoseconds = sum(Decimal(number) * _UNITS[unit] for number, unit in parts)
    return ceil(nanoseconds / 10**6)


def _uptime(given: Any) -> float:
    seconds = 0.0 if given is None else given
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < inf:
        raise ValueError(f"uptime: {seconds!r} is not a number of seconds")
    return float(seconds)


def _failure(given: Object) -> MutationFailure:
    key = given.get("object") or {}
    return MutationFailure(
        step=given.get("step") or 0,
        position=given.get("position") or 0,
        verb=given.get("verb") or "",
        kind=Kind.of(given["kind"]) if given.get("kind") else Kind("", "", ""),
        object=ObjectKey(key.get("namespace") or "", key.get("name") or ""),
        subresource=given.get("subresource"),
        code=given.get("code") or 0,
        reason=given.get("reason") or "",
        message=given.get("message") or "",
        causes=given.get("causes") or [],
    )
