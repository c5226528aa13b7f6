// "Here is the set of children that I want": what is missing is created, what differs updated, what fits adopted, and what is no longer
// wanted deleted.

import { Terminal } from "./errors.js";
import { hash } from "./hash.js";
import { parse, stringify } from "./json.js";
import { Kind } from "./kind.js";
import { Mutation } from "./mutation.js";
import { controllerOf, controllerRef } from "./owners.js";

/** @import { KindLike } from "./kind.js" */
/** @import { Lister } from "./lister.js" */
/** @import { AnyObject, KubernetesObject, ObjectKey, OwnerReference } from "./model.js" */

/** Annotation of a child: hash of what was wanted when it was last applied. */
export const APPLIED = "pintle.dev/applied";

/** A child by its name. */
export class Child {
  /**
   * @param {Kind} kind
   * @param {ObjectKey} object
   */
  constructor(kind, object) {
    this.kind = kind;
    this.object = object;
  }

  /** For messages: `apps/v1/Deployment default/web`. */
  toString() {
    const { namespace, name } = this.object;
    return `${this.kind} ${namespace === "" ? name : `${namespace}/${name}`}`;
  }
}

/** A wanted object that another object controls. */
export class Conflict {
  /**
   * @param {Child} child The object.
   * @param {Kind} controllerKind Kind of its controller.
   * @param {string} controllerName Name of its controller.
   */
  constructor(child, controllerKind, controllerName) {
    this.child = child;
    this.controllerKind = controllerKind;
    this.controllerName = controllerName;
  }

  /** For messages: `apps/v1/Deployment default/web is controlled by v1/Widget a`. */
  toString() {
    return `${this.child} is controlled by ${this.controllerKind} ${this.controllerName}`;
  }
}

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
export class Children {
  /** @type {OwnerReference} */
  #owner;
  /** @type {string} */
  #namespace;
  /** @type {string} */
  #manager;
  /** @type {Kind[]} */
  #kinds = [];
  /** @type {AnyObject[]} */
  #wanted = [];

  /**
   * No children yet.
   * @param {KubernetesObject} owner As it was read: with apiVersion, kind, name, namespace and uid.
   * @param {string} manager Field manager of the applies, 1 to 128 bytes: usually the name of the controller, and the same for ever,
   *   because it is by this name that fields which are no longer wanted are found.
   */
  constructor(owner, manager) {
    this.#owner = controllerRef(owner);
    this.#namespace = owner.metadata?.namespace ?? "";
    this.#manager = manager;
  }

  /**
   * The owner has children of these kinds: those that are not wanted are deleted, also when none is.
   * @param {...KindLike} kinds
   * @returns {this}
   */
  own(...kinds) {
    this.#kinds.push(...kinds.map(Kind.of));
    return this;
  }

  /**
   * Wanted objects, with `apiVersion`, `kind`, `metadata.name`, and all that shall be applied.
   * The namespace is the owner's if they name none.
   * @param {...(KubernetesObject | AnyObject)} objects
   * @returns {this}
   */
  want(...objects) {
    this.#wanted.push(...objects);
    return this;
  }

