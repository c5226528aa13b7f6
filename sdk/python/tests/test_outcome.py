"""Outcomes: times far away, keys to wake, places of mutations. And times as Kubernetes writes them."""

import unittest
from datetime import datetime, timedelta, timezone

from pintle import LONGEST_REQUEUE, Done, Key, Kind, Mutation, Outcome, Place, Retry, Step, Terminal, Wake, parse_time

DAY = timedelta(days=1)
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
KEY = Key("q", Kind.of("v1/Pod"), "ns", "p")


class Requeues(unittest.TestCase):
    def test_a_time_that_is_too_far_away_is_looked_at_again(self) -> None:
        due, now, n_runs = BEGIN + 365 * DAY, BEGIN, 0
        while now < due:
            after = Outcome().requeue_at(due, now).requeue
            assert after is not None
            self.assertLessEqual(after, timedelta(milliseconds=2_147_483_647))
            now, n_runs = now + after, n_runs + 1
        self.assertEqual((now, n_runs), (due, 15))

    def test_what_is_past_is_due_now_and_the_earliest_time_counts(self) -> None:
        self.assertEqual(Outcome().requeue_at(BEGIN, BEGIN + DAY).requeue, timedelta(0))
        self.assertEqual(Outcome().requeue_after(5).requeue_at(BEGIN + DAY, BEGIN).requeue, timedelta(seconds=5))
        self.assertEqual(Outcome().requeue_at(BEGIN + DAY, BEGIN).requeue_at(BEGIN + 99 * DAY, BEGIN).requeue, DAY)

    def test_texts_are_times_too(self) -> None:
        outcome = Outcome().requeue_at("2026-01-01T01:00:01.5+01:00", "2026-01-01T00:00:00.000000Z")
        self.assertEqual(outcome.requeue, timedelta(seconds=1.5))
        self.assertEqual(Outcome().requeue_at("9999-01-01T00:00:00Z", "2026-01-01T00:00:00Z").requeue, LONGEST_REQUEUE)
        with self.assertRaisesRegex(ValueError, "'tomorrow' is not a time"):
            Outcome().requeue_at("tomorrow", "2026-01-01T00:00:00Z")


class Times(unittest.TestCase):
    def test_they_are_read_with_any_offset_and_number_of_decimals(self) -> None:
        for text, wanted in (
            ("2026-01-01T00:00:00Z", BEGIN),
            ("2026-01-01t00:00:00z", BEGIN),
            ("2026-01-01 02:30:00+02:30", BEGIN),
            ("2025-12-31T23:00:00-01:00", BEGIN),
            ("2026-01-01T00:00:00.5Z", BEGIN + timedelta(milliseconds=500)),
            ("2026-01-01T00:00:00.123456789Z", BEGIN + timedelta(microseconds=123_456)),
        ):
            with self.subTest(text):
                self.assertEqual(parse_time(text), wanted)

    def test_what_is_not_one_is_an_error(self) -> None:
        for text in (
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-W01-4T00:00:00Z",
            "20260101T000000Z",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:01Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00Z\n",
            "0001-01-01T00:00:00+01:00",
            "\u0662026-01-01T00:00:00Z",
        ):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "is not a time: write 2026-01-01T00:00:00Z"):
                parse_time(text)


class Places(unittest.TestCase):
    def test_the_last_place_is_that_of_the_mutation_that_was_added_last(self) -> None:
        pod = Mutation.delete("v1/Pod", "ns", "p")
        outcome = Outcome()
        self.assertIsNone(outcome.last_place())
        self.assertEqual(outcome.step(Step.parallel([pod, pod])).last_place(), Place(0, 1))
        # Steps without mutations do not cross to the host.
        self.assertEqual(outcome.step(Step.sequential([None])).last_place(), Place(0, 1))
        outcome.steps.append(Step.sequential([]))
        self.assertEqual(outcome.step(Step.sequential([pod], always=True)).last_place(), Place(1, 0))
        self.assertEqual(outcome.observe("n", [], 1, at=Done(Place(1, 0))).observations[0].at, Done(Place(1, 0)))


class Wakes(unittest.TestCase):
    def test_keys_wait_for_seconds_or_a_timedelta_and_never_less_than_nothing(self) -> None:
        outcome = Outcome().wake(KEY).wake(KEY, 1.5).wake(KEY, after=DAY)
        self.assertEqual(outcome.wakes, [Wake(KEY), Wake(KEY, 1.5), Wake(KEY, DAY)])
        with self.assertRaisesRegex(ValueError, "must not be negative"):
            outcome.wake(KEY, -1)


class Errors(unittest.TestCase):
    def test_an_outcome_fails_with_the_last_error_and_with_no_other_exception(self) -> None:
        last = Terminal("never")
        self.assertIsNone(Outcome().error)
        self.assertIs(Outcome().fail(Retry("later", 5)).fail(last).error, last)
        with self.assertRaisesRegex(TypeError, r"fails with a Retry or a Terminal, got ValueError\('x'\)"):
            Outcome().fail(ValueError("x"))  # type: ignore[arg-type]
