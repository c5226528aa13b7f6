"""Office hours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
FORM = re.compile(r"([A-Z][a-z]{2})-([A-Z][a-z]{2}) ([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2})")


@dataclass(frozen=True)
class OfficeHours:
    """From one day of the week to another, between two times of each day, in UTC."""

    #: Monday is 0. The last day may come before the first: from Sunday to Thursday.
    first_day: int
    last_day: int
    #: Minutes of the day. The end does not belong to them.
    start: int
    end: int

    @staticmethod
    def parse(text: str) -> OfficeHours:
        """Reads a text such as Mon-Fri 08:00-18:00; a ValueError if it is none."""
        match = FORM.fullmatch(text)
        if match is None or match[1] not in DAYS or match[2] not in DAYS:
            raise ValueError(f"{text!r} are no office hours such as Mon-Fri 08:00-18:00")
        start_hour, start_minute, end_hour, end_minute = (int(number) for number in match.groups()[2:])
        start, end = start_hour * 60 + start_minute, end_hour * 60 + end_minute
        if max(start_minute, end_minute) > 59 or end > 24 * 60 or start >= end:
            raise ValueError(f"{text!r} has no times of a day, the earlier one first")
        return OfficeHours(DAYS.index(match[1]), DAYS.index(match[2]), start, end)

    def _have_day(self, day: int) -> bool:
        return (day - self.first_day) % 7 <= (self.last_day - self.first_day) % 7

    def are_open(self, now: datetime) -> bool:
        """Whether this is within them."""
        return self._have_day(now.weekday()) and self.start <= now.hour * 60 + now.minute < self.end

    def next_change(self, now: datetime) -> datetime:
        """When they begin or end next."""
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        days = (midnight + timedelta(days=day) for day in range(8))
        times = (
            day + timedelta(minutes=minute)
            for day in days
            if self._have_day(day.weekday())
            for minute in (self.start, self.end)
        )
        return min(time for time in times if time > now)
