// The end of a WebApp: its claims go first, then its finalizer. Its children are the garbage collector's business.

import { hasFinalizer, type Lister, Outcome, removeFinalizer, Retry, Step } from "pintle";

import { release } from "./claim.ts";
import { withEvent } from "./events.ts";
import { EXTERNAL_NAME, type ExternalName, FINALIZER, WEB_APP, type WebApp } from "./types.ts";

/** Says what is left to do for a WebApp that is being deleted. */
export function cleanUp(app: WebApp, host: string, claims: ExternalName[], lister: Lister): Outcome | undefined {
  if (!hasFinalizer(app, FINALIZER)) {
    return undefined;
  }
  if (claims.length > 0) {
    const releases = claims.filter(({ metadata }) => !metadata.deletionTimestamp).map(release);
    return new Outcome().step(Step.parallel(releases.map((change) => withEvent(app, change))));
  }
  // The finalizer is the last that knows of the claim, so the cache's word is not enough.
  if (host !== "" && lister.live<ExternalName>(EXTERNAL_NAME, "", host)?.spec.uid === app.metadata.uid) {
    throw new Retry(`the cache does not show ${EXTERNAL_NAME} ${host} yet`, 1000);
  }
  return new Outcome().step(Step.sequential([removeFinalizer(WEB_APP, app, FINALIZER)]));
}
