"""Runs the cases that are the same in every language, with this folder's manifest."""

import unittest
from pathlib import Path

from pintle.testing import check_cases
from errand.controller import reconcile


class Cases(unittest.TestCase):
    def test_every_case_gives_the_expected_outcome(self) -> None:
        check_cases(Path(__file__).parent, reconcile, cases="../../../../tests/errand/cases")
