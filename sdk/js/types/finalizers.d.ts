import { Mutation } from "./mutation.js";
import type { KindLike } from "./kind.js";
import type { KubernetesObject } from "./model.js";
/** @import { KindLike } from "./kind.js" */
/** @import { KubernetesObject } from "./model.js" */
/**
 * Whether an object has the finalizer: it is deleted only after that was taken out.
 * @param {KubernetesObject} object
 * @param {string} name
 * @returns {boolean}
 */
export declare function hasFinalizer(object: KubernetesObject, name: string): boolean;
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
export declare function addFinalizer(kind: KindLike, object: KubernetesObject, name: string): Mutation;
/**
 * A patch that takes the finalizer out, and leaves those of others. A conflict as for {@link addFinalizer}.
 * @param {KindLike} kind
 * @param {KubernetesObject} object As it was read.
 * @param {string} name
 * @returns {Mutation}
 */
export declare function removeFinalizer(kind: KindLike, object: KubernetesObject, name: string): Mutation;
