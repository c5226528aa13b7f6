"""In a run of a component there is neither clock nor chance. Without these guards a call would end the run without a word, or give the
same "random" number in every instance. While the component is built, modules may still ask for both.
"""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
from collections.abc import Callable
from datetime import date as real_date
from datetime import datetime as real_datetime
from types import ModuleType
from typing import Any

#: Whether runs have begun.
active = False

_TIME = "use lister.now()"
_CHANCE = "derive what must differ from names and uids, for example with pintle.hash_json, or use generateName"


def _guarded(name: str, real: Callable[..., Any], instead: str, needs_clock: Callable[..., bool]) -> Callable[..., Any]:
    def guard(*args: Any, **kwargs: Any) -> Any:
        if active and needs_clock(*args, **kwargs):
            raise RuntimeError(f"{name} is not there, because the same view must give the same outcome: {instead}")
        return real(*args, **kwargs)

    return guard


def _always(*_args: Any, **_kwargs: Any) -> bool:
    return True


def _guard(module: ModuleType, names: str, instead: str, needs_clock: Callable[..., bool] = _always) -> None:
    for name in names.split():
        real = getattr(module, name, None)
        if real is not None:
            setattr(module, name, _guarded(f"{module.__name__}.{name}()", real, instead, needs_clock))


class _LateImports:
    """Modules are read while the component is built; afterwards there are no files."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if active:
            raise ImportError(f"{name} must be imported at the top of a module: in a run there are no files to read it from")


def install() -> None:
    """Puts the guards in place."""
    sys.meta_path.insert(0, _LateImports)
    _guard(time, "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns sleep", _TIME)
    _guard(time, "gmtime localtime ctime asctime", _TIME, lambda *args, **_: not args)
    _guard(os, "urandom getrandom", _CHANCE)
    # Functions of the module's own generator; `random.Random(seed)` is as pure as its seed.
    shared = "random randint randrange choice choices sample shuffle uniform gauss getrandbits randbytes betavariate expovariate"
    _guard(random, f"{shared} normalvariate triangular _urandom", _CHANCE)

    class Guarded(type):
        """Instances that C code makes are of the real class."""

        def __instancecheck__(cls, instance: object) -> bool:
            if cls is GuardedDate:
                return isinstance(instance, real_date)
            return isinstance(instance, real_datetime) if cls is GuardedDatetime else super().__instancecheck__(instance)

    class GuardedDate(real_date, metaclass=Guarded):
        today = staticmethod(_guarded("date.today()", real_date.today, _TIME, _always))

    class GuardedDatetime(real_datetime, metaclass=Guarded):
        now = staticmethod(_guarded("datetime.now()", real_datetime.now, _TIME, _always))
        utcnow = staticmethod(_guarded("datetime.utcnow()", real_datetime.utcnow, _TIME, _always))
        today = staticmethod(_guarded("datetime.today()", real_datetime.today, _TIME, _always))

    GuardedDate.__name__ = GuardedDate.__qualname__ = "date"
    GuardedDatetime.__name__ = GuardedDatetime.__qualname__ = "datetime"
    setattr(datetime, "date", GuardedDate)
    setattr(datetime, "datetime", GuardedDatetime)
