"""How values cross to the host."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

#: The contract's largest number.
MAX_U32 = 2_147_483_647


def to_json(value: Any) -> str:
    """JSON text in one line. A ValueError if a number is not finite, a TypeError if JSON has no such value."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def milliseconds(duration: timedelta) -> int:
    """Rounded up, so that what was waited for has happened then; within the contract's range."""
    return min(-(-duration // timedelta(milliseconds=1)), MAX_U32)
