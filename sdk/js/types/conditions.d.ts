/** @import { Condition } from "./model.js" */
import type { Condition } from "./model.js";
/**
 * The conditions with this one in place of that of the same type, or at the end. `lastTransitionTime` becomes `now` in whole seconds, or
 * stays the old one if the status is the same, whatever `condition` contains.
 * @param {readonly Condition[] | undefined} conditions Those that the object has; not changed.
 * @param {Condition} condition
 * @param {string} now {@link Lister.now}
 * @returns {Condition[]}
 */
export declare function setCondition(conditions: readonly Condition[] | undefined, condition: Condition, now: string): Condition[];
/**
 * The condition of this type.
 * @param {readonly Condition[] | undefined} conditions
 * @param {string} type
 * @returns {Condition | undefined}
 */
export declare function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined;
/**
 * Whether the condition of this type is `True`.
 * @param {readonly Condition[] | undefined} conditions
 * @param {string} type
 * @returns {boolean}
 */
export declare function isTrue(conditions: readonly Condition[] | undefined, type: string): boolean;
