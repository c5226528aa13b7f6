// What a WebApp is told of itself: status, conditions and events.

import {
  type Condition,
  event,
  findCondition,
  isControlledBy,
  isTrue,
  type Lister,
  Mutation,
  Outcome,
  patchStatus,
  setCondition,
  Step,
} from "pintle";

import { type Deployment, type Status, WEB_APP, type WebApp } from "./types.ts";

/** Consecutive failures after which a WebApp is reported as failing, rather than retrying. */
const MANY = 5;

/** What the run has found out besides. */
export interface Findings {
  /** Writes of this run. */
  nChanges: number;
  /** What is in the way, in words. */
  conflicts: string[];
  /** Objects that must go before they can be made anew. */
  waiting: string[];
  /** Where the WebApp is reached, if the host is ours. */
  url: string | undefined;
}

/** A condition in the making. */
interface Verdict {
  status: boolean;
  reason: string;
  message: string;
}

/** The outcome for an invalid WebApp: the status reports the problems, and nothing else changes. */
export function invalid(app: WebApp, problems: string[], lister: Lister): Outcome {
  const message = problems.join("; ");
  const verdict = { status: false, reason: "InvalidSpec", message };
  const outcome = new Outcome();
  const isNews = !says(app, "Valid", false, message);
  if (isNews) {
    outcome.observe("webapp_invalid_specs_total", [], 1);
  }
  const status = {
    ...read(app),
    conditions: conditions(app, lister, { Valid: verdict, Ready: verdict }),
  };
  return outcome.step(Step.sequential([isNews && warning(app, "InvalidSpec", message), patchStatus(WEB_APP, app, status)]));
}

/** Events, then the status if it changes, of a valid WebApp; and whether there is nothing left to look after. */
export function report(app: WebApp, findings: Findings, lister: Lister) {
  const found = lister.get<Deployment>("apps/v1/Deployment", app.metadata.namespace, app.metadata.name);
  const deployment = found && isControlledBy(found, app.metadata.uid) ? found : undefined;
  const conflict = judgeConflict(findings);
  const available = judgeAvailable(deployment);
  const progressing = judgeProgressing(deployment, findings);
  const ready = judgeReady(conflict, available, progressing, lister);
  const status: Status = {
    observedGeneration: app.metadata.generation ?? 0,
    replicas: deployment?.status?.replicas ?? 0,
    availableReplicas: deployment?.status?.availableReplicas ?? 0,
    url: findings.url,
    conditions: conditions(app, lister, {
      Valid: { status: true, reason: "Valid", message: "the spec is valid" },
      Conflict: conflict,
      Available: available,
      Progressing: progressing,
      Ready: ready,
    }),
  };
  const isNewConflict = conflict.status && !says(app, "Conflict", true, conflict.message);
  const isNewlyReady = ready.status && !isTrue(app.status?.conditions, "Ready");
  const mutations = [
    isNewConflict && warning(app, "Conflict", conflict.message),
    isNewlyReady && Mutation.event(event(app, "normal", "Ready", ready.message)),
    patchStatus(WEB_APP, app, status),
  ];
  return { step: Step.sequential(mutations, { always: true }), isReady: ready.status };
}

function judgeConflict({ conflicts }: Findings): Verdict {
  return conflicts.length === 0
    ? { status: false, reason: "NoConflict", message: "nothing is in the way" }
    : { status: true, reason: "InUse", message: conflicts.join("; ") };
}

function judgeAvailable(deployment: Deployment | undefined): Verdict {
  if (!deployment) {
    return { status: false, reason: "NoDeployment", message: "there is no Deployment of this WebApp" };
  }
  const message = `replicas available: ${deployment.status?.availableReplicas ?? 0}`;
  return isTrue(deployment.status?.conditions, "Available")
    ? { status: true, reason: "MinimumReplicasAvailable", message }
    : { status: false, reason: "MinimumReplicasUnavailable", message };
}

function judgeProgressing(deployment: Deployment | undefined, { nChanges, waiting }: Findings): Verdict {
  if (nChanges > 0) {
    return { status: true, reason: "Applying", message: `changes being applied: ${nChanges}` };
  }
  if (waiting.length > 0) {
    return { status: true, reason: "Waiting", message: `waiting for the deletion of ${waiting.join("; ")}` };
  }
  if (!deployment) {
    return { status: false, reason: "Blocked", message: "there is no Deployment of this WebApp" };
  }
  const desired = deployment.spec.replicas ?? 1;
  const { observedGeneration = 0, replicas = 0, updatedReplicas = 0, availableReplicas = 0, conditions } = deployment.status ?? {};
  const message = `replicas updated: ${updatedReplicas}, available: ${availableReplicas}, desired: ${desired}`;
  if (observedGeneration < (deployment.metadata.generation ?? 0)) {
    return { status: true, reason: "RollingOut", message };
  }
  if (updatedReplicas === desired && replicas === desired && availableReplicas === desired) {
    return { status: false, reason: "Complete", message };
  }
  return findCondition(conditions, "Progressing")?.reason === "ProgressDeadlineExceeded"
    ? { status: false, reason: "Stalled", message }
    : { status: true, reason: "RollingOut", message };
}

/** The first of these that is not as it should be, or ready. */
function judgeReady(conflict: Verdict, available: Verdict, progressing: Verdict, lister: Lister): Verdict {
  if (conflict.status) {
    return { status: false, reason: "Conflict", message: conflict.message };
  }
  // A conflict only says that the cache was behind.
  const failures = lister.failures().filter(({ reason }) => reason !== "Conflict");
  if (failures.length > 0) {
    const told = failures.map(({ verb, kind, object: { namespace, name }, message }) => {
      return `${verb} ${kind} ${namespace === "" ? name : `${namespace}/${name}`}: ${message}`;
    });
    return { status: false, reason: lister.attempt() >= MANY ? "Failing" : "Retrying", message: told.join("; ") };
  }
  if (progressing.reason !== "Complete") {
    return { ...progressing, status: false };
  }
  return available.status
    ? { status: true, reason: "Ready", message: available.message }
    : { status: false, reason: "Unavailable", message: available.message };
}

/** The status that was read, for this generation. */
function read({ metadata, status }: WebApp): Status {
  return { replicas: 0, availableReplicas: 0, ...status, observedGeneration: metadata.generation ?? 0 };
}

/** The conditions of the WebApp with these set, in this order. */
function conditions(app: WebApp, lister: Lister, verdicts: Record<string, Verdict>): Condition[] {
  return Object.entries(verdicts).reduce<Condition[]>((all, [type, { status, reason, message }]) => {
    const observedGeneration = app.metadata.generation ?? 0;
    return setCondition(all, { type, status: status ? "True" : "False", reason, message, observedGeneration }, lister.now());
  }, app.status?.conditions ?? []);
}

/** Whether the condition has been told already. */
function says(app: WebApp, type: string, status: boolean, message: string): boolean {
  const condition = findCondition(app.status?.conditions, type);
  return condition?.status === (status ? "True" : "False") && condition.message === message;
}

function warning(app: WebApp, reason: string, message: string): Mutation {
  return Mutation.event(event(app, "warning", reason, message));
}
