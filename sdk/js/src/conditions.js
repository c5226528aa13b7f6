/** @import { Condition } from "./model.js" */

/**
 * The conditions with this one in place of that of the same type, or at the end. `lastTransitionTime` becomes `now` in whole seconds, or
 * stays the old one if the status is the same, whatever `condition` contains.
 * @param {readonly Condition[] | undefined} conditions Those that the object has; not changed.
 * @param {Condition} condition
 * @param {string} now {@link Lister.now}
 * @returns {Condition[]}
 */
export function setCondition(conditions, condition, now) {
  const current = findCondition(conditions, condition.type);
  const kept = current?.status === condition.status ? current.lastTransitionTime : undefined;
  const wanted = { ...condition, lastTransitionTime: kept ?? wholeSeconds(now) };
  return current === undefined
    ? [...(conditions ?? []), wanted]
    : (conditions ?? []).map((other) => (other === current ? wanted : other));
}

/**
 * The condition of this type.
 * @param {readonly Condition[] | undefined} conditions
 * @param {string} type
 * @returns {Condition | undefined}
 */
export function findCondition(conditions, type) {
  return conditions?.find((condition) => condition.type === type);
}

/**
 * Whether the condition of this type is `True`.
 * @param {readonly Condition[] | undefined} conditions
 * @param {string} type
 * @returns {boolean}
 */
export function isTrue(conditions, type) {
  return findCondition(conditions, type)?.status === "True";
}

/**
 * A time as the API server writes a `Time`: `2026-01-01T00:00:00Z`.
 * @param {string} time RFC 3339.
 */
function wholeSeconds(time) {
  return new Date(time).toISOString().replace(/\.\d+Z$/, "Z");
}
