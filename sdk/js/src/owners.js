/** @import { KubernetesObject, OwnerReference } from "./model.js" */

/**
 * The reference of an object to its controller, which blocks a foreground deletion of the controller.
 * @param {KubernetesObject} owner As it was read: with apiVersion, kind, name and uid.
 * @returns {OwnerReference}
 * @throws {TypeError} If one of them is missing.
 */
export function controllerRef(owner) {
  const { apiVersion, kind, metadata: { name, uid } = {} } = owner;
  if (!apiVersion || !kind || !name || !uid) {
    throw new TypeError(`an owner needs apiVersion, kind, metadata.name and metadata.uid: ${JSON.stringify(owner).slice(0, 200)}`);
  }
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/**
 * The controller reference of an object.
 * @param {KubernetesObject} object
 * @returns {OwnerReference | undefined}
 */
export function controllerOf(object) {
  return object.metadata?.ownerReferences?.find((reference) => reference.controller === true);
}

/**
 * Whether the controller of an object has this uid.
 * @param {KubernetesObject} object
 * @param {string} uid
 * @returns {boolean}
 */
export function isControlledBy(object, uid) {
  return controllerOf(object)?.uid === uid;
}
