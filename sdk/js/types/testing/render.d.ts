import type { Need } from "../need.js";
import type { WireOutcome } from "../wire.js";
import type { World } from "./world.js";
export type Shown = Record<string, any>;
/** @import { Need } from "../need.js" */
/** @import { WireEvent, WireMutation, WireOutcome } from "../wire.js" */
/** @import { World } from "./world.js" */
/** @typedef {Record<string, any>} Shown */
/**
 * @param {WireOutcome} outcome
 * @param {World} world Updates are shown as differences to its objects.
 * @returns {Shown}
 */
export declare function renderOutcome(outcome: WireOutcome, world: World): Shown;
/**
 * @param {Need} need
 * @returns {string}
 */
export declare function renderNeed(need: Need): string;
/**
 * A time as Rust writes it: `1.5s`, `250ms`, `90s`.
 * @param {number} milliseconds
 */
export declare function duration(milliseconds: number): string;
