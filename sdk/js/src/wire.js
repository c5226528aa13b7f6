// From what authors return to the contract's own shape. Engines end a run without a word if that does not fit, so it is checked here.

import { Retry, Terminal } from "./errors.js";
import { stringify } from "./json.js";
import { Kind } from "./kind.js";

/** @import { Action, Event, Mutation } from "./mutation.js" */
/** @import { Moment, OutcomeLike, Step, Wake } from "./outcome.js" */
/** @import { LiveDetail, Need } from "./need.js" */

/** The contract's largest number. */
const MAX_U32 = 2_147_483_647;
/** Reads that the host takes from one outcome; the rest is asked for by the next round, which still misses it. */
export const MAX_NEEDS = 256;
/** Keys that one outcome wakes. */
export const MAX_WAKES = 10_000;
/** Milliseconds that the host waits for the answer to a call. */
const MAX_CALL_MS = 30_000;

const ORDERS = ["sequential", "parallel", "slow-start"];
const REFUSALS = ["not-found", "already-exists", "conflict", "invalid", "forbidden", "namespace-terminating"];
const PROPAGATIONS = ["background", "foreground", "orphan"];
const DETAILS = ["metadata", "projection", "whole"];
const VERBS = ["create", "update", "patch", "delete", "delete-collection", "event"];

/**
 * @param {unknown} result What `reconcile` returned.
 */
export function wireOutcome(result) {
  const { needs, steps, requeueAfterMs, state, observations, wakes, runLabels, error, ...unknown } = outcomeLike(result);
  const [misspelt] = Object.keys(unknown);
  if (misspelt !== undefined) {
    throw new TypeError(
      `an outcome has no ${misspelt}: it has needs, steps, requeueAfterMs, state, observations, wakes, runLabels and error`,
    );
  }
  const allSteps = array(steps ?? [], "outcome.steps");
  return {
    needs: array(needs ?? [], "outcome.needs").map((need, i) => wireNeed(need, `outcome.needs[${i}]`)),
    steps: allSteps.filter((step) => step?.mutations?.length !== 0).map(wireStep),
    requeueAfterMs: requeueAfterMs == null ? null : milliseconds(requeueAfterMs, "outcome.requeueAfterMs"),
    state: array(state ?? [], "outcome.state").map(({ name, value }, i) => ({
      name: text(name, `outcome.state[${i}].name`),
      value: value == null ? null : text(value, `outcome.state[${i}].value`),
    })),
    observations: array(observations ?? [], "outcome.observations").map(({ metric, labels, value, at }, i) => ({
      metric: text(metric, `outcome.observations[${i}].metric`),
      labels: array(labels, `outcome.observations[${i}].labels`).map((label) => text(label, `outcome.observations[${i}].labels`)),
      value: number(value, `outcome.observations[${i}].value`),
      at: at == null ? NOW : wireMoment(at, allSteps, `outcome.observations[${i}].at`),
    })),
    wake: array(wakes ?? [], "outcome.wakes").map((wake, i) => wireWake(wake, `outcome.wakes[${i}]`)),
    runLabels: Object.entries(runLabels ?? {}).map(([name, value]) => pair(name, text(value, `outcome.runLabels.${name}`))),
    error: error == null ? null : wireError(error, "outcome.error"),
  };
}

/**
 * @param {unknown} result What `reconcile` returned.
 * @returns {OutcomeLike}
 */
function outcomeLike(result) {
  if (result === undefined || result === null) {
    return {};
  }
  if (typeof result !== "object" || Array.isArray(result)) {
    throw new TypeError(`reconcile returned ${show(result)} instead of an Outcome or nothing`);
  }
  if (typeof (/** @type {any} */ (result).then) === "function") {
    throw new TypeError("reconcile returned a Promise: it must not be async. There is nothing to wait for; see Lister.live and Lister.ask");
  }
  return result;
}

/**
 * @param {string} name
 * @param {string} value
 * @returns {[string, string]}
 */
function pair(name, value) {
  return [name, value];
}

/** @typedef {ReturnType<typeof wireOutcome>} WireOutcome */
/** @typedef {ReturnType<typeof wireError>} WireError */
/** @typedef {ReturnType<typeof wireMutation>} WireMutation */
/** @typedef {ReturnType<typeof wireEvent>} WireEvent */
/** @typedef {ReturnType<typeof wireNeed>} WireNeed */
/** @typedef {ReturnType<typeof wireWake>} WireWake */

