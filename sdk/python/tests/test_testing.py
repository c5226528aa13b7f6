"""The world of a fixture is what the host would show, and outcomes look as cases say."""

import tempfile
import unittest
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from pintle import (
    ApiError,
    Discovery,
    Done,
    Failed,
    Key,
    Kind,
    Lister,
    Mutation,
    Need,
    Needs,
    Object,
    Outcome,
    Place,
    Query,
    RawPath,
    Retry,
    Step,
    Terminal,
    any_owner,
    call,
    controller,
    controller_or_orphan,
    event,
    live_list,
    live_object,
    review,
    sign_certificate,
    sign_jwt,
)
from pintle.testing import Fault, Fixture, check_cases
from pintle.testing.answers import parse_fields
from pintle.testing.manifest import segments
from pintle.testing.render import duration
from pintle.testing.selector import parse, selects
from pintle.testing.yaml12 import read_yaml

MANIFEST = """
watches:
  - kind: v1/ConfigMap
    whole: true
    fields: [metadata.labels]
    labelSelector: "!hidden"
  - kind: v1/Pod
    namespace: default
    fields: [spec.containers.name, "metadata.annotations['a.b/c']"]
    indexes: [{name: node, field: spec.nodeName}, {name: port, field: spec.containers.ports}]
  - kind: v1/Service
    selects: {field: spec.selector, form: map}
    fields: [metadata.ownerReferences]
  - kind: policy/v1/PodDisruptionBudget
    selects: {field: spec.selector, form: labelSelector, empty: everything}
queues: [{name: first}, {name: second}]
config: {size: {default: 3}, name: {}}
"""

OBJECTS = """
key: {kind: v1/ConfigMap, namespace: ns, name: a}
objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: ns}, data: {x: "1"}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns, labels: {app: web}}, data: {x: "2"}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns, labels: {hidden: "yes"}}}
  - apiVersion: v1
    kind: Pod
    metadata: {name: p, namespace: default, annotations: {a.b/c: "1", other: "2"}, ownerReferences: [{uid: o, controller: true}]}
    spec: {nodeName: n1, containers: [{name: x, image: i, ports: [80, 81]}]}
  - {apiVersion: v1, kind: Pod, metadata: {name: q, namespace: default}, spec: {nodeName: n2, containers: []}}
  - {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: elsewhere}}
  - {apiVersion: v1, kind: Service, metadata: {name: s, namespace: ns, ownerReferences: [{uid: o}]}, spec: {selector: {app: web}}}
  - {apiVersion: v1, kind: Service, metadata: {name: t, namespace: ns}, spec: {selector: {}}}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all, namespace: ns}, spec: {selector: {}}}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: none, namespace: ns}, spec: {}}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: ns}, spec: {selector: {matchLabels: {app: web}}}}
"""


def run(reconcile: Callable[[Key, Lister], Outcome | None], more: str = "") -> Object:
    return Fixture.parse(MANIFEST, f"{OBJECTS}\n{more}").run(reconcile)


def seen(read: Callable[[Lister], Any], more: str = "") -> Any:
    """What a function finds in the world."""
    found: list[Any] = []

    def reconcile(_key: Key, lister: Lister) -> None:
        found.append(read(lister))

    run(reconcile, more)
    return found[0]


def names(objects: list[Object]) -> list[str]:
    return [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in objects]


