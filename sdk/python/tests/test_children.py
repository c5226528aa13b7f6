"""The set of children; what is in it beside these is shown by `tests/webapp/cases`."""

import json
import unittest
from collections.abc import Callable
from typing import Any, cast

from pintle import APPLIED, Children, Kind, Lister, Object, ObjectKey, Plan, Query, Terminal, hash_json
from pintle.lister import View
from pintle.mutation import Apply, Delete, Patch

OWNER: Object = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "ns", "uid": "u"}}
REFERENCE = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u", "controller": True, "blockOwnerDeletion": True}


def config_map(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def applied(name: str, **metadata: Any) -> Object:
    annotations = {APPLIED: hash_json(config_map(name, namespace="ns"))}
    return config_map(name, **{"namespace": "ns", "uid": name, "ownerReferences": [REFERENCE], "annotations": annotations, **metadata})


class Cached:
    """A view with objects in the cache, ordered by name."""

    def __init__(self, objects: list[Object]) -> None:
        self._objects = sorted(objects, key=lambda one: str(one["metadata"]["name"]))

    def get(self, kind: Kind, key: ObjectKey) -> str | None:
        of_kind = (one for one in self._objects if Kind.of(f"{one['apiVersion']}/{one['kind']}") == kind)
        names = ((one, one["metadata"]) for one in of_kind)
        return next((json.dumps(one) for one, meta in names if (meta.get("namespace", ""), meta["name"]) == (key.namespace, key.name)), None)

    def list(self, kind: Kind, query: Query) -> list[str]:
        assert query.owner is not None
        uid = query.owner.uid
        return [
            json.dumps(one)
            for one in self._objects
            if Kind.of(f"{one['apiVersion']}/{one['kind']}") == kind
            and query.namespace in (None, one["metadata"].get("namespace"))
            and any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences", []))
        ]


def plan(objects: list[Object], want: Callable[[Children], Children], owner: Object = OWNER) -> tuple[list[Patch | Delete], Plan]:
    found = want(Children(owner, "me")).plan(Lister(cast(View, Cached(objects))))
    actions = [one.action for one in found.mutations]
    return [one for one in actions if isinstance(one, (Patch, Delete))], found


def brief(actions: list[Patch | Delete]) -> list[str]:
    return [f"{'delete ' if isinstance(one, Delete) else ''}{one.kind} {one.object.namespace}/{one.object.name} {one.uid or '-'}" for one in actions]


class Plans(unittest.TestCase):
    def test_what_is_missing_is_applied_and_the_wanted_object_stays_as_it_is(self) -> None:
        wanted = config_map("a", annotations={"x": "y"})
        mutations, _ = plan([], lambda children: children.own("v1/ConfigMap").want(wanted))
        annotations = {"x": "y", APPLIED: hash_json(config_map("a", annotations={"x": "y"}, namespace="ns"))}
        body = config_map("a", namespace="ns", ownerReferences=[REFERENCE], annotations=annotations)
        expected = Patch(Kind.of("v1/ConfigMap"), ObjectKey("ns", "a"), Apply("me", True), body, None, None, None)
        self.assertEqual(mutations, [expected])
        self.assertEqual(wanted, config_map("a", annotations={"x": "y"}))

    def test_what_is_there_is_left_alone_adopted_applied_again_waited_for_or_somebody_elses(self) -> None:
        others = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "x", "controller": True}]
        node = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "x"}
        weak = {**REFERENCE, "controller": False}
        cache = [
            applied("same"),
            applied("orphan", ownerReferences=[node, weak], resourceVersion="7"),
            {**config_map("unlike", namespace="ns", uid="unlike", resourceVersion="8"), "data": {"k": "other"}},
            applied("older", annotations={APPLIED: "0"}),
            applied("deleted", deletionTimestamp="2026-01-01T00:00:00Z"),
            applied("foreign", ownerReferences=others),
        ]
        wanted = [config_map(name) for name in ("same", "orphan", "unlike", "older", "deleted", "foreign")]
        mutations, found = plan(cache, lambda children: children.own("v1/ConfigMap").want(*wanted))
        expected = ["v1/ConfigMap ns/orphan orphan", "v1/ConfigMap ns/unlike unlike", "v1/ConfigMap ns/older older"]
        self.assertEqual(brief(mutations), expected)
        # Nothing else of them changes before they are adopted.
        for adoption, name, version, owners in [
            (mutations[0], "orphan", "7", [node, REFERENCE]),
            (mutations[1], "unlike", "8", [REFERENCE]),
        ]:
            body = {"metadata": {"ownerReferences": owners}}
            expected_adoption = Patch(Kind.of("v1/ConfigMap"), ObjectKey("ns", name), "merge", body, None, name, version)
            self.assertEqual(adoption, expected_adoption)
        self.assertEqual([*map(str, found.conflicts)], ["v1/ConfigMap ns/foreign is controlled by v1/Pod p"])
        self.assertEqual([*map(str, found.waiting)], ["v1/ConfigMap ns/deleted"])

    def test_drift_is_repaired_and_what_others_add_is_not_drift(self) -> None:
        there = {**applied("a"), "data": {"added": "x"}}
        self.assertEqual(plan([there], lambda children: children.own("v1/ConfigMap").want(config_map("a")))[0], [])
        wanted = {**config_map("a"), "data": {"k": "v"}}
        annotations = {APPLIED: hash_json({**config_map("a", namespace="ns"), "data": {"k": "v"}})}
        drifted = {**applied("a", annotations=annotations), "data": {"k": "other"}}
        mutations, _ = plan([drifted], lambda children: children.own("v1/ConfigMap").want(wanted))
        self.assertEqual(brief(mutations), ["v1/ConfigMap ns/a a"])

    def test_what_is_no_longer_wanted_is_deleted_by_kind_and_name(self) -> None:
        gone = applied("gone", deletionTimestamp="2026-01-01T00:00:00Z")
        secret = {**applied("s"), "kind": "Secret"}
        cache = [applied("b"), applied("a"), secret, gone, applied("elsewhere", namespace="other"), config_map("free", namespace="ns")]
        mutations, _ = plan(cache, lambda children: children.own("v1/Secret", "v1/ConfigMap"))
        self.assertEqual(brief(mutations), ["delete v1/Secret ns/s s", "delete v1/ConfigMap ns/a a", "delete v1/ConfigMap ns/b b"])
        cluster = {**OWNER, "metadata": {"name": "w", "uid": "u"}}
        self.assertEqual(len(plan(cache, lambda children: children.own("v1/ConfigMap"), cluster)[0]), 3, "all namespaces")

    def test_mistakes_are_told(self) -> None:
        mistakes: list[tuple[Callable[[Children], Children], str]] = [
            (lambda children: children.want(config_map("a")), "v1/ConfigMap ns/a is of a kind that is not owned: call own"),
            (lambda children: children.own("v1/ConfigMap").want(config_map("")), "a v1/ConfigMap has no metadata.name"),
            (lambda children: children.own("v1/ConfigMap").want(config_map("a"), config_map("a")), "v1/ConfigMap ns/a is wanted twice"),
            (lambda children: children.own("v1/ConfigMap").want(config_map("a", namespace="x")), "x/a is in another namespace"),
            (lambda children: children.own("v1/ConfigMap").want({**config_map("a"), "data": 0.5}), "not an integer"),
        ]
        for want, message in mistakes:
            with self.assertRaisesRegex(Terminal, message):
                want(Children(OWNER, "me")).plan(Lister(cast(View, Cached([]))))