/**
 * @typedef {{step: number, position: number}} WirePlace
 * @typedef {{tag: "now"} | {tag: "done" | "failed", val: WirePlace}} WireMoment
 */

/** @type {WireMoment} */
const NOW = Object.freeze({ tag: "now" });

/**
 * @param {readonly Need[]} needs
 * @returns {WireOutcome}
 */
export function wireNeeds(needs) {
  return wireOutcome({ needs: needs.slice(0, MAX_NEEDS) });
}

/**
 * An error that is thrown, or that an outcome has.
 * @param {Retry | Terminal} error
 * @param {string} place
 * @returns {{tag: "retry", val: {message: string, afterMs: number | null}} | {tag: "terminal", val: string}}
 */
export function wireError(error, place) {
  if (error instanceof Retry) {
    const afterMs = error.afterMs == null ? null : milliseconds(error.afterMs, "afterMs of a Retry");
    return { tag: "retry", val: { message: String(error.message), afterMs } };
  }
  if (error instanceof Terminal) {
    return { tag: "terminal", val: String(error.message) };
  }
  throw new TypeError(`${place} must be a Retry or a Terminal, got ${show(error)}`);
}

/**
 * Whole milliseconds, rounded up, so that what was waited for has happened then; within the contract's range.
 * @param {unknown} value
 * @param {string} place
 */
export function milliseconds(value, place) {
  const found = number(value, place);
  if (found < 0) {
    throw new TypeError(`${place} must not be negative, got ${found}`);
  }
  return Math.min(Math.ceil(found), MAX_U32);
}

/**
 * @param {Wake} wake
 * @param {string} place
 */
export function wireWake(wake, place) {
  if (wake === null || typeof wake !== "object") {
    throw new TypeError(`${place} must be {queue, kind, namespace, name, afterMs}, got ${show(wake)}`);
  }
  const object = { namespace: text(wake.namespace ?? "", `${place}.namespace`), name: text(wake.name, `${place}.name`) };
  return {
    key: { queue: text(wake.queue, `${place}.queue`), kind: wireKind(wake.kind), object },
    afterMs: wake.afterMs == null ? null : milliseconds(wake.afterMs, `${place}.afterMs`),
  };
}

/**
 * A need in the contract's shape: equal ones have equal texts.
 * @param {Need} need
 * @param {string} place
 */
export function wireNeed(need, place) {
  switch (need?.tag) {
    case "live-object": {
      const { kind, object, subresource } = need.val;
      const name = { namespace: text(object.namespace, `${place}: namespace`), name: text(object.name, `${place}: name`) };
      const val = { kind: wireKind(kind), object: name, subresource: optional(subresource, `${place}: subresource`) };
      return { tag: need.tag, val };
    }
    case "live-list": {
      const { kind, namespace, labelSelector, fieldSelector, detail, limit } = need.val;
      const val = {
        kind: wireKind(kind),
        namespace: text(namespace, `${place}: namespace`),
        labelSelector: optional(labelSelector, `${place}: labelSelector`),
        fieldSelector: optional(fieldSelector, `${place}: fieldSelector`),
        detail: /** @type {LiveDetail} */ (oneOf(detail, DETAILS, `${place}: detail`)),
        limit: whole(limit, `${place}: limit`),
      };
      return { tag: need.tag, val };
    }
    case "raw-path":
      return { tag: need.tag, val: text(need.val, `${place}: path`) };
    case "discovery":
      return { tag: need.tag };
    case "review": {
      const { kind, namespace, object } = need.val;
      const val = { kind: wireKind(kind), namespace: text(namespace, `${place}: namespace`), object: json(object, `${place}: review`) };
      return { tag: need.tag, val };
    }
    case "sign-jwt": {
      const { key, claims } = need.val;
      return { tag: need.tag, val: { key: text(key, `${place}: key`), claims: json(claims, `${place}: claims`) } };
    }
    case "sign-certificate": {
      const { authority, request, usages, notBefore, notAfter } = need.val;
      const val = {
        authority: text(authority, `${place}: authority`),
        request: text(request, `${place}: request`),
        usages: array(usages, `${place}: usages`).map((usage) => text(usage, `${place}: usages`)),
        notBefore: text(notBefore, `${place}: notBefore`),
        notAfter: text(notAfter, `${place}: notAfter`),
      };
      return { tag: need.tag, val };
    }
    case "call": {
      const { endpoint, operation, body, timeoutMs } = need.val;
      const val = {
        endpoint: text(endpoint, `${place}: endpoint`),
        operation: text(operation, `${place}: operation`),
        body: anyJson(body, `${place}: body`),
        timeoutMs: timeoutMs == null ? null : milliseconds(timeoutMs, `${place}: timeoutMs`),
      };
      if (val.timeoutMs !== null && val.timeoutMs > MAX_CALL_MS) {
        throw new TypeError(`${place}: timeoutMs must be at most ${MAX_CALL_MS}, got ${val.timeoutMs}`);
      }
      return { tag: need.tag, val };
    }
    default:
      throw new TypeError(`${place} must be a Need, which Need.liveObject and its like make, got ${show(need)}`);
  }
}