class Reads(unittest.TestCase):
    def test_reads_give_projections_or_whole_objects_and_only_what_the_watch_has(self) -> None:
        meta = {"name": "a", "namespace": "ns", "labels": {"app": "web"}, "uid": "uid-a", "resourceVersion": "1"}
        whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"x": "2"}}
        self.assertEqual(seen(lambda lister: lister.get("v1/ConfigMap", "ns", "a")), whole)
        pod = seen(lambda lister: lister.get("v1/Pod", "default", "p"))
        self.assertEqual(pod["spec"], {"containers": [{"name": "x"}]})
        self.assertEqual(pod["metadata"]["annotations"], {"a.b/c": "1"})
        self.assertIsNone(seen(lambda lister: lister.get("v1/ConfigMap", "ns", "c")))
        self.assertIsNone(seen(lambda lister: lister.get("v1/Pod", "elsewhere", "p")))
        listed = seen(lambda lister: [(one["metadata"].get("labels"), "data" in one) for one in lister.list("v1/ConfigMap")])
        self.assertEqual(listed, [({"app": "web"}, False), (None, False)])
        self.assertEqual(seen(lambda lister: [one["data"]["x"] for one in lister.list("v1/ConfigMap", Query(whole=True))]), ["2", "1"])

    def test_lists_select_by_every_condition(self) -> None:
        for kind, query, wanted in (
            ("v1/ConfigMap", Query(), ["ns/a", "ns/b"]),
            ("v1/ConfigMap", Query(namespace="other"), []),
            ("v1/ConfigMap", Query(label_selector="app in (web,db)"), ["ns/a"]),
            ("v1/Pod", Query(index=("node", "n1")), ["default/p"]),
            ("v1/Pod", Query(index=("port", "81")), ["default/p"]),
            ("v1/Pod", Query(owner=controller("o")), ["default/p"]),
            ("v1/Pod", Query(owner=controller_or_orphan("x")), ["default/q"]),
            ("v1/Service", Query(owner=controller("o")), []),
            ("v1/Service", Query(owner=any_owner("o")), ["ns/s"]),
        ):
            with self.subTest(f"{kind} {query}"):
                self.assertEqual(seen(lambda lister: names(lister.list(kind, query))), wanted)
                self.assertEqual(seen(lambda lister: lister.count(kind, query)), len(wanted))

    def test_the_rest_is_what_the_input_says(self) -> None:
        more = """
now: 2026-02-03T04:05:06Z
state: {a: x}
attempt: 2
config: {name: n}
failures: [{verb: create, kind: v1/Pod, object: {name: p}, code: 409, reason: Conflict, message: m}]"""
        self.assertEqual(seen(lambda lister: (lister.now(), lister.state("a"), lister.state("b")), more), ("2026-02-03T04:05:06Z", "x", None))
        self.assertEqual(seen(lambda lister: (lister.attempt(), lister.config()), more), (2, {"size": 3, "name": "n"}))
        told = seen(lambda lister: [f"{one.verb} {one.kind} {one.object} {one.subresource}" for one in lister.failures()], more)
        self.assertEqual(told, ["create v1/Pod p None"])
        self.assertEqual(seen(lambda lister: names(lister.selecting("v1/Service", "ns", {"app": "web", "x": "y"}))), ["ns/s"])
        self.assertEqual(seen(lambda lister: names(lister.dependents("o"))), ["default/p", "ns/s"])
        self.assertEqual(seen(lambda lister: lister.by_uid("uid-s"))["kind"], "Service")

    def test_an_empty_selector_is_nothing_unless_the_watch_says_everything(self) -> None:
        for labels, wanted in (({"app": "web"}, ["ns/all", "ns/web"]), ({}, ["ns/all"])):
            with self.subTest(labels):
                found = seen(lambda lister: names(lister.selecting("policy/v1/PodDisruptionBudget", "ns", labels)))
                self.assertEqual(found, wanted)
        self.assertEqual(seen(lambda lister: lister.selecting("v1/Service", "ns", {})), [])

    def test_a_duration_is_in_milliseconds(self) -> None:
        manifest = MANIFEST.replace("config: {", "config: {every: {type: duration, default: 1h30m}, ")

        def config(given: str) -> Any:
            return Fixture.parse(manifest, f"{OBJECTS}\nconfig: {given}").lister.config()["every"]

        for given, expected in (("{}", 5_400_000), ("{every: 1.5s20ms}", 1520), ("{every: 1µs}", 1), ('{every: "0"}', 0)):
            with self.subTest(given):
                self.assertEqual(config(given), expected)
        for wrong in ("", "soon", "1", "s", "1s!", "-1s", "1.2.3s"):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, "config: every: .* is not a duration"):
                config(f'{{every: "{wrong}"}}')

    def test_uptime_is_what_the_input_says(self) -> None:
        self.assertEqual(seen(lambda lister: lister.uptime()), 0.0)
        self.assertEqual(seen(lambda lister: lister.uptime(), "uptime: 12.5"), 12.5)
        for wrong in ("-1", "true", "soon", ".inf", ".nan"):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, "uptime: .* is not a number of seconds"):
                run(lambda *_: None, f"uptime: {wrong}")

    def test_the_resources_of_one_kind_are_those_of_all_versions_as_of_the_last_discovery(self) -> None:
        def resource(kind: str, plural: str) -> str:
            return f"{{kind: {kind}, plural: {plural}, namespaced: true, verbs: [get]}}"

        versions = [resource("apps/v1beta1/Deployment", "deployments"), resource("apps/v1/Deployment", "deployments")]
        others = [resource("apps/v1/ReplicaSet", "replicasets"), resource("example.com/v1/Deployment", "plans"), resource("v1/Pod", "pods")]
        known = f"resources: [{', '.join([*versions, *others])}]"
        discovery = f"discovery: {{resources: [{resource('apps/v2/Deployment', 'deployments')}]}}"

        def found(group: str, kind: str, again: bool = False) -> list[str]:
            resources: list[str] = []

            def reconcile(_key: Key, lister: Lister) -> None:
                if again:
                    lister.ask(Discovery())
                resources.extend(f"{one.kind} {one.plural}" for one in lister.resources_of(group, kind))

            Fixture.parse(f"{MANIFEST}\ndiscovery: true", f"{OBJECTS}\n{known}\n{discovery}").run(reconcile)
            return resources

        self.assertEqual(found("apps", "Deployment"), ["apps/v1beta1/Deployment deployments", "apps/v1/Deployment deployments"])
        self.assertEqual(found("example.com", "Deployment"), ["example.com/v1/Deployment plans"])
        self.assertEqual(found("", "Pod"), ["v1/Pod pods"])
        self.assertEqual(found("", "Deployment"), [])
        self.assertEqual(found("apps", "deployments"), [])
        self.assertEqual(found("apps", "Deployment", again=True), ["apps/v2/Deployment deployments"])

    def test_what_the_host_would_end_the_run_for_fails_it_even_if_it_is_caught(self) -> None:
        reads: list[tuple[Callable[[Lister], Any], str]] = [
            (lambda lister: lister.get("v1/Secret", "ns", "s"), "the manifest does not watch v1/Secret"),
            (lambda lister: lister.list("v1/Pod", Query(whole=True)), "does not declare `whole`"),
            (lambda lister: lister.list("v1/Pod", Query(index=("zone", "a"))), "declares no index 'zone'"),
            (lambda lister: lister.list("v1/Pod", Query(label_selector="a b")), "does not parse"),
            (lambda lister: lister.selecting("v1/Pod", "default", {}), "does not declare `selects`"),
            (lambda lister: lister.resources(), "discovery: true"),
            (lambda lister: lister.resources_of("apps", "Deployment"), "discovery: true"),
            (lambda lister: lister.ask(live_list("v1/Pod", field_selector="spec.nodeName")), "not a term of a field selector"),
            (lambda lister: lister.ask(live_list("v1/Secret", detail="projection")), "does not watch v1/Secret"),
        ]
        for read, message in reads:

            def careless(_key: Key, lister: Lister) -> None:
                try:
                    read(lister)
                except Fault:
                    pass

            with self.assertRaisesRegex(Fault, message):
                run(careless)
        with self.assertRaises(ZeroDivisionError):
            run(lambda *_: 1 // 0)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "reconcile returned 5"):
            run(lambda *_: 5)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "unknown field object"):
            run(lambda *_: None, "object: []")

    def test_needs_are_answered_until_there_are_no_more(self) -> None:
        live = """
live: [{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default, labels: {a: b}}, spec: {nodeName: live}}]
raw: {/version: {major: "1"}}"""

        def reconcile(_key: Key, lister: Lister) -> Outcome:
            pod = lister.live("v1/Pod", "default", "p") or {}
            gone = lister.live("v1/Pod", "default", "q")
            listed = lister.ask(live_list("v1/Pod", "default", "a=b", 5))
            raw = lister.ask(RawPath("/version"))
            missing = lister.ask(RawPath("/nothing"))
            kinds = [type(answer).__name__ for answer in (listed, raw, missing)]
            return Outcome().keep("seen", f"{pod['spec']['nodeName']} {gone} {' '.join(kinds)}")

        asked = ["get v1/Pod default/p", "get v1/Pod default/q", 'list v1/Pod in "default" with "a=b", at most 5', "get /version", "get /nothing"]
        self.assertEqual(run(reconcile, live), {"asked": asked, "steps": [], "state": {"seen": "live None str str ApiError"}})
        paths = iter(range(100))

        def endless(_key: Key, lister: Lister) -> None:
            lister.ask(RawPath(f"/{next(paths)}"))

        with self.assertRaisesRegex(Fault, "still asks for reads after 8 rounds"):
            run(endless)


