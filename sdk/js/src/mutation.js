import { Kind } from "./kind.js";

/** @import { KindLike } from "./kind.js" */
/** @import { AnyObject, KubernetesObject, ObjectKey } from "./model.js" */

/**
 * How the API server refused a write, as far as controllers distinguish refusals.
 * @typedef {"not-found" | "already-exists" | "conflict" | "invalid" | "forbidden" | "namespace-terminating"} Refusal
 */

/**
 * What becomes of the objects that a deleted one owns.
 * @typedef {"background" | "foreground" | "orphan"} Propagation
 */

/**
 * What must still hold when the write arrives; otherwise it fails with a conflict.
 * @typedef {object} Preconditions
 * @property {string | undefined} [uid]
 * @property {string | undefined} [resourceVersion]
 */

/**
 * Forms of patches: `json` is RFC 6902, `merge` RFC 7386, `strategic-merge` Kubernetes' own for built-in kinds,
 * `fieldManager` and `force` make it a server-side apply.
 * @typedef {"json" | "merge" | "strategic-merge" | {fieldManager: string, force: boolean}} PatchType
 */

/**
 * A Kubernetes Event, made by {@link event}. The host adds time, source, count and series.
 * @typedef {object} Event
 * @property {Kind} kind Kind of the object that it is about.
 * @property {ObjectKey} regarding The object that it is about.
 * @property {string} uid Its uid; empty if not known.
 * @property {"normal" | "warning"} type
 * @property {string} reason Upper camel case, for machines.
 * @property {string} message For humans, at most 1,024 bytes. In `onSuccess` and `onFailure`, `{name}` stands for the name of the
 *   written object and `{error}` for the server's message.
 */

/**
 * One write.
 * @typedef {{verb: "create", kind: Kind, namespace: string, object: object, subresource?: string | undefined}
 *   | {verb: "update", kind: Kind, object: object, subresource?: string | undefined}
 *   | {verb: "patch", kind: Kind, namespace: string, name: string, type: PatchType, body: object,
 *      subresource?: string | undefined, preconditions: Preconditions}
 *   | {verb: "delete", kind: Kind, namespace: string, name: string, preconditions: Preconditions,
 *      propagation?: Propagation | undefined, gracePeriodSeconds?: number | undefined}
 *   | {verb: "delete-collection", kind: Kind, namespace: string, labelSelector?: string | undefined, propagation?: Propagation | undefined}
 *   | {verb: "event", event: Event}} Action
 */

/**
 * What to do with the result of a write.
 * @typedef {object} ResultOptions
 * @property {Event} [onSuccess] Recorded when the write has succeeded.
 * @property {Event} [onFailure] Recorded when it has failed.
 * @property {readonly Refusal[]} [tolerate] Refusals that count as success.
 */

/**
 * Options of creates and updates.
 * @typedef {ResultOptions & {subresource?: string | undefined}} WriteOptions
 */

/**
 * Options of patches.
 * @typedef {ResultOptions & Preconditions & {subresource?: string | undefined}} PatchOptions
 */

/**
 * Options of deletes. `gracePeriodSeconds`: time that the object gets to shut down.
 * @typedef {ResultOptions & Preconditions & {propagation?: Propagation | undefined, gracePeriodSeconds?: number | undefined}} DeleteOptions
 */

/**
 * One write, and what to do with its result.
 * @typedef {Action & ResultOptions} Mutation
 */

/** Makes writes. What the grants of the manifest do not allow is not sent, and fails with the reason `NotGranted`. */
export const Mutation = Object.freeze({
  /**
   * Creates an object; the host fills in `apiVersion` and `kind`. `metadata.generateName` is honoured.
   * @param {KindLike} kind
   * @param {string} namespace Empty for cluster-scoped kinds.
   * @param {object} object
   * @param {WriteOptions} [options]
   * @returns {Mutation}
   */
  create(kind, namespace, object, options) {
    return { verb: "create", kind: Kind.of(kind), namespace, object, ...options };
  },

  /**
   * Replaces an object. It must carry `metadata.resourceVersion` or `metadata.uid`, and all fields: change a whole object that you read.
   * @param {KindLike} kind
   * @param {object} object
   * @param {WriteOptions} [options]
   * @returns {Mutation}
   */
  update(kind, object, options) {
    return { verb: "update", kind: Kind.of(kind), object, ...options };
  },

  /**
   * Replaces the status of an object. The whole metadata must be there, since the API server takes some of it from a status update too.
   * {@link patchStatus} needs less.
   * @param {KindLike} kind
   * @param {object} object
   * @param {ResultOptions} [options]
   * @returns {Mutation}
   */
  updateStatus(kind, object, options) {
    return Mutation.update(kind, object, { ...options, subresource: "status" });
  },

  /**
   * Changes part of an object.
   * @param {KindLike} kind
   * @param {string} namespace Empty for cluster-scoped kinds.
   * @param {string} name
   * @param {PatchType} type
   * @param {object} body
   * @param {PatchOptions} [options]
   * @returns {Mutation}
   */
  patch(kind, namespace, name, type, body, options = {}) {
    const { uid, resourceVersion, ...rest } = options;
    return { verb: "patch", kind: Kind.of(kind), namespace, name, type, body, preconditions: { uid, resourceVersion }, ...rest };
  },

  /**
   * Server-side apply of an object, which names its kind, namespace and name. Takes over fields of other managers, unless `force` is false.
   * @param {string} fieldManager Who owns the fields.
   * @param {KubernetesObject | AnyObject} object
   * @param {PatchOptions & {force?: boolean}} [options]
   * @returns {Mutation}
   */
  apply(fieldManager, object, { force = true, ...options } = {}) {
    const { namespace = "", name = "" } = object.metadata ?? {};
    return Mutation.patch(Kind.ofObject(object), namespace, name, { fieldManager, force }, object, options);
  },

  /**
   * Deletes an object. Give the uid that was seen, so that a namesake survives. An object that is gone already counts as done.
   * @param {KindLike} kind
   * @param {string} namespace Empty for cluster-scoped kinds.
   * @param {string} name
   * @param {DeleteOptions} [options]
   * @returns {Mutation}
   */
  delete(kind, namespace, name, options = {}) {
    const { uid, resourceVersion, ...rest } = options;
    return { verb: "delete", kind: Kind.of(kind), namespace, name, preconditions: { uid, resourceVersion }, ...rest };
  },

  /**
   * Deletes the objects of a kind in a namespace that the selector matches, or all.
   * @param {KindLike} kind
   * @param {string} namespace
   * @param {ResultOptions & {labelSelector?: string, propagation?: Propagation}} [options]
   * @returns {Mutation}
   */
  deleteCollection(kind, namespace, options) {
    return { verb: "delete-collection", kind: Kind.of(kind), namespace, ...options };
  },

  /**
   * An event on its own. One that cannot be written fails nothing.
   * @param {Event} event
   * @returns {Mutation}
   */
  event(event) {
    return { verb: "event", event };
  },
});

/**
 * An event about an object, for {@link Mutation.event}, `onSuccess` and `onFailure`.
 * @param {KubernetesObject | AnyObject} object As it was read: with apiVersion, kind, name and uid.
 * @param {"normal" | "warning"} type
 * @param {string} reason Upper camel case, for machines.
 * @param {string} message For humans, at most 1,024 bytes.
 * @returns {Event}
 */
export function event(object, type, reason, message) {
  const { namespace = "", name = "", uid = "" } = object.metadata ?? {};
  return { kind: Kind.ofObject(object), regarding: { namespace, name }, uid, type, reason, message };
}
