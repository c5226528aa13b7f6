// Outcomes in the form of the expected ones of cases.

import { equal } from "../status.js";

/** @import { WireError, WireEvent, WireMoment, WireMutation, WireNeed, WireOutcome, WireWake } from "../wire.js" */
/** @import { World } from "./world.js" */

/** @typedef {Record<string, any>} Shown */

/**
 * @param {WireOutcome} outcome
 * @param {World} world Updates are shown as differences to its objects.
 * @returns {Shown}
 */
export function renderOutcome(outcome, world) {
  return compact({
    needs: outcome.needs.length > 0 ? outcome.needs.map(renderNeed) : null,
    steps: outcome.steps.map(({ order, always, mutations }) =>
      compact({ order, always: always || null, mutations: renderMutations(mutations, world) }),
    ),
    requeueAfter: outcome.requeueAfterMs === null ? null : duration(outcome.requeueAfterMs),
    // A forgotten state is shown as null.
    state: outcome.state.length > 0 ? Object.fromEntries(outcome.state.map(({ name, value }) => [name, value])) : null,
    observations:
      outcome.observations.length > 0
        ? outcome.observations.map(({ metric, labels, value, at }) => `${metric}{${labels.join(",")}} ${value}${momentText(at)}`)
        : null,
    wake: outcome.wake.length > 0 ? outcome.wake.map(renderWake) : null,
    runLabels: outcome.runLabels.length > 0 ? Object.fromEntries(outcome.runLabels) : null,
    error: outcome.error && renderError(outcome.error),
  });
}

/**
 * @param {WireError} error
 * @returns {Shown}
 */
export function renderError(error) {
  if (error.tag === "terminal") {
    return { terminal: error.val };
  }
  const { message, afterMs } = error.val;
  return compact({ retry: message, after: afterMs === null ? null : duration(afterMs) });
}

/**
 * @param {readonly WireMutation[]} mutations
 * @param {World} world
 */
function renderMutations(mutations, world) {
  /** @type {{first: WireMutation, shown: Shown, times: number}[]} */
  const groups = [];
  for (const mutation of mutations) {
    const last = groups.at(-1);
    if (last && equal(last.first, mutation)) {
      last.times += 1;
    } else {
      groups.push({ first: mutation, shown: renderMutation(mutation, world), times: 1 });
    }
  }
  return groups.map(({ shown, times }) => (times > 1 ? { ...shown, times } : shown));
}

/**
 * @param {WireMutation} mutation
 * @param {World} world
 * @returns {Shown}
 */
function renderMutation({ action, onSuccess, onFailure, tolerate }, world) {
  return compact({
    ...renderAction(action, world),
    onSuccess: onSuccess && renderEvent(onSuccess),
    onFailure: onFailure && renderEvent(onFailure),
    tolerate: tolerate.length > 0 ? tolerate : null,
  });
}

/**
 * @param {WireMutation["action"]} action
 * @param {World} world
 * @returns {Shown}
 */
function renderAction(action, world) {
  // The verbs of the union are plain strings to the type checker.
  const { tag, val } = /** @type {{tag: string, val: any}} */ (action);
  switch (tag) {
    case "create":
      return { create: target(val.kind, { namespace: "", name: val.namespace }, val.subresource), object: JSON.parse(val.object) };
    case "update": {
      const object = JSON.parse(val.object);
      const { namespace = "", name = "" } = object.metadata ?? {};
      const original = world.original(kindText(val.kind), namespace, name);
      const update = target(val.kind, { namespace, name }, val.subresource);
      return original === undefined ? { update, object } : { update, changes: difference(original, object) };
    }
    case "patch":
      return {
        patch: target(val.kind, val.object, val.subresource),
        form:
          val.patchType.tag === "apply"
            ? `apply by ${val.patchType.val.fieldManager}, force: ${val.patchType.val.force}`
            : val.patchType.tag,
        if: preconditions(val.preconditions),
        body: JSON.parse(val.body),
      };
    case "delete":
      return {
        delete: target(val.kind, val.object, null),
        if: preconditions(val.preconditions),
        propagation: val.propagation,
        gracePeriodSeconds: val.gracePeriodSeconds,
      };
    case "delete-collection":
      return {
        deleteCollection: target(val.kind, { namespace: "", name: val.namespace }, null),
        labelSelector: val.labelSelector,
        propagation: val.propagation,
      };
    default:
      return { event: renderEvent(val) };
  }
}

