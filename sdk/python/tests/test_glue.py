"""What the glue of components adds to a run: places of exceptions, and answers to calls that a run cannot make."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from pintle import Kind
from pintle.places import describe

from .test_types import make_bindings


def explode(value: Any) -> Any:
    return value["spec"]


class Places(unittest.TestCase):
    def told(self, value: Any) -> str:
        try:
            explode(value)
        except Exception as error:
            return describe(error)
        raise AssertionError("nothing was raised")

    def test_an_exception_is_told_with_the_authors_places_innermost_first(self) -> None:
        line = explode.__code__.co_firstlineno + 1
        pattern = rf"^KeyError: 'spec' at \S*test_glue.py:{line} \(explode\), called from \S*test_glue.py:\d+ \(told\)$"
        self.assertRegex(self.told({}), pattern)

    def test_places_of_the_sdk_are_told_only_if_there_are_no_others(self) -> None:
        try:
            Kind.of("Pod")
        except ValueError as error:
            self.assertRegex(describe(error), r"is not a kind.* at \S*test_glue.py:\d+ \([a-z_]+\)$")
            # As it is when the glue itself calls the SDK.
            assert error.__traceback__ is not None
            error.__traceback__ = error.__traceback__.tb_next
            self.assertRegex(describe(error), r" at \S*kinds.py:\d+ \(of\)$")
        self.assertEqual(describe(ValueError("x")), "ValueError: x")


class Guards(unittest.TestCase):
    def answer(self, code: str, active: bool = True) -> str:
        """What a line of an author's module ends in; the guards are global, so it has an interpreter of its own."""
        program = f"""
import datetime as early
from pintle import guards
guards.install()
import datetime, os, random, time, uuid
from time import time as clock
guards.active = {active}
try:
    print({code})
except Exception as error:
    print(type(error).__name__ + ":", error)
"""
        folder = Path(__file__).parents[1]
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def test_clock_and_chance_are_refused_in_a_run(self) -> None:
        for code, name, instead in (
            ("time.time()", "time.time()", "use lister.now()"),
            ("clock()", "time.time()", "use lister.now()"),
            ("time.gmtime()", "time.gmtime()", "use lister.now()"),
            ("datetime.datetime.now()", "datetime.now()", "use lister.now()"),
            ("datetime.date.today()", "date.today()", "use lister.now()"),
            ("random.choice([1])", "random.choice()", "derive what must differ"),
            ("uuid.uuid4()", "os.urandom()", "derive what must differ"),
        ):
            with self.subTest(code):
                wanted = f"RuntimeError: {name} is not there, because the same view must give the same outcome: {instead}"
                self.assertTrue(self.answer(code).startswith(wanted), self.answer(code))

    def test_what_is_pure_goes_on(self) -> None:
        for code, wanted in (
            ("datetime.datetime.fromisoformat('2026-01-01T00:00:00+00:00').isoformat()", "2026-01-01T00:00:00+00:00"),
            ("isinstance(early.datetime(2026, 1, 1), datetime.datetime)", "True"),
            ("isinstance(datetime.datetime(2026, 1, 1), datetime.date)", "True"),
            ("isinstance(datetime.date(2026, 1, 1), datetime.datetime)", "False"),
            ("time.gmtime(0).tm_year", "1970"),
            ("random.Random(1).random() == random.Random(1).random()", "True"),
        ):
            with self.subTest(code):
                self.assertEqual(self.answer(code), wanted)

    def test_modules_must_be_imported_before_runs_begin(self) -> None:
        wanted = "ImportError: colorsys must be imported at the top of a module: in a run there are no files to read it from"
        self.assertEqual(self.answer("__import__('colorsys')"), wanted)

    def test_while_a_component_is_built_all_is_there(self) -> None:
        self.assertRegex(self.answer("time.time()", active=False), r"^\d+\.\d+$")


