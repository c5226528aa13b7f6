"""Office hours, as a plain function: `python -m unittest`."""

import unittest
from datetime import datetime, timezone

from hours import OfficeHours


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


class Hours(unittest.TestCase):
    def test_the_next_change_may_be_days_away(self) -> None:
        hours = OfficeHours.parse("Mon-Fri 08:00-18:00")
        # A Friday and the Monday after it.
        self.assertTrue(hours.are_open(at("2026-01-02T17:59")))
        self.assertFalse(hours.are_open(at("2026-01-02T18:00")))
        self.assertEqual(hours.next_change(at("2026-01-02T18:00")), at("2026-01-05T08:00"))

    def test_texts_that_are_no_hours_are_refused(self) -> None:
        for text in ("", "Mon-Fri", "Mon-Fri 18:00-08:00", "Mon-Fry 08:00-18:00", "Mon-Fri 08:60-18:00"):
            with self.assertRaises(ValueError, msg=text):
                OfficeHours.parse(text)


if __name__ == "__main__":
    unittest.main()
