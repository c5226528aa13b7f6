import { Mutation } from "./mutation.js";
import type { KindLike } from "./kind.js";
import type { KubernetesObject } from "./model.js";
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
export declare function patchStatus(kind: KindLike, object: KubernetesObject & {
    status?: object | undefined;
}, status: object): Mutation | undefined;
/**
 * Whether two JSON values are the same; the order of members does not matter.
 * @param {any} a
 * @param {any} b
 * @returns {boolean}
 */
export declare function equal(a: any, b: any): boolean;
