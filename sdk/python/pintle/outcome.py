"""The result of a run: steps of mutations, and what else the host should do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from .encoding import MAX_U32
from .errors import Duration, Retry, Terminal, as_timedelta
from .kinds import Key
from .mutation import Mutation
from .need import Need
from .timestamps import parse_time

#: Longest time until a key runs again: 2^31 - 1 ms, 24.8 days, the most that the contract has.
LONGEST_REQUEUE = timedelta(milliseconds=MAX_U32)

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
class Wake:
    """Another key of this controller to run: at once, or not before `after` has passed."""

    key: Key
    after: Duration | None = None

    def __post_init__(self) -> None:
        # Where it is written, a mistake is found; later the host only sees a fault.
        if self.after is not None:
            as_timedelta(self.after)


@dataclass(frozen=True)
class Place:
    """Place of a mutation in an outcome, from 0. See `Outcome.last_place`."""

    #: Number of the step.
    step: int
    #: Number of the mutation in the step.
    position: int


@dataclass(frozen=True)
class Done:
    """When this mutation has succeeded, or its refusal was tolerated."""

    place: Place


@dataclass(frozen=True)
class Failed:
    """When this mutation has failed, or was not tried because another one had failed."""

    place: Place


#: When a sample counts.
Moment = Done | Failed


@dataclass(frozen=True)
class Observation:
    """A sample for one of the metrics that the manifest declares."""

    metric: str
    #: Values in the order of the label names in the manifest.
    labels: tuple[str, ...]
    #: Added to a counter, set on a gauge, observed by a histogram.
    value: float
    #: When it counts. If absent: when the outcome is accepted, before its writes are sent; the next try of a failed run counts again.
    at: Moment | None = None


@dataclass
class Outcome:
    """The result of one run. A new one changes nothing."""

    needs: list[Need] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    requeue: timedelta | None = None
    #: State to keep by name, or to forget if the value is None.
    state: dict[str, str | None] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)
    #: Other keys of this controller to run, at most 10,000.
    wakes: list[Wake] = field(default_factory=list)
    #: Values of labels for the metrics of runs, by name.
    run_labels: dict[str, str] = field(default_factory=dict)
    #: The run has failed all the same, once everything else is carried out. See `fail`.
    error: Retry | Terminal | None = None

    def step(self, step: Step) -> Outcome:
        """Adds a step, unless it is empty."""
        if step.mutations:
            self.steps.append(step)
        return self

    def requeue_after(self, after: Duration) -> Outcome:
        """Runs the key again after this time, whatever happens until then. The earliest of several calls counts.

        If a write fails, it does not come before the retry of the run.
        """
        span = as_timedelta(after)
        self.requeue = span if self.requeue is None else min(self.requeue, span)
        return self

    def requeue_at(self, time: datetime | str, now: datetime | str) -> Outcome:
        """Runs the key again at this time; `now` is `lister.now()`. Texts are RFC 3339. The earliest of several calls counts.

        A key waits for at most `LONGEST_REQUEUE`, 24.8 days. A run for a later time comes then, and calls this again: do what is due by
        the clock, not because the key runs. A ValueError if a text is not a time.
        """
        due, begun = (parse_time(one) if isinstance(one, str) else one for one in (time, now))
        return self.requeue_after(min(max(due - begun, timedelta(0)), LONGEST_REQUEUE))

    def wake(self, key: Key, after: Duration | None = None) -> Outcome:
        """Runs another key of this controller: at once, or not before `after` has passed.

        Its queue must be one of the manifest. It is added when the outcome is accepted, before the writes are sent. A key that waits
        already is not added twice; the earlier time counts.
        """
        self.wakes.append(Wake(key, after))
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

    def observe(self, metric: str, labels: Sequence[str], value: float, *, at: Moment | None = None) -> Outcome:
        """Adds a sample of a metric; the labels' values in the order of the manifest.

        With `at=Done(place)` it counts once that mutation has succeeded, with `at=Failed(place)` once it has failed.
        """
        self.observations.append(Observation(metric, tuple(labels), value, at))
        return self

    def last_place(self) -> Place | None:
        """The place of the mutation that was added last; None if there is none."""
        steps = [step for step in self.steps if step.mutations]
        return Place(len(steps) - 1, len(steps[-1].mutations) - 1) if steps else None

    def run_label(self, name: str, value: str) -> Outcome:
        """Sets a label for the metrics of runs (`of: runs` in the manifest). Labels that a run does not set are empty."""
        self.run_labels[name] = value
        return self

    def fail(self, error: Retry | Terminal) -> Outcome:
        """The run has failed all the same, once everything else of the outcome is carried out. The last of several calls counts.

        The key is tried again as after an error that is raised. Where a mutation fails too, that decides when the key is tried again.
        """
        # Where it is written, a mistake is found; later the host only sees a fault.
        if not isinstance(error, Retry | Terminal):
            raise TypeError(f"an outcome fails with a Retry or a Terminal, got {error!r:.100}")
        self.error = error
        return self
