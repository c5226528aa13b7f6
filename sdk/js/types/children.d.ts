import { Kind } from "./kind.js";
import { Mutation } from "./mutation.js";
import type { KindLike } from "./kind.js";
import type { Lister } from "./lister.js";
import type { AnyObject, KubernetesObject, ObjectKey } from "./model.js";
/** @import { KindLike } from "./kind.js" */
/** @import { Lister } from "./lister.js" */
/** @import { AnyObject, KubernetesObject, ObjectKey, OwnerReference } from "./model.js" */
/** Annotation of a child: hash of what was wanted when it was last applied. */
export declare const APPLIED = "pintle.dev/applied";
/** A child by its name. */
export declare class Child {
    kind: Kind;
    object: ObjectKey;
    /**
     * @param {Kind} kind
     * @param {ObjectKey} object
     */
    constructor(kind: Kind, object: ObjectKey);
    /** For messages: `apps/v1/Deployment default/web`. */
    toString(): string;
}
/** A wanted object that another object controls. */
export declare class Conflict {
    child: Child;
    controllerKind: Kind;
    controllerName: string;
    /**
     * @param {Child} child The object.
     * @param {Kind} controllerKind Kind of its controller.
     * @param {string} controllerName Name of its controller.
     */
    constructor(child: Child, controllerKind: Kind, controllerName: string);
    /** For messages: `apps/v1/Deployment default/web is controlled by v1/Widget a`. */
    toString(): string;
}
export type Plan = {
    /**
     * Applies and adoptions in the order of the wanted objects, then deletes in the order of the owned
     * kinds, by name. An apply without a precondition creates.
     */
    mutations: Mutation[];
    /**
     * Wanted objects that are there under another controller, in the order in which they are wanted.
     */
    conflicts: Conflict[];
    /**
     * Wanted objects that are being deleted, and are created again afterwards.
     */
    waiting: Child[];
};
/**
 * What {@link Children.plan} found.
 * @typedef {object} Plan
 * @property {Mutation[]} mutations Applies and adoptions in the order of the wanted objects, then deletes in the order of the owned
 *   kinds, by name. An apply without a precondition creates.
 * @property {Conflict[]} conflicts Wanted objects that are there under another controller, in the order in which they are wanted.
 * @property {Child[]} waiting Wanted objects that are being deleted, and are created again afterwards.
 */
/**
 * The desired set of children of an owner.
 *
 * Children are written by server-side apply, so fields that others set (defaults, an autoscaler's replicas) stay as they are, and a field
 * that is no longer wanted goes. What is applied carries a controller reference to the owner and the annotation {@link APPLIED} with the
 * {@link hash} of what was wanted, by which the next run sees that nothing has changed. Later changes by others are found by
 * {@link covers}. An object that another controller has is not touched.
 *
 * A wanted object without a controller is adopted first: a merge patch adds the controller reference to `metadata.ownerReferences` and
 * changes nothing else. Its change causes another run, which applies the rest.
 *
 * The manifest watches every owned kind, `whole` or with these `fields`: `metadata.annotations`, `metadata.labels`,
 * `metadata.ownerReferences`, `metadata.deletionTimestamp`, and all that is set in children. It asks for
 * `{verbs: [create, patch, delete], kinds: [...], of: controlled}`, with `adopt: true` in it if children are to be adopted. Without
 * `adopt: true` an adoption fails with the reason `NotGranted`, and the other mutations are sent all the same. If the owner is
 * cluster-scoped, the grant lists the children's namespaces, or all with `namespaces: ["*"]`.
 */
export declare class Children {
    #private;
    /**
     * No children yet.
     * @param {KubernetesObject} owner As it was read: with apiVersion, kind, name, namespace and uid.
     * @param {string} manager Field manager of the applies, 1 to 128 bytes: usually the name of the controller, and the same for ever,
     *   because it is by this name that fields which are no longer wanted are found.
     */
    constructor(owner: KubernetesObject, manager: string);
    /**
     * The owner has children of these kinds: those that are not wanted are deleted, also when none is.
     * @param {...KindLike} kinds
     * @returns {this}
     */
    own(...kinds: KindLike[]): this;
    /**
     * Wanted objects, with `apiVersion`, `kind`, `metadata.name`, and all that shall be applied.
     * The namespace is the owner's if they name none.
     * @param {...(KubernetesObject | AnyObject)} objects
     * @returns {this}
     */
    want(...objects: (KubernetesObject | AnyObject)[]): this;
    /**
     * Compares the desired objects with the cached ones.
     * @param {Lister} lister
     * @returns {Plan}
     * @throws {Terminal} As only other code helps: a wanted object has no name, is wanted twice, is of a kind that is not owned, lives in
     *   another namespace than its owner, or cannot be hashed.
     */
    plan(lister: Lister): Plan;
}
/**
 * Whether an object has all that is wanted of it: every member of a wanted object is there and covered, lists have the same length and
 * cover item by item, scalars are equal. What is wanted to be `null`, `""`, `0`, `false`, `[]` or `{}` may be missing.
 *
 * In objects of `v1`, `apps/v1` and `batch/v1`, items that others add to `containers`, `initContainers`, `volumes`, `env`,
 * `volumeMounts`, `volumeDevices` and `ports` count as covered: server-side apply leaves them there.
 *
 * Write values as the API server does: it turns `cpu: 1000m` into `cpu: 1`, which would look like a change in every run.
 * @param {any} existing
 * @param {any} wanted
 * @returns {boolean}
 */
export declare function covers(existing: any, wanted: any): boolean;
