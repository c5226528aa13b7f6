"""The end of a WebApp: its claims go first, then its finalizer. Its children are the garbage collector's business."""

from __future__ import annotations

from pintle import Lister, Object, Outcome, Retry, Step, has_finalizer, remove_finalizer

from .claim import release
from .events import with_event
from .types import EXTERNAL_NAME, FINALIZER, WEB_APP, WebApp, is_deleting


def clean_up(app: WebApp, claims: list[Object], lister: Lister) -> Outcome | None:
    """Says what is left to do for a WebApp that is being deleted."""
    if not has_finalizer(app.object, FINALIZER):
        return None
    if claims:
        releases = [with_event(app, release(claim)) for claim in claims if not is_deleting(claim)]
        return Outcome().step(Step.parallel(releases))
    # The finalizer is the last that knows of the claim, so the cache's word is not enough.
    if app.host:
        claim = lister.live(EXTERNAL_NAME, "", app.host)
        if claim is not None and claim["spec"]["uid"] == app.uid:
            raise Retry(f"the cache does not show {EXTERNAL_NAME} {app.host} yet", after=1)
    return Outcome().step(Step.sequential([remove_finalizer(WEB_APP, app.object, FINALIZER)]))
