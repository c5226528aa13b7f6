"""Runs errands: each one exercises one part of contract 0.2.

`tests/errand/README.md` in the repository specifies its behaviour, and the cases there show it.
"""

from __future__ import annotations

from pintle import Done, Failed, Key, Lister, Mutation, Outcome, Query, Retry, Step, Terminal, parse_time

from .questions import QUESTIONS
from .types import ERRAND, POD, ROUNDS, TICK, Errand, key_of


def reconcile(key: Key, lister: Lister) -> Outcome | None:
    """Says what one errand wants, or, for the tick of the rounds, which errands run."""
    if key.queue == ROUNDS:
        return rounds(lister)
    found = lister.get(ERRAND, key.namespace, key.name)
    if found is None:
        return None
    errand = Errand.read(found)
    outcome = Outcome()
    answer = run(errand, lister, outcome)
    outcome.run_label("do", errand.do)
    if answer is None or answer == errand.answer:
        return outcome
    body = {"status": {"answer": answer}}
    patch = Mutation.patch(ERRAND, errand.namespace, errand.name, "merge", body, subresource="status", uid=errand.uid)
    return outcome.step(Step.sequential([patch], always=True))


def rounds(lister: Lister) -> Outcome:
    """Every errand again."""
    outcome = Outcome().observe("errand_controller_rounds_total", [], 1)
    for errand in map(Errand.read, lister.list(ERRAND)):
        outcome.wake(key_of(errand.namespace, errand.name))
    return outcome


def run(errand: Errand, lister: Lister, outcome: Outcome) -> str | None:
    """Adds to the outcome what the errand wants besides its answer. Returns the answer, if there is one."""
    if errand.do in QUESTIONS:
        return QUESTIONS[errand.do](errand, lister)
    match errand.do:
        case "wake":
            outcome.wake(key_of(errand.namespace, errand.of))
            outcome.wake(Key(ROUNDS, TICK, "", ROUNDS), after=1.5)
            return "woken"
        case "crowd":
            for i in range(10_001):
                outcome.wake(key_of(errand.namespace, f"e{i}"))
            return "woken"
        case "later":
            return later(errand, lister, outcome)
        case "uptime":
            return uptime(errand, lister, outcome)
        case "count":
            return count(errand, lister, outcome)
        case "greet":
            return greet(errand, lister)
        case "fail":
            outcome.fail(Retry("out of order", after=5))
            return greet(errand, lister)
        case "kinds":
            return ",".join(f"{one.plural}.{one.kind.version}" for one in lister.resources_of("apps", "Deployment"))
        case "tally":
            n_pods = lister.count(POD, Query(namespace=errand.namespace))
            outcome.observe("errand_controller_pods", [errand.namespace], n_pods)
            return str(n_pods)
    raise Terminal(f"nothing is called {errand.do}")


def greet(errand: Errand, lister: Lister) -> str:
    """Greets with the word that the operator has set."""
    return f"{lister.config()['greeting']}, {errand.of}"


def later(errand: Errand, lister: Lister, outcome: Outcome) -> str | None:
    """Waits for a time."""
    now = parse_time(lister.now())
    try:
        until = parse_time(errand.until)
    except ValueError:
        raise Terminal("spec.until is not a time") from None
    if until > now:
        outcome.requeue_at(until, now)
        return None
    return "due"


def uptime(errand: Errand, lister: Lister, outcome: Outcome) -> str:
    """Looks at the clock that nobody sets."""
    name, now = f"since/{errand.namespace}/{errand.name}", int(lister.uptime())
    since = lister.state(name)
    if since is None:
        outcome.keep(name, str(now))
        return "started"
    return f"{now - int(since)} s"


def count(errand: Errand, lister: Lister, outcome: Outcome) -> str:
    """Deletes a Pod, and counts what became of that."""
    pod = lister.get(POD, errand.namespace, errand.of)
    if pod is None:
        return "absent"
    delete = Mutation.delete(POD, errand.namespace, errand.of, uid=pod["metadata"]["uid"])
    place = outcome.step(Step.sequential([delete])).last_place()
    assert place is not None, "a step was added"
    outcome.observe("errand_controller_deletions_total", ["deleted"], 1, at=Done(place))
    outcome.observe("errand_controller_deletions_total", ["kept"], 1, at=Failed(place))
    return "tried"
