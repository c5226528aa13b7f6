"""Times as Kubernetes writes them."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_FORM = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def parse_time(text: str) -> datetime:
    """A time in RFC 3339, such as `lister.now()` or `metadata.creationTimestamp`, in UTC. Decimals beyond microseconds are dropped.

    A ValueError if it is not one.
    """
    try:
        # `fromisoformat` alone takes dates, weeks and times without an offset too.
        if not _FORM.fullmatch(text):
            raise ValueError
        return datetime.fromisoformat(text.upper()).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r:.100} is not a time: write 2026-01-01T00:00:00Z") from None
