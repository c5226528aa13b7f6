"""Lines for the host's log, which tags them with controller and key.

Their size and number are limited. Natively they go to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Literal

#: Severity of a line.
Level = Literal["debug", "info", "warn", "error"]


def _to_stderr(level: Level, message: str) -> None:
    print(f"{level}: {message}", file=sys.stderr)


_sink: Callable[[Level, str], None] = _to_stderr


def set_sink(sink: Callable[[Level, str], None]) -> None:
    """Sends lines elsewhere: the glue of components sends them to the host."""
    global _sink
    _sink = sink


def debug(message: str) -> None:
    """Writes a line of level debug."""
    _sink("debug", str(message))


def info(message: str) -> None:
    """Writes a line of level info."""
    _sink("info", str(message))


def warn(message: str) -> None:
    """Writes a line of level warn."""
    _sink("warn", str(message))


def error(message: str) -> None:
    """Writes a line of level error."""
    _sink("error", str(message))