ANSWERS = """
live:
  - {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default, labels: {a: b}}, spec: {nodeName: n1, containers: [{name: x, image: i}]}}
  - {apiVersion: v1, kind: Pod, metadata: {name: q, namespace: default}, spec: {nodeName: n2}}
  - {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: default}, data: {x: eA==}}
subresources:
  - {kind: apps/v1/Deployment, namespace: default, name: web, subresource: scale, answer: {spec: {replicas: 3}}}
reviews:
  - {kind: a/v1/XReview, spec: {user: ann, is: true}, status: {allowed: true}}
  - {kind: a/v1/XReview, status: {allowed: false}}
  - {kind: a/v1/LocalXReview, namespace: ns, status: {n: 1}}
signatures:
  - {by: key, claims: {sub: bob}, answer: for.bob}
  - {by: key, claims: {sub: ann}, answer: for.ann}
  - {by: ca, error: {code: 0, reason: Expired}}
calls:
  - {endpoint: desk, operation: find, body: {name: ann}, answer: {place: here}}
  - {endpoint: desk, operation: find, error: {code: 503, reason: Busy, message: later}}
"""


class Answers(unittest.TestCase):
    """What a case answers to needs."""

    def answer(self, need: Need) -> Any:
        found: list[Any] = []

        def reconcile(_key: Key, lister: Lister) -> None:
            found.append(lister.ask(need))

        run(reconcile, ANSWERS)
        return found[0]

    def test_live_lists_select_by_fields_and_give_as_much_as_is_asked_for(self) -> None:
        def listed(**more: Any) -> Any:
            return read_yaml(self.answer(live_list("v1/Pod", "default", **more)))

        self.assertEqual(names(listed(field_selector="spec.nodeName=n1")), ["default/p"])
        self.assertEqual(names(listed(field_selector="spec.nodeName!=n1,metadata.name==q")), ["default/q"])
        self.assertEqual(names(listed(limit=1)), ["default/p"])
        self.assertEqual([sorted(one) for one in listed()], [["apiVersion", "kind", "metadata"]] * 2)
        self.assertEqual(listed(label_selector="a=b", detail="projection")[0]["spec"], {"containers": [{"name": "x"}]})
        self.assertEqual(listed(label_selector="a=b", detail="whole")[0]["spec"]["containers"], [{"name": "x", "image": "i"}])
        self.assertEqual(read_yaml(self.answer(live_list("v1/Secret", detail="whole")))[0]["data"], {"x": "eA=="})

    def test_a_field_that_is_not_there_is_empty_and_others_are_compared_as_texts(self) -> None:
        obj = {"spec": {"n": 1, "on": True, "none": None, "text": "a", "list": [1, "x"]}}
        for selector, wanted in (
            ("", True),
            ("spec.n=1", True),
            ("spec.on=true,spec.text=a", True),
            ("spec.on=True", False),
            ("spec.none=,spec.gone=,spec.text.deeper=", True),
            ("spec.gone!=", False),
            ("spec.list=[1,spec.text=a", False),
            ("spec.text!=b", True),
        ):
            with self.subTest(selector):
                self.assertEqual(all(term.matches(obj) for term in parse_fields(selector)), wanted)

    def test_the_first_answer_that_fits_counts(self) -> None:
        absent = "{}; a case has it in `{}` not found"
        for need, wanted in (
            (live_object("apps/v1/Deployment", "default", "web", subresource="scale"), {"spec": {"replicas": 3}}),
            (live_object("apps/v1/Deployment", "default", "db", subresource="scale"), "apps/v1/Deployment/scale default/db; a case has it in `subresources` not found"),
            (sign_jwt("key", {"sub": "ann", "aud": "x"}), "for.ann"),
            (sign_jwt("key", {"sub": "eve"}), absent.format("a signature by key", "signatures")),
            (sign_certificate("ca", "R", [], "a", "b"), "Expired"),
            (call("desk", "find", {"name": "ann"}, timeout=1), {"place": "here"}),
            (call("desk", "find", {}), "Busy"),
            (call("desk", "look", {}), absent.format("an answer to desk/look {}", "calls")),
            (review("a/v1/YReview", "", {"spec": {"user": "ann"}}), absent.format('a verdict on a/v1/YReview {"user": "ann"}', "reviews")),
            (review("a/v1/LocalXReview", "other", {}), absent.format("a verdict on a/v1/LocalXReview null", "reviews")),
        ):
            with self.subTest(str(need)):
                answer = self.answer(need)
                if isinstance(answer, ApiError):
                    self.assertEqual(answer.message if answer.code == 404 else answer.reason, wanted)
                else:
                    self.assertEqual(answer if isinstance(wanted, str) else read_yaml(answer), wanted)

    def test_reviews_come_back_with_their_kind_and_status(self) -> None:
        # True is not 1.
        for user, is_it, allowed in (("ann", True, True), ("ann", 1, False), ("bob", True, False)):
            asked = {"spec": {"user": user, "is": is_it, "more": "x"}}
            wanted = {"apiVersion": "a/v1", "kind": "XReview", **asked, "status": {"allowed": allowed}}
            self.assertEqual(read_yaml(self.answer(review("a/v1/XReview", "", asked))), wanted)
        self.assertEqual(read_yaml(self.answer(review("a/v1/LocalXReview", "ns", {})))["status"], {"n": 1})

    def test_the_short_ways_give_what_is_asked_for_and_retry_refusals(self) -> None:
        def reconcile(_key: Key, lister: Lister) -> Outcome:
            scale = lister.live("apps/v1/Deployment", "default", "web", subresource="scale") or {}
            gone = lister.live("apps/v1/Deployment", "default", "db", subresource="scale")
            status = lister.review("a/v1/XReview", "", {"spec": {"user": "ann", "is": True}})
            return Outcome().keep("seen", f"{scale['spec']['replicas']} {gone} {status['allowed']}")

        self.assertEqual(run(reconcile, ANSWERS)["state"], {"seen": "3 None True"})
        refused = run(lambda _, lister: Outcome().keep("x", str(lister.review("a/v1/Y", "", {}))), ANSWERS)
        self.assertEqual(refused["retry"], "ask for a Y: a verdict on a/v1/Y null; a case has it in `reviews` not found")

    def test_entries_with_missing_or_unknown_fields_are_named(self) -> None:
        for given, why in (
            ("signatures: [{answer: x}]", r"signatures\[0\].by is missing"),
            ("calls: [{endpoint: e, operation: o, reply: x}]", r"calls\[0\] has an unknown field reply: it may have endpoint, operation, body, answer, error"),
            ("reviews: [{kind: a/v1/X, status: {}}, {kind: a/v1/X}]", r"reviews\[1\].status is missing"),
            ("subresources: [{kind: a/v1/X, name: x, subresource: scale}]", r"subresources\[0\].answer is missing"),
        ):
            with self.subTest(given), self.assertRaisesRegex(ValueError, why):
                run(lambda *_: None, given)


