"""Runs every case below `cases`, without WebAssembly."""

import unittest
from pathlib import Path

from janitor import reconcile
from pintle.testing import check_cases


class Cases(unittest.TestCase):
    def test_every_case_gives_the_expected_outcome(self) -> None:
        check_cases(Path(__file__).parent, reconcile)
