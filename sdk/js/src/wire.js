// From what authors return to the contract's own shape. Engines end a run without a word if that does not fit, so it is checked here.

import { Kind } from "./kind.js";

/** @import { Action, Event, Mutation } from "./mutation.js" */
/** @import { OutcomeLike, Step } from "./outcome.js" */
/** @import { Need } from "./need.js" */
/** @import { Key } from "./model.js" */

/** The contract's largest number. */
const MAX_U32 = 2_147_483_647;
/** Reads that the host takes from one outcome; the rest is asked for by the next round, which still misses it. */
export const MAX_NEEDS = 256;

const ORDERS = ["sequential", "parallel", "slow-start"];
const REFUSALS = ["not-found", "already-exists", "conflict", "invalid", "forbidden", "namespace-terminating"];
const PROPAGATIONS = ["background", "foreground", "orphan"];
const VERBS = ["create", "update", "patch", "delete", "delete-collection", "event"];

/**
 * @param {unknown} result What `reconcile` returned.
 */
export function wireOutcome(result) {
  if (result === undefined || result === null) {
    return { needs: [], steps: [], requeueAfterMs: null, state: [], observations: [] };
  }
  if (typeof result !== "object" || Array.isArray(result)) {
    throw new TypeError(`reconcile returned ${show(result)} instead of an Outcome or nothing`);
  }
  if (typeof (/** @type {any} */ (result).then) === "function") {
    throw new TypeError("reconcile returned a Promise: it must not be async. There is nothing to wait for; see Lister.live and Lister.ask");
  }
  const { needs, steps, requeueAfterMs, state, observations, ...unknown } = /** @type {OutcomeLike} */ (result);
  const [misspelt] = Object.keys(unknown);
  if (misspelt !== undefined) {
    throw new TypeError(`an outcome has no ${misspelt}: it has needs, steps, requeueAfterMs, state and observations`);
  }
  return {
    needs: [...array(needs ?? [], "outcome.needs")],
    steps: array(steps ?? [], "outcome.steps").filter((step) => step?.mutations?.length !== 0).map(wireStep),
    requeueAfterMs: requeueAfterMs == null ? null : milliseconds(requeueAfterMs, "outcome.requeueAfterMs"),
    state: array(state ?? [], "outcome.state").map(({ name, value }, i) => ({
      name: text(name, `outcome.state[${i}].name`),
      value: value == null ? null : text(value, `outcome.state[${i}].value`),
    })),
    observations: array(observations ?? [], "outcome.observations").map(({ metric, labels, value }, i) => ({
      metric: text(metric, `outcome.observations[${i}].metric`),
      labels: array(labels, `outcome.observations[${i}].labels`).map((label) => text(label, `outcome.observations[${i}].labels`)),
      value: number(value, `outcome.observations[${i}].value`),
    })),
  };
}

/** @typedef {ReturnType<typeof wireOutcome>} WireOutcome */
/** @typedef {ReturnType<typeof wireMutation>} WireMutation */
/** @typedef {ReturnType<typeof wireEvent>} WireEvent */

/**
 * @param {readonly Need[]} needs
 * @returns {WireOutcome}
 */
export function wireNeeds(needs) {
  return wireOutcome({ needs: needs.slice(0, MAX_NEEDS) });
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
 * @param {Key} key
 * @param {number} i
 */
export function wireKey(key, i) {
  const place = `keysOf: key ${i}`;
  if (key === null || typeof key !== "object") {
    throw new TypeError(`${place} must be {queue, kind, namespace, name}, got ${show(key)}`);
  }
  const object = { namespace: text(key.namespace ?? "", `${place}: namespace`), name: text(key.name, `${place}: name`) };
  return { queue: text(key.queue, `${place}: queue`), kind: wireKind(key.kind), object };
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
  return JSON.stringify(value);
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
  return typeof value === "function" ? "a function" : `${JSON.stringify(value)}`.slice(0, 100);
}
