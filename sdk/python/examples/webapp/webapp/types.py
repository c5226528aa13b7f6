"""The custom resources."""

from __future__ import annotations

from dataclasses import dataclass

from pintle import Object

WEB_APP = "example.com/v1/WebApp"
EXTERNAL_NAME = "example.com/v1/ExternalName"

#: Keeps a deleted WebApp until its claims are gone.
FINALIZER = "example.com/external-name"


@dataclass(frozen=True)
class Autoscaling:
    """Bounds of the replicas."""

    min_replicas: int
    #: 0 if it is missing.
    max_replicas: int
    cpu_percent: int


@dataclass(frozen=True)
class DisruptionBudget:
    """How many Pods may be missing: one of the two."""

    min_available: int | None
    max_unavailable: int | None


@dataclass(frozen=True)
class WebApp:
    """A web application, with what its spec does not say filled in."""

    object: Object
    namespace: str
    name: str
    uid: str
    generation: int
    image: str
    replicas: int
    port: int
    #: Empty if none is wanted.
    host: str
    config: dict[str, str]
    autoscaling: Autoscaling | None
    disruption_budget: DisruptionBudget | None
    #: As it was read.
    status: Object

    @staticmethod
    def read(obj: Object) -> WebApp:
        """Reads a WebApp as the cache has it; null and absent are the same."""
        meta, spec = obj["metadata"], obj.get("spec") or {}
        autoscaling, budget = spec.get("autoscaling"), spec.get("disruptionBudget")
        return WebApp(
            object=obj,
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            generation=meta.get("generation") or 0,
            image=spec.get("image") or "",
            replicas=_or(spec.get("replicas"), 1),
            port=_or(spec.get("port"), 8080),
            host=spec.get("host") or "",
            config=spec.get("config") or {},
            autoscaling=None
            if autoscaling is None
            else Autoscaling(
                min_replicas=_or(autoscaling.get("minReplicas"), 1),
                max_replicas=_or(autoscaling.get("maxReplicas"), 0),
                cpu_percent=_or(autoscaling.get("cpuPercent"), 80),
            ),
            disruption_budget=None
            if budget is None
            else DisruptionBudget(budget.get("minAvailable"), budget.get("maxUnavailable")),
            status=obj.get("status") or {},
        )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def is_deleting(obj: Object) -> bool:
    """Whether an object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))
