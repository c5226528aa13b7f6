// Shapes of what a controller sees. Objects are plain JSON values.

/** @import { Kind, KindLike } from "./kind.js" */

/**
 * The root object of a run: one entry of one work queue of this controller. The object may be gone by now.
 * The tick key of a queue ({@link tick}) has the kind `pintle/v1/Tick`, no namespace and the name of the queue; it is no object.
 * @typedef {object} Key
 * @property {string} queue Name of the queue, as the manifest declares it.
 * @property {Kind} kind Kind of the root object.
 * @property {string} namespace Namespace of the root object; empty if it is cluster-scoped.
 * @property {string} name Name of the root object.
 */

/**
 * A key to run: a {@link Key}, or what becomes one.
 * @typedef {object} KeyLike
 * @property {string} queue Name of the queue, as the manifest declares it.
 * @property {KindLike} kind Kind of the root object.
 * @property {string | undefined} [namespace] Namespace of the root object; absent or empty if it is cluster-scoped.
 * @property {string} name Name of the root object.
 */

/**
 * Name of an object within its kind.
 * @typedef {object} ObjectKey
 * @property {string} namespace Empty for cluster-scoped objects.
 * @property {string} name Name.
 */

/**
 * An entry of `metadata.ownerReferences`.
 * @typedef {object} OwnerReference
 * @property {string} apiVersion
 * @property {string} kind
 * @property {string} name
 * @property {string} uid
 * @property {boolean} [controller] Whether the owner is the managing controller.
 * @property {boolean} [blockOwnerDeletion]
 */

/**
 * Metadata of an object. All fields are optional: a projection holds what the manifest declares.
 * @typedef {object} ObjectMeta
 * @property {string} [name]
 * @property {string} [generateName]
 * @property {string} [namespace]
 * @property {string} [uid]
 * @property {string} [resourceVersion]
 * @property {number} [generation]
 * @property {string} [creationTimestamp] RFC 3339.
 * @property {string} [deletionTimestamp] RFC 3339; there while the object is being deleted.
 * @property {Record<string, string>} [labels]
 * @property {Record<string, string>} [annotations]
 * @property {string[]} [finalizers]
 * @property {OwnerReference[]} [ownerReferences]
 */

/**
 * What every object has. Your own interfaces fit, if their `metadata` fits.
 * @typedef {object} KubernetesObject
 * @property {string} [apiVersion]
 * @property {string} [kind]
 * @property {ObjectMeta} [metadata]
 */

/**
 * Any object, as plain JSON.
 * @typedef {KubernetesObject & Record<string, any>} AnyObject
 */

/**
 * A condition of a status.
 * @typedef {object} Condition
 * @property {string} type
 * @property {"True" | "False" | "Unknown"} status
 * @property {string} reason Upper camel case, for machines.
 * @property {string} message For humans.
 * @property {number} [observedGeneration] Generation of the spec that was judged.
 * @property {string} [lastTransitionTime] RFC 3339; kept by {@link setCondition}.
 */

/**
 * Selects by owner references; the strings are uids.
 * `controller`: the controller reference has this uid. `controllerOrOrphan`: the same, or there is none. `any`: any owner reference has it.
 * @typedef {{controller: string} | {controllerOrOrphan: string} | {any: string}} OwnedBy
 */

/**
 * Which objects to list; all conditions must hold. Without any: every object of the kind.
 * @typedef {object} Query
 * @property {string} [namespace] All namespaces if absent.
 * @property {string} [labelSelector] In the syntax of kubectl: `a=b,c in (d,e),!f`.
 * @property {OwnedBy} [owner] By owner references.
 * @property {{name: string, value: string}} [index] An index that the manifest declares, and its value.
 * @property {boolean} [whole] Whole objects instead of the projection; the watch must declare `whole`.
 */

/**
 * A resource that the API server has.
 * @typedef {object} ApiResource
 * @property {Kind} kind Kind of its objects.
 * @property {string} plural Name in URLs.
 * @property {boolean} namespaced Whether its objects live in namespaces.
 * @property {string[]} verbs For example `list`, `delete`.
 * @property {string[]} subresources For example `status`, `scale`.
 * @property {boolean} preferred Whether the version is the one that the server prefers for the group.
 */

/**
 * What became of a mutation of the previous run of this key that was neither carried out nor tolerated.
 * @typedef {object} MutationFailure
 * @property {number} step Place of the step in the previous outcome.
 * @property {number} position Place within the step.
 * @property {string} verb `create`, `update`, `patch`, `delete` or `delete-collection`.
 * @property {Kind} kind Kind of the object.
 * @property {ObjectKey} object The object; the name is empty if it was to be generated.
 * @property {string} [subresource]
 * @property {number} code HTTP status code; 0 if no answer came.
 * @property {string} reason The server's reason, for example `AlreadyExists`; or `Transport`, `NotGranted`.
 * @property {string} message The server's message.
 * @property {string[]} causes Reasons of the causes, for example `NamespaceTerminating`.
 */

/**
 * The refusal of a need: the API server's, or the host's own (`Expired`, `TooLarge`, `NotGranted`), whose code is 0.
 * @typedef {object} ApiError
 * @property {number} code HTTP status code; 0 if there is none.
 * @property {string} reason
 * @property {string} message
 */

export {};
