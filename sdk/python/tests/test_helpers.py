"""The helpers; what every language has in common is read from `sdk/vectors`."""

import json
import unittest
from datetime import timedelta
from pathlib import Path
from typing import Any

from pintle import (
    Event,
    Kind,
    Mutation,
    ObjectKey,
    Outcome,
    Retry,
    Step,
    Terminal,
    add_finalizer,
    controller_of,
    controller_ref,
    covers,
    event,
    find_condition,
    has_finalizer,
    hash_json,
    is_controlled_by,
    is_true,
    patch_status,
    remove_finalizer,
    set_condition,
)
from pintle.hashing import canonical

WIDGET = Kind.of("example.com/v1/Widget")


def widget(**metadata: Any) -> dict[str, Any]:
    meta = {"name": "w", "namespace": "default", "uid": "u", "resourceVersion": "7", **metadata}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta}


def vectors(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors" / f"{name}.json").read_text("utf-8"))
    assert len(found) > 10
    return found


class Hashes(unittest.TestCase):
    def test_texts_and_hashes_are_those_of_every_language(self) -> None:
        for vector in vectors("hash"):
            with self.subTest(vector["name"]):
                self.assertEqual(canonical(vector["value"]), vector["text"])
                self.assertEqual(hash_json(vector["value"]), vector["hash"])

    def test_numbers_that_languages_write_differently_are_errors(self) -> None:
        self.assertEqual(canonical([2.0, -0.0, -(2**53 - 1)]), "[2,0,-9007199254740991]")
        for number in (0.5, 1e300, 2**53, float("nan"), float("inf"), object()):
            with self.assertRaises(Terminal):
                hash_json({"a": [number]})

    def test_objects_cover_what_every_language_says_they_do(self) -> None:
        for vector in vectors("covers"):
            with self.subTest(vector["name"]):
                self.assertEqual(covers(vector["existing"], vector["wanted"]), vector["covers"])


class Names(unittest.TestCase):
    def test_a_kind_is_read_from_text_and_from_objects(self) -> None:
        for text, kind in (("v1/Pod", Kind("", "v1", "Pod")), ("apps/v1/Deployment", Kind("apps", "v1", "Deployment"))):
            self.assertEqual(Kind.of(text), kind)
            self.assertEqual(str(kind), text)
            self.assertEqual(Kind.of_object({"apiVersion": kind.api_version, "kind": kind.name}), kind)
        for text in ("", "Pod", "/v1/Pod", "a/b/c/d", "v1/"):
            with self.assertRaisesRegex(ValueError, "is not a kind"):
                Kind.of(text)
        with self.assertRaisesRegex(ValueError, "no apiVersion"):
            Kind.of_object({"kind": "Pod"})

    def test_a_controller_is_known_by_its_uid(self) -> None:
        reference = controller_ref(widget())
        names = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u"}
        self.assertEqual(reference, {**names, "controller": True, "blockOwnerDeletion": True})
        owned = {"metadata": {"ownerReferences": [{**reference, "uid": "x", "controller": False}, reference]}}
        self.assertEqual(controller_of(owned), reference)
        self.assertTrue(is_controlled_by(owned, "u"))
        self.assertFalse(is_controlled_by(owned, "x"))
        self.assertIsNone(controller_of(widget()))
        with self.assertRaisesRegex(ValueError, "uid"):
            controller_ref({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})

    def test_an_event_is_about_the_object_that_was_read(self) -> None:
        wanted = Event(WIDGET, ObjectKey("default", "w"), "u", "warning", "Broken", "it is")
        self.assertEqual(event(widget(), "warning", "Broken", "it is"), wanted)


class Writes(unittest.TestCase):
    def test_a_finalizer_comes_last_and_once_and_others_stay(self) -> None:
        def patch(*finalizers: str) -> Mutation:
            body = {"metadata": {"finalizers": [*finalizers]}}
            return Mutation.patch(WIDGET, "default", "w", "merge", body, uid="u", resource_version="7")

        self.assertEqual(add_finalizer(WIDGET, widget(), "b"), patch("b"))
        self.assertEqual(add_finalizer(WIDGET, widget(finalizers=["a"]), "b"), patch("a", "b"))
        self.assertEqual(add_finalizer(WIDGET, widget(finalizers=["b", "a"]), "b"), patch("b", "a"))
        self.assertEqual(remove_finalizer(WIDGET, widget(finalizers=["a", "b", "c"]), "b"), patch("a", "c"))
        self.assertTrue(has_finalizer(widget(finalizers=["a", "b"]), "b"))
        self.assertFalse(has_finalizer(widget(), "b"))

    def test_a_status_is_written_if_it_changes_and_what_is_no_longer_wanted_is_removed(self) -> None:
        def status(current: Any, wanted: Any) -> Any:
            patch = patch_status(WIDGET, {**widget(), "status": current}, wanted)
            if patch is None:
                return None
            body = {"status": (found := patch.action.body["status"])}  # type: ignore[union-attr, call-overload]
            whole = Mutation.patch(WIDGET, "default", "w", "merge", body, subresource="status", resource_version="7")
            self.assertEqual(patch, whole)
            return found

        self.assertIsNone(status({"a": [1], "b": {"c": None}}, {"b": {}, "a": [1]}))
        # Lists have an order, and their nulls count; True is not 1.
        self.assertEqual(status({"a": [1, 2]}, {"a": [2, 1]}), {"a": [2, 1]})
        self.assertEqual(status({"a": [None]}, {"a": []}), {"a": []})
        self.assertEqual(status({"a": 1}, {"a": True}), {"a": True})
        current, wanted = {"a": 1, "b": {"c": 1, "d": 2}, "e": {"f": 1}}, {"a": 1, "b": {"c": 2}, "g": [{}]}
        self.assertEqual(status(current, wanted), {"a": 1, "b": {"c": 2, "d": None}, "g": [{}], "e": None})
        self.assertEqual(status(None, {"a": 1}), {"a": 1})

    def test_outcomes_are_made_step_by_step(self) -> None:
        update = Mutation.update("v1/Pod", {})
        outcome = Outcome().step(Step.parallel([None])).step(Step.slow_start([None, update], always=True))
        self.assertEqual(outcome.steps, [Step("slow-start", (update,), True)])
        outcome.requeue_after(3).requeue_after(timedelta(seconds=1.5)).requeue_after(2).keep("a", "1").forget("b")
        self.assertEqual(outcome.requeue, timedelta(seconds=1.5))
        self.assertEqual(outcome.state, {"a": "1", "b": None})
        for wrong in (-1, timedelta(seconds=-1)):
            with self.assertRaisesRegex(ValueError, "negative"):
                Retry("later", wrong)


class Conditions(unittest.TestCase):
    def test_a_transition_is_a_change_of_the_status_alone(self) -> None:
        def condition(kind: str, status: str, reason: str) -> dict[str, Any]:
            return {"type": kind, "status": status, "reason": reason, "message": ""}

        def times(conditions: list[dict[str, Any]]) -> list[str]:
            return [f"{one['type']} {one['reason']} {one['lastTransitionTime'][-4:]}" for one in conditions]

        first = set_condition(None, condition("A", "False", "x"), "2026-01-01T00:00:01.999999Z")
        self.assertEqual(first[0]["lastTransitionTime"], "2026-01-01T00:00:01Z")
        second = set_condition(first, condition("B", "True", "y"), "2026-01-01T00:00:02Z")
        self.assertEqual(times(second), ["A x :01Z", "B y :02Z"])
        third = set_condition(second, {**condition("A", "False", "z"), "lastTransitionTime": "ignored"}, "2026-01-01T00:00:03Z")
        self.assertEqual(times(third), ["A z :01Z", "B y :02Z"])
        fourth = set_condition(third, condition("A", "True", "z"), "2026-01-01T00:00:04Z")
        self.assertEqual(times(fourth), ["A z :04Z", "B y :02Z"])
        timeless = set_condition([condition("A", "True", "x")], condition("A", "True", "x"), "2026-01-01T00:00:05Z")
        self.assertEqual(times(timeless), ["A x :05Z"])
        self.assertEqual(len(first), 1, "the old list stays as it is")
        self.assertTrue(is_true(fourth, "A"))
        self.assertIsNone(find_condition(fourth, "C"))
        self.assertFalse(is_true(None, "A"))
