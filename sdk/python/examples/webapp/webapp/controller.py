"""Runs web applications: a `WebApp` becomes a Deployment, a Service, a ConfigMap, and what else its spec asks for.

`tests/webapp/README.md` in the repository specifies its behaviour, and the cases there show it.
"""

from __future__ import annotations

from pintle import Key, Lister, Outcome, Query, Step, add_finalizer, has_finalizer, log

from .children import children
from .claim import plan_claim
from .deletion import clean_up
from .events import with_event
from .status import Findings, invalid, report
from .types import EXTERNAL_NAME, FINALIZER, WEB_APP, WebApp, is_deleting
from .validate import problems


def reconcile(key: Key, lister: Lister) -> Outcome | None:
    """Says what should change for one WebApp."""
    found = lister.get(WEB_APP, key.namespace, key.name)
    if found is None:
        return None
    app = WebApp.read(found)
    claims = lister.list(EXTERNAL_NAME, Query(index=("claimant", app.uid)))
    if is_deleting(found):
        return clean_up(app, claims, lister)
    wrong = list(problems(app))
    if wrong:
        return invalid(app, wrong, lister)
    # Before anything is made that only this controller removes.
    if not has_finalizer(found, FINALIZER):
        return Outcome().step(Step.sequential([add_finalizer(WEB_APP, found, FINALIZER)]))
    settings = lister.config()
    claim = plan_claim(app, claims, lister)
    plan = children(app, settings, claim.is_held).plan(lister)
    changes = [with_event(app, change) for change in [*claim.mutations, *plan.mutations]]
    if changes:
        log.info(f"changes: {len(changes)}")
    findings = Findings(
        n_changes=len(changes),
        conflicts=[*map(str, plan.conflicts), *claim.conflicts],
        waiting=[*map(str, plan.waiting), *claim.waiting],
        url=f"http://{app.host}" if claim.is_held else None,
    )
    step, is_ready = report(app, findings, lister)
    outcome = Outcome().step(Step.parallel(changes)).step(step)
    return outcome if is_ready else outcome.requeue_after(settings["retrySeconds"])
