// Runs web applications: a `WebApp` becomes a Deployment, a Service, a ConfigMap, and what else its spec asks for.
// `tests/webapp/README.md` in the repository specifies its behaviour, and the cases there show it.

import { addFinalizer, hasFinalizer, type Key, type Lister, log, Outcome, Step } from "pintle";

import { children } from "./children.ts";
import { planClaim } from "./claim.ts";
import { cleanUp } from "./deletion.ts";
import { withEvent } from "./events.ts";
import { invalid, report } from "./status.ts";
import { EXTERNAL_NAME, type ExternalName, FINALIZER, type Settings, WEB_APP, wantedBy, type WebApp } from "./types.ts";
import { problems } from "./validate.ts";

/** Says what should change for one WebApp. */
export function reconcile(key: Key, lister: Lister): Outcome | undefined {
  const app = lister.get<WebApp>(WEB_APP, key.namespace, key.name);
  if (app === undefined) {
    return undefined;
  }
  const wanted = wantedBy(app);
  const claims = lister.list<ExternalName>(EXTERNAL_NAME, { index: { name: "claimant", value: app.metadata.uid } });
  if (app.metadata.deletionTimestamp) {
    return cleanUp(app, wanted.host, claims, lister);
  }
  const wrong = problems(app.metadata.name, wanted);
  if (wrong.length > 0) {
    return invalid(app, wrong, lister);
  }
  // Before anything is made that only this controller removes.
  if (!hasFinalizer(app, FINALIZER)) {
    return new Outcome().step(Step.sequential([addFinalizer(WEB_APP, app, FINALIZER)]));
  }
  const settings = lister.config<Settings>();
  const claim = planClaim(app, wanted.host, claims, lister);
  const plan = children(app, wanted, settings, claim.isHeld).plan(lister);
  const changes = [...claim.mutations, ...plan.mutations].map((change) => withEvent(app, change));
  if (changes.length > 0) {
    log.info(`changes: ${changes.length}`);
  }
  const { step, isReady } = report(
    app,
    {
      nChanges: changes.length,
      conflicts: [...plan.conflicts.map(String), ...claim.conflicts],
      waiting: [...plan.waiting.map(String), ...claim.waiting],
      url: claim.isHeld ? `http://${wanted.host}` : undefined,
    },
    lister,
  );
  const outcome = new Outcome().step(Step.parallel(changes)).step(step);
  return isReady ? outcome : outcome.requeueAfter(settings.retrySeconds * 1000);
}
