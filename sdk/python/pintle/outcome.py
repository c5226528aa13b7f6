"""What a run wants: steps of mutations, and what else the host should do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from .errors import Duration, as_timedelta
from .mutation import Mutation
from .need import Need

#: How the mutations of one step are carried out.
Order = Literal["sequential", "parallel", "slow-start"]


@dataclass(frozen=True)
class Step:
    """Mutations that belong together. A failed step stops those after it that are not `always`.

    What is None among the mutations is left out, so that what `patch_status` gives can be put in as it is.
    """

    order: Order
    mutations: tuple[Mutation, ...]
    #: Carried out even if an earlier step failed: a status is written also when a scale-up was refused.
    always: bool = False

    @staticmethod
    def sequential(mutations: Iterable[Mutation | None], *, always: bool = False) -> Step:
        """One after the other, stopping at the first failure."""
        return Step("sequential", _present(mutations), always)

    @staticmethod
    def parallel(mutations: Iterable[Mutation | None], *, always: bool = False) -> Step:
        """All at once; all are tried."""
        return Step("parallel", _present(mutations), always)

    @staticmethod
    def slow_start(mutations: Iterable[Mutation | None], *, always: bool = False) -> Step:
        """In batches of 1, 2, 4, ..., for many writes that would all be refused for the same reason."""
        return Step("slow-start", _present(mutations), always)


def _present(mutations: Iterable[Mutation | None]) -> tuple[Mutation, ...]:
    return tuple(mutation for mutation in mutations if mutation is not None)


@dataclass(frozen=True)
class Observation:
    """A sample for one of the metrics that the manifest declares."""

    metric: str
    #: Values in the order of the label names in the manifest.
    labels: tuple[str, ...]
    #: Added to a counter, set on a gauge, observed by a histogram.
    value: float


@dataclass
class Outcome:
    """What one run wants. A new one: nothing."""

    needs: list[Need] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    requeue: timedelta | None = None
    #: State to keep by name, or to forget if the value is None.
    state: dict[str, str | None] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)

    def step(self, step: Step) -> Outcome:
        """Adds a step, unless it is empty."""
        if step.mutations:
            self.steps.append(step)
        return self

    def requeue_after(self, after: Duration) -> Outcome:
        """Runs the key again after this time, whatever happens until then. The earliest of several calls counts."""
        span = as_timedelta(after)
        self.requeue = span if self.requeue is None else min(self.requeue, span)
        return self

    def need(self, need: Need) -> Outcome:
        """Asks for a read; the host answers it and calls again, and carries out nothing else. See `Lister.ask` for the short way."""
        self.needs.append(need)
        return self

    def keep(self, name: str, value: str) -> Outcome:
        """Keeps a value under a name, for later runs of this controller."""
        self.state[name] = value
        return self

    def forget(self, name: str) -> Outcome:
        """Forgets what is kept under a name."""
        self.state[name] = None
        return self

    def observe(self, metric: str, labels: Sequence[str], value: float) -> Outcome:
        """Adds a sample of a metric; the labels' values in the order of the manifest."""
        self.observations.append(Observation(metric, tuple(labels), value))
        return self
