"""The SDK and its examples are typed, also against the bindings that a component gets."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SDK = Path(__file__).parents[1]
COMPONENTIZE = "import sys; from componentize_py import script; sys.exit(script())"


def make_bindings(folder: str, world: str) -> None:
    """Writes what a component of a WIT world imports to a folder."""
    wit = SDK.parents[1] / "wit"
    make = [sys.executable, "-c", COMPONENTIZE, "-q", "-d", wit, "-w", world, "bindings", folder]
    subprocess.run([*map(str, make)], check=True)


class Types(unittest.TestCase):
    def check(self, folder: Path, *paths: str | Path) -> None:
        with tempfile.TemporaryDirectory() as bindings:
            make_bindings(bindings, "controller")
            command = [sys.executable, "-m", "mypy", "--no-incremental", "--strict", *map(str, paths)]
            env = {"MYPYPATH": f"{SDK}:{bindings}", "PATH": ""}
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_sdk_and_its_tests(self) -> None:
        self.check(SDK, "-p", "pintle", "-p", "tests")

    def test_the_examples(self) -> None:
        examples = sorted(path.parent for path in SDK.glob("examples/*/manifest.yaml"))
        self.assertTrue(examples)
        for example in examples:
            with self.subTest(example.name):
                self.check(example, ".")
