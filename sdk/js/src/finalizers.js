import { Mutation } from "./mutation.js";

/** @import { KindLike } from "./kind.js" */
/** @import { KubernetesObject } from "./model.js" */

/**
 * Whether an object has the finalizer: it is deleted only after that was taken out.
 * @param {KubernetesObject} object
 * @param {string} name
 * @returns {boolean}
 */
export function hasFinalizer(object, name) {
  return object.metadata?.finalizers?.includes(name) ?? false;
}

/**
 * A patch that adds the finalizer as the last one. Add it before anything is made that must be cleaned up.
 *
 * The API server refuses it as a conflict if the object has changed since it was read, because the patch holds the whole list;
 * the run is then repeated.
 * @param {KindLike} kind
 * @param {KubernetesObject} object As it was read.
 * @param {string} name
 * @returns {Mutation}
 */
export function addFinalizer(kind, object, name) {
  const finalizers = object.metadata?.finalizers ?? [];
  return replace(kind, object, hasFinalizer(object, name) ? finalizers : [...finalizers, name]);
}

/**
 * A patch that takes the finalizer out, and leaves those of others. A conflict as for {@link addFinalizer}.
 * @param {KindLike} kind
 * @param {KubernetesObject} object As it was read.
 * @param {string} name
 * @returns {Mutation}
 */
export function removeFinalizer(kind, object, name) {
  return replace(kind, object, (object.metadata?.finalizers ?? []).filter((finalizer) => finalizer !== name));
}

/**
 * @param {KindLike} kind
 * @param {KubernetesObject} object
 * @param {string[]} finalizers
 */
function replace(kind, object, finalizers) {
  const { namespace = "", name = "", uid, resourceVersion } = object.metadata ?? {};
  return Mutation.patch(kind, namespace, name, "merge", { metadata: { finalizers } }, { uid, resourceVersion });
}
