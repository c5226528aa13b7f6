"""Why a run has no outcome, or has failed all the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .need import Need

#: A span of time: a timedelta, or seconds.
Duration = timedelta | float


def as_timedelta(duration: Duration) -> timedelta:
    """A span of time as a timedelta. A ValueError if it is negative."""
    span = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
    if span < timedelta(0):
        raise ValueError(f"a duration must not be negative, got {duration}")
    return span


class Retry(Exception):
    """Something that may pass: the key is tried again after the queue's own backoff, or after `after`."""

    def __init__(self, message: str, after: Duration | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.after = None if after is None else as_timedelta(after)


class Terminal(Exception):
    """A retry is useless until the cluster changes."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Needs(Exception):
    """The run needs reads from the API server itself. `Lister.live` and `Lister.ask` raise it; let it pass.

    The host then reads and runs the key again, so this is not a failure.
    """

    def __init__(self, needs: Sequence[Need]) -> None:
        super().__init__(f"{len(needs)} reads from the API server are needed")
        self.needs = list(needs)
