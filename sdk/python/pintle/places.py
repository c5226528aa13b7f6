"""Where in the author's sources an exception was raised."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

#: Maximum places in a message.
_MAX_PLACES = 5
_SDK = str(Path(__file__).parent)


def describe(error: BaseException) -> str:
    """One line: type, message and places of the author's code, innermost first."""
    # The traceback module would read the sources, and there are no files.
    places: list[tuple[bool, str]] = []
    step: TracebackType | None = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        is_sdks = code.co_filename.startswith(_SDK)
        path = code.co_filename.split("/", 2)[-1]
        places.append((is_sdks, f"{path}:{step.tb_lineno} ({code.co_name})"))
        step = step.tb_next
    shown = [place for is_sdks, place in places if not is_sdks] or [place for _, place in places]
    told = ", called from ".join(list(reversed(shown))[:_MAX_PLACES])
    return f"{type(error).__name__}: {error}" + (f" at {told}" if told else "")
