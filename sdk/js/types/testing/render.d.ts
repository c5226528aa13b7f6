import type { WireError, WireNeed, WireOutcome } from "../wire.js";
import type { World } from "./world.js";
export type Shown = Record<string, any>;
/** @import { WireError, WireEvent, WireMoment, WireMutation, WireNeed, WireOutcome, WireWake } from "../wire.js" */
/** @import { World } from "./world.js" */
/** @typedef {Record<string, any>} Shown */
/**
 * @param {WireOutcome} outcome
 * @param {World} world Updates are shown as differences to its objects.
 * @returns {Shown}
 */
export declare function renderOutcome(outcome: WireOutcome, world: World): Shown;
/**
 * @param {WireError} error
 * @returns {Shown}
 */
export declare function renderError(error: WireError): Shown;
/**
 * @param {WireNeed} need
 * @returns {string | Shown}
 */
export declare function renderNeed(need: WireNeed): string | Shown;
/**
 * A time as Rust writes it: `1.5s`, `250ms`, `90s`.
 * @param {number} milliseconds
 */
export declare function duration(milliseconds: number): string;
/**
 * @param {{group: string, version: string, name: string}} kind
 */
export declare function kindText({ group, version, name }: {
    group: string;
    version: string;
    name: string;
}): string;
/**
 * @param {{namespace: string, name: string}} object
 */
export declare function objectText({ namespace, name }: {
    namespace: string;
    name: string;
}): string;