/**
 * @param {Moment} moment
 * @param {readonly Step[]} steps As the author gave them; the contract gets those that are not empty.
 * @param {string} place
 * @returns {WireMoment}
 */
function wireMoment(moment, steps, place) {
  const { done, failed, ...unknown } = /** @type {{done?: any, failed?: any}} */ (typeof moment === "object" ? moment : { moment });
  if ((done == null) === (failed == null) || Object.keys(unknown).length > 0) {
    throw new TypeError(`${place} must be {done: place} or {failed: place}, got ${show(moment)}`);
  }
  const { step, position } = done ?? failed;
  if (steps[step]?.mutations?.[position] === undefined) {
    throw new TypeError(`${place} is about steps[${step}].mutations[${position}], which is not there`);
  }
  const nBefore = steps.slice(0, step).filter(({ mutations }) => mutations.length > 0).length;
  return { tag: done == null ? "failed" : "done", val: { step: nBefore, position } };
}

/**
 * @param {Step} step
 * @param {number} i
 */
function wireStep(step, i) {
  const place = `outcome.steps[${i}]`;
  if (step === null || typeof step !== "object") {
    throw new TypeError(`${place} must be a Step, got ${show(step)}`);
  }
  return {
    order: oneOf(step.order, ORDERS, `${place}.order`),
    mutations: array(step.mutations, `${place}.mutations`).map((mutation, j) => wireMutation(mutation, `${place}.mutations[${j}]`)),
    always: step.always ?? false,
  };
}

/**
 * @param {Mutation} mutation
 * @param {string} place
 */
function wireMutation(mutation, place) {
  if (mutation === null || typeof mutation !== "object" || !("verb" in mutation)) {
    throw new TypeError(`${place} must be a Mutation, got ${show(mutation)}`);
  }
  return {
    action: wireAction(mutation, place),
    onSuccess: mutation.onSuccess == null ? null : wireEvent(mutation.onSuccess, `${place}.onSuccess`),
    onFailure: mutation.onFailure == null ? null : wireEvent(mutation.onFailure, `${place}.onFailure`),
    tolerate: array(mutation.tolerate ?? [], `${place}.tolerate`).map((refusal) => oneOf(refusal, REFUSALS, `${place}.tolerate`)),
  };
}

/**
 * @param {Action} action
 * @param {string} place
 */
function wireAction(action, place) {
  switch (action.verb) {
    case "create":
      return {
        tag: action.verb,
        val: {
          kind: wireKind(action.kind),
          namespace: text(action.namespace, `${place}.namespace`),
          object: json(action.object, `${place}.object`),
          subresource: optional(action.subresource, `${place}.subresource`),
        },
      };
    case "update":
      return {
        tag: action.verb,
        val: {
          kind: wireKind(action.kind),
          object: json(action.object, `${place}.object`),
          subresource: optional(action.subresource, `${place}.subresource`),
        },
      };
    case "patch":
      return {
        tag: action.verb,
        val: {
          kind: wireKind(action.kind),
          object: { namespace: text(action.namespace, `${place}.namespace`), name: text(action.name, `${place}.name`) },
          subresource: optional(action.subresource, `${place}.subresource`),
          patchType: wirePatchType(action.type, `${place}.type`),
          body: json(action.body, `${place}.body`),
          preconditions: wirePreconditions(action.preconditions, place),
        },
      };
    case "delete":
      return {
        tag: action.verb,
        val: {
          kind: wireKind(action.kind),
          object: { namespace: text(action.namespace, `${place}.namespace`), name: text(action.name, `${place}.name`) },
          preconditions: wirePreconditions(action.preconditions, place),
          propagation: propagation(action.propagation, place),
          gracePeriodSeconds:
            action.gracePeriodSeconds == null ? null : milliseconds(action.gracePeriodSeconds, `${place}.gracePeriodSeconds`),
        },
      };
    case "delete-collection":
      return {
        tag: action.verb,
        val: {
          kind: wireKind(action.kind),
          namespace: text(action.namespace, `${place}.namespace`),
          labelSelector: optional(action.labelSelector, `${place}.labelSelector`),
          propagation: propagation(action.propagation, place),
        },
      };
    case "event":
      return { tag: action.verb, val: wireEvent(action.event, `${place}.event`) };
    default:
      throw new TypeError(`${place}.verb must be one of ${VERBS.join(", ")}, got ${show(/** @type {any} */ (action).verb)}`);
  }
}