/** @param {WireMoment} moment */
function momentText(moment) {
  if (moment.tag === "now") {
    return "";
  }
  const { step, position } = moment.val;
  return ` when steps[${step}].mutations[${position}] ${moment.tag === "done" ? "is done" : "has failed"}`;
}

/** @param {WireWake} wake */
function renderWake({ key: { queue, kind, object }, afterMs }) {
  return `${queue}: ${kindText(kind)} ${objectText(object)}${afterMs === null ? "" : ` after ${duration(afterMs)}`}`;
}

/**
 * @param {WireNeed} need
 * @returns {string | Shown}
 */
export function renderNeed(need) {
  switch (need.tag) {
    case "live-object":
      return `get ${target(need.val.kind, need.val.object, need.val.subresource)}`;
    case "live-list": {
      const { kind, namespace, labelSelector, fieldSelector, detail, limit } = need.val;
      const fields = fieldSelector === null ? "" : ` and fields ${JSON.stringify(fieldSelector)}`;
      const shown = { metadata: "", projection: ", as projections", whole: ", whole" }[detail];
      const place = `${kindText(kind)} in ${JSON.stringify(namespace)}`;
      return `list ${place} with ${JSON.stringify(labelSelector ?? "")}${fields}, at most ${limit}${shown}`;
    }
    case "raw-path":
      return `get ${need.val}`;
    case "discovery":
      return "discover";
    case "review": {
      const { kind, namespace, object } = need.val;
      return { review: `${kindText(kind)}${namespace === "" ? "" : ` in ${namespace}`}`, object: JSON.parse(object) };
    }
    case "sign-jwt":
      return { "sign-jwt": need.val.key, claims: JSON.parse(need.val.claims) };
    case "sign-certificate": {
      const { authority, ...rest } = need.val;
      return { "sign-certificate": authority, ...rest };
    }
    case "call": {
      const { endpoint, operation, body, timeoutMs } = need.val;
      const timeout = timeoutMs === null ? {} : { timeoutMs };
      return { call: `${endpoint}/${operation}`, body: JSON.parse(body), ...timeout };
    }
  }
}

/** @param {WireEvent} event */
function renderEvent({ regardingKind, regarding, regardingUid, eventType, reason, message }) {
  const type = eventType === "normal" ? "Normal" : "Warning";
  return `${type} ${reason} on ${kindText(regardingKind)} ${objectText(regarding)} (${regardingUid}): ${message}`;
}

/**
 * A time as Rust writes it: `1.5s`, `250ms`, `90s`.
 * @param {number} milliseconds
 */
export function duration(milliseconds) {
  return milliseconds >= 1000 ? `${milliseconds / 1000}s` : milliseconds > 0 ? `${milliseconds}ms` : "0ns";
}

/**
 * @param {{group: string, version: string, name: string}} kind
 */
export function kindText({ group, version, name }) {
  return `${group === "" ? "" : `${group}/`}${version}/${name}`;
}

/**
 * @param {{namespace: string, name: string}} object
 */
export function objectText({ namespace, name }) {
  return namespace === "" ? name : `${namespace}/${name}`;
}

/**
 * @param {{group: string, version: string, name: string}} kind
 * @param {{namespace: string, name: string}} object
 * @param {string | null} subresource
 */
function target(kind, object, subresource) {
  return `${kindText(kind)}${subresource === null ? "" : `/${subresource}`} ${objectText(object)}`.trimEnd();
}

/**
 * @param {{uid: string | null, resourceVersion: string | null}} preconditions
 */
function preconditions({ uid, resourceVersion }) {
  return uid === null && resourceVersion === null ? null : compact({ uid, resourceVersion });
}

/**
 * What changes, in the form of a merge patch (RFC 7386).
 * @param {any} before
 * @param {any} after
 * @returns {any}
 */
function difference(before, after) {
  const isObject = (/** @type {any} */ value) => value !== null && typeof value === "object" && !Array.isArray(value);
  if (!isObject(before) || !isObject(after)) {
    return after;
  }
  /** @type {Shown} */
  const changes = {};
  for (const [name, value] of Object.entries(after)) {
    if (!Object.hasOwn(before, name)) {
      changes[name] = value;
    } else if (!equal(before[name], value)) {
      changes[name] = difference(before[name], value);
    }
  }
  for (const name of Object.keys(before).filter((one) => !Object.hasOwn(after, one))) {
    changes[name] = null;
  }
  return changes;
}

/**
 * Without members that are `null` or `undefined`.
 * @param {Shown} shown
 * @returns {Shown}
 */
function compact(shown) {
  return Object.fromEntries(Object.entries(shown).filter(([, value]) => value != null));
}