  /**
   * Compares the desired objects with the cached ones.
   * @param {Lister} lister
   * @returns {Plan}
   * @throws {Terminal} As only other code helps: a wanted object has no name, is wanted twice, is of a kind that is not owned, lives in
   *   another namespace than its owner, or cannot be hashed.
   */
  plan(lister) {
    /** @type {Plan} */
    const plan = { mutations: [], conflicts: [], waiting: [] };
    const names = new Set();
    for (const object of this.#wanted) {
      const { child, wanted } = this.#complete(object);
      if (names.has(String(child))) {
        throw new Terminal(`children: ${child} is wanted twice`);
      }
      names.add(String(child));
      this.#planWanted(lister, child, wanted, plan);
    }
    for (const kind of this.#kinds) {
      const query = { owner: { controller: this.#owner.uid }, ...(this.#namespace === "" ? {} : { namespace: this.#namespace }) };
      for (const { metadata: { namespace = "", name = "" } = {} } of lister.list(kind, query)) {
        if (!names.has(String(new Child(kind, { namespace, name })))) {
          plan.mutations.push(...prune(lister, kind, namespace, name));
        }
      }
    }
    return plan;
  }

  /**
   * The name of a wanted object, and the object with its namespace filled in.
   * @param {AnyObject} object
   * @returns {{child: Child, wanted: AnyObject}}
   */
  #complete(object) {
    const wanted = /** @type {AnyObject} */ (parse(/** @type {string} */ (stringify(object))));
    const kind = Kind.ofObject(wanted);
    const name = wanted.metadata?.name ?? "";
    const namespace = wanted.metadata?.namespace || this.#namespace;
    const child = new Child(kind, { namespace, name });
    if (name === "") {
      throw new Terminal(`children: a ${kind} has no metadata.name`);
    }
    if (!this.#kinds.some((owned) => String(owned) === String(kind))) {
      throw new Terminal(`children: ${child} is of a kind that is not owned: call own`);
    }
    if (this.#namespace !== "" && namespace !== this.#namespace) {
      throw new Terminal(`children: ${child} is in another namespace than its owner`);
    }
    if (namespace !== "") {
      wanted.metadata = { ...wanted.metadata, namespace };
    }
    return { child, wanted };
  }

  /**
   * @param {Lister} lister
   * @param {Child} child
   * @param {AnyObject} wanted
   * @param {Plan} plan
   */
  #planWanted(lister, child, wanted, plan) {
    const { kind, object } = child;
    const applied = hash(wanted);
    const metadata = {
      ...wanted.metadata,
      ownerReferences: [this.#owner],
      annotations: { ...wanted.metadata?.annotations, [APPLIED]: applied },
    };
    const body = { ...wanted, metadata };
    const existing = lister.get(kind, object.namespace, object.name);
    if (existing === undefined) {
      plan.mutations.push(Mutation.apply(this.#manager, body));
      return;
    }
    if (existing.metadata?.deletionTimestamp) {
      plan.waiting.push(child);
      return;
    }
    const controller = controllerOf(existing);
    if (controller === undefined) {
      plan.mutations.push(this.#adopt(child, existing));
      return;
    }
    if (controller.uid !== this.#owner.uid) {
      plan.conflicts.push(new Conflict(child, Kind.ofObject(controller), controller.name));
      return;
    }
    const isApplied = existing.metadata?.annotations?.[APPLIED] === applied;
    if (!isApplied || !covers(existing, wanted)) {
      plan.mutations.push(Mutation.apply(this.#manager, body, { uid: existing.metadata?.uid }));
    }
  }

  /**
   * Adds the owner to the owner references of an object without a controller, as its controller.
   * The resourceVersion is a precondition, so that all other owner references are kept.
   * @param {Child} child
   * @param {KubernetesObject} existing
   * @returns {Mutation}
   */
  #adopt({ kind, object: { namespace, name } }, { metadata: { ownerReferences, uid, resourceVersion } = {} }) {
    const others = (ownerReferences ?? []).filter((owner) => owner.uid !== this.#owner.uid);
    const body = { metadata: { ownerReferences: [...others, this.#owner] } };
    return Mutation.patch(kind, namespace, name, "merge", body, { uid, resourceVersion });
  }
}

/**
 * Deletes a child, unless that has been done. Read by name, because a list gives less than what a `whole` watch has.
 * @param {Lister} lister
 * @param {Kind} kind
 * @param {string} namespace
 * @param {string} name
 * @returns {Mutation[]}
 */
function prune(lister, kind, namespace, name) {
  const existing = lister.get(kind, namespace, name);
  if (existing === undefined || existing.metadata?.deletionTimestamp) {
    return [];
  }
  return [Mutation.delete(kind, namespace, name, { uid: existing.metadata?.uid, propagation: "background" })];
}

/**
 * Lists of Pods and Services, with members of which their items have one. Server-side apply keeps the items that others add to them.
 * @type {Record<string, string[]>}
 */
const MERGED_LISTS = {
  containers: ["name"],
  initContainers: ["name"],
  volumes: ["name"],
  env: ["name"],
  volumeMounts: ["mountPath"],
  volumeDevices: ["devicePath"],
  ports: ["containerPort", "targetPort"],
};

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
export function covers(existing, wanted) {
  return coversAt("", existing, wanted, ["v1", "apps/v1", "batch/v1"].includes(wanted?.apiVersion));
}

/**
 * @param {string} name
 * @param {any} existing
 * @param {any} wanted
 * @param {boolean} merges
 * @returns {boolean}
 */
function coversAt(name, existing, wanted, merges) {
  if (Array.isArray(wanted)) {
    if (!Array.isArray(existing)) {
      return false;
    }
    const keys = merges && Object.hasOwn(MERGED_LISTS, name) ? /** @type {string[]} */ (MERGED_LISTS[name]) : [];
    if (!keys.some((key) => existing.every((item) => item?.[key] !== undefined))) {
      return existing.length === wanted.length && wanted.every((item, i) => coversAt("", existing[i], item, merges));
    }
    let next = 0;
    return wanted.every((item) => {
      const found = existing.findIndex((there, i) => i >= next && coversAt("", there, item, merges));
      next = found + 1;
      return found >= 0;
    });
  }
  if (wanted === null || typeof wanted !== "object") {
    return typeof wanted === "bigint" || typeof existing === "bigint" ? sameInteger(existing, wanted) : existing === wanted;
  }
  if (existing === null || typeof existing !== "object" || Array.isArray(existing)) {
    return false;
  }
  return Object.entries(wanted).every(([name, value]) =>
    Object.hasOwn(existing, name) && existing[name] != null ? coversAt(name, existing[name], value, merges) : isZero(value),
  );
}

/**
 * Whether two values, of which one is a large integer, are the same number.
 * @param {any} existing
 * @param {any} wanted
 */
function sameInteger(existing, wanted) {
  const numbers = ["bigint", "number"];
  return numbers.includes(typeof existing) && numbers.includes(typeof wanted) && existing == wanted;
}

/** @param {any} value */
function isZero(value) {
  if (value === null || typeof value !== "object") {
    return value == null || value === "" || value === 0 || value === 0n || value === false;
  }
  return Object.keys(value).length === 0;
}
