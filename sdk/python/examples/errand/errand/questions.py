"""Errands that ask: live reads, reviews, signatures and calls. A refusal is an answer too."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pintle import Lister, Need, call, live_list, live_object, review, sign_certificate, sign_jwt

from .types import ACCESS_REVIEW, DEPLOYMENT, POD, SECRET, Errand


def ask(lister: Lister, need: Need, read: Callable[[str], str]) -> str:
    """What the answer to a need says, or why there is none."""
    answer = lister.ask(need)
    return read(answer) if isinstance(answer, str) else f"refused: {answer.reason}"


def scale(errand: Errand, lister: Lister) -> str:
    """How many replicas a Deployment wants."""
    need = live_object(DEPLOYMENT, errand.namespace, errand.of, subresource="scale")
    # The API server leaves out zero.
    return ask(lister, need, lambda text: str((json.loads(text).get("spec") or {}).get("replicas") or 0))


def pods(errand: Errand, lister: Lister) -> str:
    """The Pods of a node."""
    need = live_list(POD, errand.namespace, limit=10, field_selector=f"spec.nodeName={errand.of}", detail="projection")

    def shown(pod: dict[str, Any]) -> str:
        node = (pod.get("spec") or {}).get("nodeName") or ""
        return f"{pod['metadata']['name']} on {node}"

    return ask(lister, need, lambda text: ", ".join(map(shown, json.loads(text))))


def secrets(errand: Errand, lister: Lister) -> str:
    """How many Secrets there are, which the manifest does not request."""
    need = live_list(SECRET, errand.namespace, limit=10, detail="whole")
    return ask(lister, need, lambda text: str(len(json.loads(text))))


def access(errand: Errand, lister: Lister) -> str:
    """Whether a user may read Pods."""
    attributes = {"namespace": errand.namespace, "verb": "get", "resource": "pods"}
    need = review(ACCESS_REVIEW, "", {"spec": {"user": errand.of, "resourceAttributes": attributes}})
    return ask(lister, need, lambda text: "allowed" if json.loads(text)["status"].get("allowed") is True else "denied")


def token(errand: Errand, lister: Lister) -> str:
    """A token for a subject."""
    return ask(lister, sign_jwt("key", {"sub": errand.of}), str)


def certificate(errand: Errand, lister: Lister) -> str:
    """A certificate for a client."""
    return ask(lister, sign_certificate("authority", errand.of, ["client auth"], lister.now(), errand.until), str)


def place(errand: Errand, lister: Lister) -> str:
    """Where somebody is."""
    need = call("desk", "look-up", {"name": errand.of}, timeout=10)

    def field(text: str) -> str:
        # An endpoint is outside of the cluster: it may answer anything.
        found = json.loads(text)
        value = found.get("place") if isinstance(found, dict) else None
        return value if isinstance(value, str) else ""

    return ask(lister, need, field)


#: By what the errand does.
QUESTIONS: dict[str, Callable[[Errand, Lister], str]] = {
    "scale": scale,
    "pods": pods,
    "secrets": secrets,
    "review": access,
    "token": token,
    "certificate": certificate,
    "call": place,
}