class Wire(unittest.TestCase):
    """The glue, with the bindings of a component and a host that is a few lines of Python."""

    #: What is there in a component: the functions of the host, and a lister.
    HOST = """
import sys, types
sys.modules["componentize_py_runtime"] = types.SimpleNamespace()
from datetime import timedelta
from pintle import *
from pintle import component
from wit_world.imports import types as t
from wit_world.imports import view as v
from componentize_py_types import Ok, Err

class Raw:
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def uptime(self): return 12.5
    def now(self): return "2026-01-01T00:00:00.000000Z"
    def answer(self, need):
        asked.append(need)
        return answers.pop(0)
    def resources_of(self, group, name):
        return [v.ApiResource(t.Kind(group, one, name), "deployments", True, ["get"], ["scale"], one == "v1") for one in ("v1beta1", "v1")]

asked, answers = [], []
author = types.SimpleNamespace(__name__="app")
key = t.Key("q", t.Kind("", "v1", "Pod"), t.ObjectKey("ns", "p"))
POD = Kind.of("v1/Pod")
component.wit_log.write = lambda level, message: print("log:", message, file=stdout)

def run(function):
    author.reconcile = function
    return component.world(author).reconcile(None, key, Raw())

def mapped(function):
    author.keys_of = function
    return component.mapping(author).keys_of(None, key.kind, '{"a": 1}', None, Raw())

stdout = sys.__stdout__
"""

    def printed(self, program: str) -> list[str]:
        """The lines that a program prints to `stdout`."""
        sdk = Path(__file__).parents[1]
        with tempfile.TemporaryDirectory() as bindings:
            make_bindings(bindings, "mapping-controller")
            env = {"PYTHONPATH": f"{sdk}:{bindings}", "PYTHONDONTWRITEBYTECODE": "1"}
            command = [sys.executable, "-c", self.HOST + program]
            done = subprocess.run(command, env=env, cwd=bindings, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def test_outcomes_cross_in_full(self) -> None:
        program = """
def reconcile(key, lister):
    outcome = Outcome().wake(Key("q", POD, "ns", "o")).wake(Key("r", Kind.of("pintle/v1/Tick"), "", "r"), after=0.0011)
    outcome.step(Step.sequential([Mutation.delete(POD, "ns", "p")]))
    place = outcome.last_place()
    outcome.observe("n", ["a"], 1).observe("n", ["b"], 2, at=Done(place)).observe("n", ["c"], 3, at=Failed(place))
    outcome.run_label("do", "x").keep("uptime", str(lister.uptime()))
    return outcome.requeue_at("2027-01-01T00:00:00Z", lister.now())

outcome = run(reconcile)
for part in (outcome.wake, outcome.observations, outcome.run_labels, outcome.state, outcome.requeue_after_ms):
    print(part, file=stdout)
"""
        pod, tick = "kind=Kind(group='', version='v1', name='Pod')", "kind=Kind(group='pintle', version='v1', name='Tick')"
        place = "value=Place(step=0, position=0)"
        wakes = [
            f"Wake(key=Key(queue='q', {pod}, object=ObjectKey(namespace='ns', name='o')), after_ms=None)",
            f"Wake(key=Key(queue='r', {tick}, object=ObjectKey(namespace='', name='r')), after_ms=2)",
        ]
        samples = [
            "Observation(metric='n', labels=['a'], value=1.0, at=Moment_Now())",
            f"Observation(metric='n', labels=['b'], value=2.0, at=Moment_Done({place}))",
            f"Observation(metric='n', labels=['c'], value=3.0, at=Moment_Failed({place}))",
        ]
        wanted = [f"[{', '.join(wakes)}]", f"[{', '.join(samples)}]", "[('do', 'x')]", "[StateWrite(name='uptime', value='12.5')]", "2147483647"]
        self.assertEqual(self.printed(program), wanted)

    def test_errors_cross_in_outcomes_as_when_they_are_raised(self) -> None:
        program = """
def fail(error):
    raise error

for error in (Retry("later"), Retry("later", timedelta(microseconds=1)), Terminal("never")):
    outcome = run(lambda *_: Outcome().keep("a", "1").fail(error))
    print(outcome.state, outcome.error, file=stdout)
    try:
        run(lambda *_: fail(error))
    except Err as raised:
        print(raised.value == outcome.error, file=stdout)
print(run(lambda *_: None).error, file=stdout)
"""
        state = "[StateWrite(name='a', value='1')]"
        errors = [
            "ReconcileError_Retry(value=Retry(message='later', after_ms=None))",
            "ReconcileError_Retry(value=Retry(message='later', after_ms=1))",
            "ReconcileError_Terminal(value='never')",
        ]
        wanted = [line for error in errors for line in (f"{state} {error}", "True")]
        self.assertEqual(self.printed(program), [*wanted, "None"])

    def test_resources_of_one_kind_come_in_every_version(self) -> None:
        program = """
def reconcile(_, lister):
    for one in lister.resources_of("apps", "Deployment"):
        print(one.kind, one.plural, one.namespaced, one.verbs, one.subresources, one.preferred, file=stdout)

run(reconcile)
"""
        wanted = [f"apps/{version} deployments True ['get'] ['scale'] {last}" for version, last in (("v1beta1/Deployment", False), ("v1/Deployment", True))]
        self.assertEqual(self.printed(program), wanted)

    def test_needs_cross_in_full_and_refusals_come_back(self) -> None:
        program = """
needs = [
    live_object("v1/Pod", "ns", "p"),
    live_object("v1/Pod", "ns", "p", subresource="scale"),
    live_list("v1/Pod", "ns", "a=b", 3_000_000_000, field_selector="spec.nodeName=n", detail="projection"),
    live_list("v1/Pod"),
    review("a/v1/XReview", "ns", {"b": "\u00e9"}),
    sign_jwt("k", {"z": 1, "a": 2}),
    sign_certificate("ca", "R", ["client auth"], "now", "then"),
    call("desk", "look-up", [None], timeout=timedelta(microseconds=1)),
    call("desk", "look-up", None),
]
for need in run(lambda *_: Outcome(needs=needs)).needs:
    print(need, file=stdout)
answers[:] = [Err(t.Kind("", "", ""))]
answers[0].value.code, answers[0].value.reason, answers[0].value.message = 0, "NotGranted", "no"
print(run(lambda _, lister: Outcome().keep("x", str(lister.ask(needs[5])))).state, asked, file=stdout)
"""
        pod, object_key = "kind=Kind(group='', version='v1', name='Pod')", "object=ObjectKey(namespace='ns', name='p')"
        jwt = """Need_SignJwt(value=SignJwt(key='k', claims='{"z":1,"a":2}'))"""
        wanted = [
            f"Need_LiveObject(value=LiveObject({pod}, {object_key}, subresource=None))",
            f"Need_LiveObject(value=LiveObject({pod}, {object_key}, subresource='scale'))",
            f"Need_LiveList(value=LiveList({pod}, namespace='ns', label_selector='a=b', field_selector='spec.nodeName=n', "
            "detail=<Detail.PROJECTION: 1>, limit=2147483647))",
            f"Need_LiveList(value=LiveList({pod}, namespace='', label_selector=None, field_selector=None, "
            "detail=<Detail.METADATA: 0>, limit=500))",
            """Need_Review(value=Review(kind=Kind(group='a', version='v1', name='XReview'), namespace='ns', object='{"b":"é"}'))""",
            jwt,
            "Need_SignCertificate(value=SignCertificate(authority='ca', request='R', usages=['client auth'], not_before='now', "
            "not_after='then'))",
            "Need_Call(value=Call(endpoint='desk', operation='look-up', body='[null]', timeout_ms=1))",
            "Need_Call(value=Call(endpoint='desk', operation='look-up', body='null', timeout_ms=None))",
            f"""[StateWrite(name='x', value="ApiError(code=0, reason='NotGranted', message='no')")] [{jwt}]""",
        ]
        self.assertEqual(self.printed(program), wanted)

    def test_mapped_keys_can_wait_and_a_wrong_place_is_an_error_of_the_run(self) -> None:
        program = """
def keys_of(kind, before, after, lister):
    return [Key("q", kind, "ns", str(before["a"])), Wake(Key("q", kind, "ns", str(after)), 0.25)]

for wake in mapped(keys_of):
    print(wake.key.object, wake.after_ms, file=stdout)
try:
    run(lambda *_: Outcome().observe("n", [], 1, at=Done(Place(0, -1))))
except ValueError as error:
    print("ValueError:", error, file=stdout)
"""
        refusal = "Place(step=0, position=-1) is not the place of a mutation: use outcome.last_place()"
        wanted = [
            "ObjectKey(namespace='ns', name='1') None",
            "ObjectKey(namespace='ns', name='None') 250",
            f"ValueError: {refusal}",
        ]
        printed = self.printed(program)
        self.assertRegex(printed.pop(2), f"^log: ValueError: {re.escape(refusal)} at ")
        self.assertEqual(printed, wanted)
