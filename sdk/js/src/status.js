import { Mutation } from "./mutation.js";

/** @import { KindLike } from "./kind.js" */
/** @import { KubernetesObject } from "./model.js" */

/**
 * A patch that makes the object's status `status`, or `undefined` if it already is. A member that the object's status has and `status`
 * has not is removed. `null` and absent are the same.
 *
 * The API server refuses the patch as a conflict if the object has changed since it was read; the run is then repeated.
 * Put it into a last step that is `always` carried out, if it shall also report failures.
 * @param {KindLike} kind
 * @param {KubernetesObject & {status?: object | undefined}} object As it was read.
 * @param {object} status
 * @returns {Mutation | undefined}
 */
export function patchStatus(kind, object, status) {
  const current = plain(object.status ?? null);
  const wanted = plain(status);
  if (equal(current, wanted)) {
    return undefined;
  }
  const { namespace = "", name = "", resourceVersion } = object.metadata ?? {};
  const body = { status: replacing(current, wanted) };
  return Mutation.patch(kind, namespace, name, "merge", body, { subresource: "status", resourceVersion });
}

/**
 * A copy without members that are `null` or `undefined`.
 * @param {any} value
 * @returns {any}
 */
function plain(value) {
  if (Array.isArray(value)) {
    return value.map(plain);
  }
  if (value !== null && typeof value === "object") {
    const members = Object.entries(value).filter(([, member]) => member != null);
    return Object.fromEntries(members.map(([name, member]) => [name, plain(member)]));
  }
  return value;
}

/**
 * Whether two JSON values are the same; the order of members does not matter.
 * @param {any} a
 * @param {any} b
 * @returns {boolean}
 */
export function equal(a, b) {
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object" || Array.isArray(a) !== Array.isArray(b)) {
    return a === b;
  }
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]));
}

/**
 * `wanted` in full, with `null` for what must go: a merge patch leaves alone what it does not name.
 * @param {any} current
 * @param {any} wanted
 * @returns {any}
 */
function replacing(current, wanted) {
  if (!isObject(current) || !isObject(wanted)) {
    return wanted;
  }
  const patch = Object.entries(wanted).map(([name, value]) => [name, replacing(current[name], value)]);
  const gone = Object.keys(current).filter((name) => !Object.hasOwn(wanted, name));
  return Object.fromEntries([...patch, ...gone.map((name) => [name, null])]);
}

/** @param {any} value */
function isObject(value) {
  return value != null && typeof value === "object" && !Array.isArray(value);
}
