"""What a WebApp is told of itself: status, conditions and events."""

from __future__ import annotations

from dataclasses import dataclass

from pintle import (
    Condition,
    Lister,
    Mutation,
    Object,
    Outcome,
    Step,
    event,
    find_condition,
    is_controlled_by,
    is_true,
    patch_status,
    set_condition,
)

from .types import WEB_APP, WebApp

#: Consecutive failures after which a WebApp is reported as failing, rather than retrying.
MANY = 5


@dataclass(frozen=True)
class Findings:
    """What the run has found out besides."""

    #: Writes of this run.
    n_changes: int
    #: What is in the way, in words.
    conflicts: list[str]
    #: Objects that must go before they can be made anew.
    waiting: list[str]
    #: Where the WebApp is reached, if the host is ours.
    url: str | None


@dataclass(frozen=True)
class Verdict:
    """A condition in the making."""

    status: bool
    reason: str
    message: str


def invalid(app: WebApp, problems: list[str], lister: Lister) -> Outcome:
    """The outcome for an invalid WebApp: the status reports the problems, and nothing else changes."""
    verdict = Verdict(False, "InvalidSpec", "; ".join(problems))
    is_news = not _says(app, "Valid", False, verdict.message)
    outcome = Outcome()
    if is_news:
        outcome.observe("webapp_invalid_specs_total", [], 1)
    status = {
        "replicas": 0,
        "availableReplicas": 0,
        **app.status,
        "observedGeneration": app.generation,
        "conditions": _conditions(app, lister, {"Valid": verdict, "Ready": verdict}),
    }
    told = _warning(app, "InvalidSpec", verdict.message) if is_news else None
    return outcome.step(Step.sequential([told, patch_status(WEB_APP, app.object, status)]))


def report(app: WebApp, findings: Findings, lister: Lister) -> tuple[Step, bool]:
    """Events, then the status if it changes, of a valid WebApp; and whether there is nothing left to look after."""
    deployment = lister.get("apps/v1/Deployment", app.namespace, app.name)
    if deployment is not None and not is_controlled_by(deployment, app.uid):
        deployment = None
    conflict = _conflict(findings)
    available = _available(deployment)
    progressing = _progressing(deployment, findings)
    ready = _ready(conflict, available, progressing, lister)
    verdicts = {
        "Valid": Verdict(True, "Valid", "the spec is valid"),
        "Conflict": conflict,
        "Available": available,
        "Progressing": progressing,
        "Ready": ready,
    }
    status = {
        "observedGeneration": app.generation,
        "replicas": _number(deployment, "replicas"),
        "availableReplicas": _number(deployment, "availableReplicas"),
        "url": findings.url,
        "conditions": _conditions(app, lister, verdicts),
    }
    mutations: list[Mutation | None] = []
    if conflict.status and not _says(app, "Conflict", True, conflict.message):
        mutations.append(_warning(app, "Conflict", conflict.message))
    if ready.status and not is_true(app.status.get("conditions"), "Ready"):
        mutations.append(Mutation.event(event(app.object, "normal", "Ready", ready.message)))
    mutations.append(patch_status(WEB_APP, app.object, status))
    return Step.sequential(mutations, always=True), ready.status


def _conflict(findings: Findings) -> Verdict:
    if not findings.conflicts:
        return Verdict(False, "NoConflict", "nothing is in the way")
    return Verdict(True, "InUse", "; ".join(findings.conflicts))


def _available(deployment: Object | None) -> Verdict:
    if deployment is None:
        return Verdict(False, "NoDeployment", "there is no Deployment of this WebApp")
    message = f"replicas available: {_number(deployment, 'availableReplicas')}"
    if is_true(_status(deployment).get("conditions"), "Available"):
        return Verdict(True, "MinimumReplicasAvailable", message)
    return Verdict(False, "MinimumReplicasUnavailable", message)


def _progressing(deployment: Object | None, findings: Findings) -> Verdict:
    if findings.n_changes > 0:
        return Verdict(True, "Applying", f"changes being applied: {findings.n_changes}")
    if findings.waiting:
        return Verdict(True, "Waiting", f"waiting for the deletion of {'; '.join(findings.waiting)}")
    if deployment is None:
        return Verdict(False, "Blocked", "there is no Deployment of this WebApp")
    replicas = deployment["spec"].get("replicas")
    desired = 1 if replicas is None else replicas
    updated, available = _number(deployment, "updatedReplicas"), _number(deployment, "availableReplicas")
    message = f"replicas updated: {updated}, available: {available}, desired: {desired}"
    if _number(deployment, "observedGeneration") < (deployment["metadata"].get("generation") or 0):
        return Verdict(True, "RollingOut", message)
    if updated == _number(deployment, "replicas") == available == desired:
        return Verdict(False, "Complete", message)
    progressing = find_condition(_status(deployment).get("conditions"), "Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return Verdict(False, "Stalled", message)
    return Verdict(True, "RollingOut", message)


def _ready(conflict: Verdict, available: Verdict, progressing: Verdict, lister: Lister) -> Verdict:
    """The first of these that is not as it should be, or ready."""
    if conflict.status:
        return Verdict(False, "Conflict", conflict.message)
    # A conflict only says that the cache was behind.
    failures = [failure for failure in lister.failures() if failure.reason != "Conflict"]
    if failures:
        told = [f"{failure.verb} {failure.kind} {failure.object}: {failure.message}" for failure in failures]
        return Verdict(False, "Failing" if lister.attempt() >= MANY else "Retrying", "; ".join(told))
    if progressing.reason != "Complete":
        return Verdict(False, progressing.reason, progressing.message)
    if not available.status:
        return Verdict(False, "Unavailable", available.message)
    return Verdict(True, "Ready", available.message)


def _status(deployment: Object) -> Object:
    return deployment.get("status") or {}


def _number(deployment: Object | None, name: str) -> int:
    """A number of a Deployment's status; 0 if it is not there."""
    return (_status(deployment).get(name) or 0) if deployment else 0


def _conditions(app: WebApp, lister: Lister, verdicts: dict[str, Verdict]) -> list[Condition]:
    """The conditions of the WebApp with these set, in this order."""
    conditions: list[Condition] = app.status.get("conditions") or []
    for kind, verdict in verdicts.items():
        condition = {
            "type": kind,
            "status": "True" if verdict.status else "False",
            "reason": verdict.reason,
            "message": verdict.message,
            "observedGeneration": app.generation,
        }
        conditions = set_condition(conditions, condition, lister.now())
    return conditions


def _says(app: WebApp, kind: str, status: bool, message: str) -> bool:
    """Whether the condition has been told already."""
    condition = find_condition(app.status.get("conditions"), kind) or {}
    return condition.get("status") == ("True" if status else "False") and condition.get("message") == message


def _warning(app: WebApp, reason: str, message: str) -> Mutation:
    return Mutation.event(event(app.object, "warning", reason, message))
