// The claim of the host: an ExternalName of that name. Whoever has it may have an Ingress for the host.

import { type Lister, Mutation } from "pintle";

import { EXTERNAL_NAME, type ExternalName, type WebApp } from "./types.ts";

/** What is to be done about claims. */
export interface ClaimPlan {
  /** Releases in the order of their names, then the new claim. */
  mutations: Mutation[];
  /** Whether the cache shows that the host is ours. */
  isHeld: boolean;
  /** Whose the host is, if it is somebody else's. */
  conflicts: string[];
  /** The claim, if it is ours and being deleted. */
  waiting: string[];
}

/** Compares the claims of a WebApp with its host. */
export function planClaim(app: WebApp, host: string, claims: ExternalName[], lister: Lister): ClaimPlan {
  const releases = claims.filter(({ metadata }) => metadata.name !== host && !metadata.deletionTimestamp).map(release);
  const plan: ClaimPlan = { mutations: releases, isHeld: false, conflicts: [], waiting: [] };
  if (host === "") {
    return plan;
  }
  const existing = lister.get<ExternalName>(EXTERNAL_NAME, "", host);
  if (existing === undefined) {
    plan.mutations.push(claim(app, host));
  } else if (existing.spec.uid !== app.metadata.uid) {
    plan.conflicts.push(`${EXTERNAL_NAME} ${host} is claimed by ${existing.spec.webapp}`);
  } else if (existing.metadata.deletionTimestamp) {
    plan.waiting.push(`${EXTERNAL_NAME} ${host}`);
  } else {
    plan.isHeld = true;
  }
  return plan;
}

/** Gives a name back. */
export function release({ metadata: { name, uid } }: ExternalName): Mutation {
  return Mutation.delete(EXTERNAL_NAME, "", name, { uid });
}

function claim({ metadata: { namespace, name, uid } }: WebApp, host: string): Mutation {
  return Mutation.create(EXTERNAL_NAME, "", {
    apiVersion: "example.com/v1",
    kind: "ExternalName",
    metadata: { name: host },
    spec: { webapp: `${namespace}/${name}`, uid },
  });
}