/**
 * @param {import("./mutation.js").PatchType} type
 * @param {string} place
 */
function wirePatchType(type, place) {
  if (type !== null && typeof type === "object") {
    return { tag: "apply", val: { fieldManager: text(type.fieldManager, `${place}.fieldManager`), force: type.force ?? false } };
  }
  return { tag: oneOf(type, ["json", "merge", "strategic-merge"], place) };
}

/**
 * @param {Event} event
 * @param {string} place
 */
function wireEvent(event, place) {
  if (event === null || typeof event !== "object" || !event.regarding) {
    throw new TypeError(`${place} must be an Event, which event() makes, got ${show(event)}`);
  }
  return {
    regardingKind: wireKind(event.kind),
    regarding: { namespace: text(event.regarding.namespace, `${place}.regarding`), name: text(event.regarding.name, `${place}.regarding`) },
    regardingUid: text(event.uid, `${place}.uid`),
    eventType: oneOf(event.type, ["normal", "warning"], `${place}.type`),
    reason: text(event.reason, `${place}.reason`),
    message: text(event.message, `${place}.message`),
  };
}

/**
 * @param {import("./mutation.js").Preconditions | undefined} preconditions
 * @param {string} place
 */
function wirePreconditions(preconditions, place) {
  return {
    uid: optional(preconditions?.uid, `${place}.preconditions.uid`),
    resourceVersion: optional(preconditions?.resourceVersion, `${place}.preconditions.resourceVersion`),
  };
}

/** @param {import("./kind.js").KindLike} kind */
function wireKind(kind) {
  const { group, version, name } = Kind.of(kind);
  return { group, version, name };
}

/**
 * @param {unknown} value
 * @param {string} place
 */
function propagation(value, place) {
  return value == null ? null : oneOf(value, PROPAGATIONS, `${place}.propagation`);
}

/**
 * @param {unknown} value
 * @param {string} place
 * @returns {string}
 */
function json(value, place) {
  if (value === null || typeof value !== "object") {
    throw new TypeError(`${place} must be an object, got ${show(value)}`);
  }
  return /** @type {string} */ (stringify(value));
}

/**
 * @param {unknown} value
 * @param {string} place
 * @returns {string}
 */
function anyJson(value, place) {
  const made = stringify(value);
  if (made === undefined) {
    throw new TypeError(`${place} must become JSON, got ${show(value)}`);
  }
  return made;
}

/**
 * @param {unknown} value
 * @param {string} place
 */
function whole(value, place) {
  const found = number(value, place);
  if (!Number.isInteger(found) || found < 1 || found > MAX_U32) {
    throw new TypeError(`${place} must be a whole number from 1 to ${MAX_U32}, got ${found}`);
  }
  return found;
}

/**
 * @template T
 * @param {readonly T[]} value
 * @param {string} place
 */
function array(value, place) {
  if (!Array.isArray(value)) {
    throw new TypeError(`${place} must be an array, got ${show(value)}`);
  }
  return /** @type {readonly T[]} */ (value);
}

/**
 * @param {unknown} value
 * @param {string} place
 */
function text(value, place) {
  if (typeof value !== "string") {
    throw new TypeError(`${place} must be a string, got ${show(value)}`);
  }
  return value;
}

/**
 * @param {unknown} value
 * @param {string} place
 */
function optional(value, place) {
  return value == null ? null : text(value, place);
}

/**
 * @param {unknown} value
 * @param {string} place
 */
function number(value, place) {
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new TypeError(`${place} must be a number, got ${show(value)}`);
  }
  return value;
}

/**
 * @param {unknown} value
 * @param {readonly string[]} choices
 * @param {string} place
 */
function oneOf(value, choices, place) {
  if (typeof value !== "string" || !choices.includes(value)) {
    throw new TypeError(`${place} must be one of ${choices.join(", ")}, got ${show(value)}`);
  }
  return value;
}

/** @param {unknown} value */
function show(value) {
  if (typeof value === "function") {
    return "a function";
  }
  return (value instanceof Error ? String(value) : `${stringify(value)}`).slice(0, 100);
}
