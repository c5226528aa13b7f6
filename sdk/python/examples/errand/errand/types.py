"""The custom resource, and names."""

from __future__ import annotations

from dataclasses import dataclass

from pintle import Key, Kind, Object

ERRAND = Kind.of("example.com/v1/Errand")
DEPLOYMENT = Kind.of("apps/v1/Deployment")
POD = Kind.of("v1/Pod")
SECRET = Kind.of("v1/Secret")
TICK = Kind.of("pintle/v1/Tick")
ACCESS_REVIEW = Kind.of("authorization.k8s.io/v1/SubjectAccessReview")

#: Queue of the errands.
ERRANDS = "errands"
#: Queue whose tick wakes all of them.
ROUNDS = "rounds"


@dataclass(frozen=True)
class Errand:
    """Something to do once, with what its spec does not say filled in."""

    namespace: str
    name: str
    uid: str
    do: str
    of: str
    until: str
    #: None if there is none yet.
    answer: str | None

    @staticmethod
    def read(obj: Object) -> Errand:
        """Reads an Errand as the cache has it; null and absent are the same."""
        meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
        return Errand(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            do=spec.get("do") or "",
            of=spec.get("of") or "",
            until=spec.get("until") or "",
            answer=status.get("answer"),
        )


def key_of(namespace: str, name: str) -> Key:
    """The key of an errand."""
    return Key(ERRANDS, ERRAND, namespace, name)
