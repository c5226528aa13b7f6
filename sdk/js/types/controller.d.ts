/** @import { Kind } from "./kind.js" */
/** @import { Lister } from "./lister.js" */
/** @import { AnyObject, Key } from "./model.js" */
/** @import { OutcomeLike, Wake } from "./outcome.js" */
import type { Kind } from "./kind.js";
import type { Lister } from "./lister.js";
import type { AnyObject, Key } from "./model.js";
import type { OutcomeLike, Wake } from "./outcome.js";
export type Reconcile = (key: Key, lister: Lister) => OutcomeLike | undefined | void;
export type KeysOf = (kind: Kind, before: AnyObject | undefined, after: AnyObject | undefined, lister: Lister) => Wake[];
/**
 * What a controller's module exports as `reconcile`: computes the changes for one key.
 *
 * Never called twice at once for the same key, and without the reason for the run. Pure: the same view gives the same outcome.
 * It returns nothing if there is nothing to do. It throws {@link Retry} for what may pass and {@link Terminal} for what only a change
 * of the world can cure; any other exception is a fault of the controller, which the host logs with its place.
 * @callback Reconcile
 * @param {Key} key
 * @param {Lister} lister
 * @returns {OutcomeLike | undefined | void}
 */
/**
 * What a controller's module exports as `keysOf`, for watches that declare `to: plugin`: which keys a change touches.
 * `before` is absent for a new object, `after` for a deleted one; both are projections. A key with `afterMs` runs later.
 * @callback KeysOf
 * @param {Kind} kind
 * @param {AnyObject | undefined} before
 * @param {AnyObject | undefined} after
 * @param {Lister} lister
 * @returns {Wake[]}
 */
export {};
