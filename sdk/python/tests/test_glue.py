"""What the glue of components adds to a run: places of exceptions, and answers to calls that a run cannot make."""

import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

from pintle import Kind
from pintle.places import describe


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
