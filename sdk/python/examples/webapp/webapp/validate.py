"""Validation beyond the schema of the custom resource: an invalid WebApp reports all its problems at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .types import Autoscaling, DisruptionBudget, WebApp


def problems(app: WebApp) -> Iterator[str]:
    """What is wrong, in the order of the spec."""
    if not _is_label(app.name) or not re.match("[a-z]", app.name):
        yield f"metadata.name: not a name for a Service: {app.name}"
    if not app.image:
        yield "spec.image: is required"
    if app.replicas < 0:
        yield "spec.replicas: must not be negative"
    if not 1 <= app.port <= 65535:
        yield "spec.port: must be between 1 and 65535"
    if app.host and not _is_dns_name(app.host):
        yield f"spec.host: not a DNS name: {app.host}"
    for key in sorted(app.config, key=str.encode):
        if not re.fullmatch(r"[A-Za-z0-9\-_.]{1,253}", key):
            yield f"spec.config: not a key: {key}"
    if app.autoscaling:
        yield from _problems_of_autoscaling(app.autoscaling)
    if app.disruption_budget:
        yield from _problems_of_budget(app.disruption_budget)


def _problems_of_autoscaling(autoscaling: Autoscaling) -> Iterator[str]:
    low, high = autoscaling.min_replicas, autoscaling.max_replicas
    if low < 1:
        yield "spec.autoscaling.minReplicas: must be at least 1"
    if high < 1:
        yield "spec.autoscaling.maxReplicas: must be at least 1"
    if low >= 1 and high >= 1 and low > high:
        yield f"spec.autoscaling: minReplicas {low} is more than maxReplicas {high}"
    if autoscaling.cpu_percent < 1:
        yield "spec.autoscaling.cpuPercent: must be at least 1"


def _problems_of_budget(budget: DisruptionBudget) -> Iterator[str]:
    if (budget.min_available is None) == (budget.max_unavailable is None):
        yield "spec.disruptionBudget: needs either minAvailable or maxUnavailable"
    if (budget.min_available or 0) < 0:
        yield "spec.disruptionBudget.minAvailable: must not be negative"
    if (budget.max_unavailable or 0) < 0:
        yield "spec.disruptionBudget.maxUnavailable: must not be negative"


def _is_label(text: str) -> bool:
    """1 to 63 lower-case letters, digits and `-`, with neither end a `-`."""
    return re.fullmatch("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text) is not None


def _is_dns_name(text: str) -> bool:
    """Labels with dots between them, at most 253 bytes."""
    return len(text) <= 253 and all(map(_is_label, text.split(".")))
