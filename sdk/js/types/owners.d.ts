/** @import { KubernetesObject, OwnerReference } from "./model.js" */
import type { KubernetesObject, OwnerReference } from "./model.js";
/**
 * The reference of an object to its controller, which blocks a foreground deletion of the controller.
 * @param {KubernetesObject} owner As it was read: with apiVersion, kind, name and uid.
 * @returns {OwnerReference}
 * @throws {TypeError} If one of them is missing.
 */
export declare function controllerRef(owner: KubernetesObject): OwnerReference;
/**
 * The controller reference of an object.
 * @param {KubernetesObject} object
 * @returns {OwnerReference | undefined}
 */
export declare function controllerOf(object: KubernetesObject): OwnerReference | undefined;
/**
 * Whether the controller of an object has this uid.
 * @param {KubernetesObject} object
 * @param {string} uid
 * @returns {boolean}
 */
export declare function isControlledBy(object: KubernetesObject, uid: string): boolean;