class Shows(unittest.TestCase):
    def test_outcomes_look_as_the_expected_files_do(self) -> None:
        def reconcile(key: Key, lister: Lister) -> Outcome:
            found = lister.get("v1/ConfigMap", key.namespace, key.name) or {}
            told = event(found, "warning", "R", "m {error}")
            pod = Mutation.create("v1/Pod", "ns", {"metadata": {"generateName": "x-"}}, on_failure=told, tolerate=["already-exists"])
            rest = [
                Mutation.patch("v1/ConfigMap", "ns", "a", "strategic-merge", {}, uid="u"),
                Mutation.delete("v1/Pod", "ns", "p", resource_version="1", propagation="foreground", grace_period_seconds=0),
                Mutation.delete_collection("v1/Pod", "ns"),
                Mutation.event(told),
            ]
            update = Mutation.update("v1/ConfigMap", {**found, "data": {"y": "1"}})
            outcome = Outcome().step(Step.slow_start([pod, pod, update])).step(Step.sequential(rest, always=True))
            return outcome.requeue_after(90).forget("x").observe("n", ["a", "b"], 1)

        about = "Warning R on v1/ConfigMap ns/a (uid-a): m {error}"
        create = {"create": "v1/Pod ns", "object": {"metadata": {"generateName": "x-"}}, "onFailure": about}
        first = [
            {**create, "tolerate": ["already-exists"], "times": 2},
            {"update": "v1/ConfigMap ns/a", "changes": {"data": {"y": "1", "x": None}}},
        ]
        second = [
            {"patch": "v1/ConfigMap ns/a", "form": "strategic-merge", "if": {"uid": "u"}, "body": {}},
            {"delete": "v1/Pod ns/p", "if": {"resourceVersion": "1"}, "propagation": "foreground", "gracePeriodSeconds": 0},
            {"deleteCollection": "v1/Pod ns"},
            {"event": about},
        ]
        steps = [{"order": "slow-start", "mutations": first}, {"order": "sequential", "always": True, "mutations": second}]
        wanted = {"steps": steps, "requeueAfter": "90s", "state": {"x": None}, "observations": ["n{a,b} 1"]}
        self.assertEqual(run(reconcile), wanted)

    def test_needs_are_shown_by_their_parts(self) -> None:
        needs = [
            live_object("apps/v1/Deployment", "default", "web", subresource="scale"),
            live_list("v1/Pod", "", "a=b", 5, field_selector="spec.nodeName=n1", detail="projection"),
            live_list("v1/Pod", "ns", detail="whole"),
            review("a/v1/XReview", "", {"spec": {"user": "ann"}}),
            review("a/v1/LocalXReview", "ns", {}),
            sign_jwt("key", {"sub": "ann"}),
            sign_certificate("ca", "R", ["client auth"], "a", "b"),
            call("desk", "find", {"name": "ann"}, timeout=2),
            call("desk", "find", None),
        ]

        def reconcile(_key: Key, lister: Lister) -> Outcome:
            try:
                lister.ask(needs[0])
            except Needs:
                return Outcome(needs=needs)
            return Outcome()

        wanted = [
            "get apps/v1/Deployment/scale default/web",
            'list v1/Pod in "" with "a=b" and fields "spec.nodeName=n1", at most 5, as projections',
            'list v1/Pod in "ns" with "", at most 500, whole',
            {"review": "a/v1/XReview", "object": {"spec": {"user": "ann"}}},
            {"review": "a/v1/LocalXReview in ns", "object": {}},
            {"sign-jwt": "key", "claims": {"sub": "ann"}},
            {"sign-certificate": "ca", "request": "R", "usages": ["client auth"], "notBefore": "a", "notAfter": "b"},
            {"call": "desk/find", "body": {"name": "ann"}, "timeoutMs": 2000},
            {"call": "desk/find", "body": None},
        ]
        self.assertEqual(run(reconcile, ANSWERS), {"asked": wanted, "steps": []})

    def test_wakes_samples_and_labels_of_the_run_are_shown(self) -> None:
        def reconcile(_key: Key, _lister: Lister) -> Outcome:
            pod = Kind.of("v1/Pod")
            outcome = Outcome().wake(Key("first", pod, "ns", "p")).wake(Key("second", Kind.of("pintle/v1/Tick"), "", "second"), 1.5)
            outcome.observe("n", [], 0.5).observe("n", ["a"], 1, at=Done(Place(0, 1))).observe("n", ["b"], 2, at=Failed(Place(1, 0)))
            return outcome.run_label("do", "this").run_label("do", "that").requeue_at("2027-01-01T00:00:00Z", "2026-01-01T00:00:00Z")

        samples = ["n{} 0.5", "n{a} 1 when steps[0].mutations[1] is done", "n{b} 2 when steps[1].mutations[0] has failed"]
        wakes = ["first: v1/Pod ns/p", "second: pintle/v1/Tick second after 1.5s"]
        wanted = {"steps": [], "requeueAfter": "2147483.647s", "observations": samples, "wake": wakes, "runLabels": {"do": "that"}}
        self.assertEqual(run(reconcile), wanted)

    def test_errors_are_shown(self) -> None:
        def fail(error: Exception) -> Callable[[Key, Lister], Outcome]:
            def reconcile(_key: Key, _lister: Lister) -> Outcome:
                raise error

            return reconcile

        self.assertEqual(run(fail(Retry("later", 1.5))), {"retry": "later", "after": "1.5s"})
        self.assertEqual(run(fail(Terminal("never"))), {"terminal": "never"})

    def test_errors_of_outcomes_are_shown_as_those_that_are_raised(self) -> None:
        errors: list[tuple[Retry | Terminal, Object]] = [
            (Retry("later", 1.5), {"retry": "later", "after": "1.5s"}),
            (Retry("later"), {"retry": "later"}),
            (Terminal("never"), {"terminal": "never"}),
        ]
        for error, wanted in errors:
            with self.subTest(str(wanted)):
                shown = run(lambda *_: Outcome().keep("a", "1").fail(error))
                self.assertEqual(shown, {"steps": [], "state": {"a": "1"}, "error": wanted})

    def test_times_and_paths_are_written_as_elsewhere(self) -> None:
        spans = [0, 0.0005, 0.25, 1, 1.5, 90]
        self.assertEqual([duration(timedelta(seconds=one)) for one in spans], ["0ns", "500µs", "250ms", "1s", "1.5s", "90s"])
        self.assertEqual(segments("metadata.annotations['a.b/c'].d"), ["metadata", "annotations", "a.b/c", "d"])
        with self.assertRaisesRegex(ValueError, "not a field path"):
            segments("a..b")

    def test_selectors_match_as_kubectl_says(self) -> None:
        cases: list[tuple[str, dict[str, str], bool]] = [
            ("", {"a": "b"}, True),
            ("a=b", {"a": "b"}, True),
            ("a==b", {"a": "c"}, False),
            ("a!=b", {}, True),
            ("a in (b, c),d", {"a": "c", "d": "x"}, True),
            ("a in (b,c),d", {"a": "c"}, False),
            ("a notin (b,c)", {"a": "b"}, False),
            ("a notin (b,c)", {}, True),
            ("!a", {"a": "b"}, False),
            ("!a,b", {"b": ""}, True),
        ]
        for selector, labels, wanted in cases:
            self.assertEqual(selects(parse(selector), labels), wanted, f"{selector} on {labels}")
        for text in ("a b", "a in b", "in (b)", "=b", "a in (b", "a,,b"):
            with self.assertRaisesRegex(ValueError, "does not parse"):
                parse(text)

    def test_yaml_is_read_as_the_host_reads_it(self) -> None:
        text = "a: 007\nb: on\nc: 2026-01-01T00:00:00Z\nd: 12:30\ne: ~\nf: 1.5\ng: 0x10\nh: {1: x, true: y}\ni: &i {k: 1}\nj: {<<: *i, l: 2}"
        wanted = {"a": 7, "b": "on", "c": "2026-01-01T00:00:00Z", "d": "12:30", "e": None, "f": 1.5, "g": 16}
        self.assertEqual(read_yaml(text), {**wanted, "h": {"1": "x", "true": "y"}, "i": {"k": 1}, "j": {"k": 1, "l": 2}})


class Cases(unittest.TestCase):
    def test_a_case_that_differs_or_has_no_expectation_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "manifest.yaml").write_text(MANIFEST)
            (folder / "cases").mkdir()
            for case, expected in (("right", "---\nsteps: []"), ("wrong", "---\nterminal: no"), ("new", "")):
                (folder / "cases" / f"{case}.yaml").write_text(f"{OBJECTS}{expected}")
            with self.assertRaisesRegex(AssertionError, "(?s)2 of 3 cases failed: new, wrong\nnew: no outcome is expected yet.*steps: "):
                check_cases(folder, lambda *_: None)
            with self.assertRaisesRegex(AssertionError, "no cases in"):
                (folder / "none").mkdir()
                check_cases(folder, lambda *_: None, cases="none")
            with self.assertRaisesRegex(AssertionError, "old is a folder, but a case is one file"):
                (folder / "none/old").mkdir()
                (folder / "none/old/input.yaml").write_text(OBJECTS)
                check_cases(folder, lambda *_: None, cases="none")
