/** @import { Need } from "./need.js" */
import type { Need } from "./need.js";
/** Something that may pass: the key is tried again after the queue's backoff, or after `afterMs`. */
export declare class Retry extends Error {
    afterMs: number | undefined;
    /**
     * @param {string} message For the log.
     * @param {number} [afterMs] Milliseconds; replaces the queue's own backoff.
     */
    constructor(message: string, afterMs?: number);
}
/** A retry is useless until the cluster changes. */
export declare class Terminal extends Error {
    /** @param {string} message For the log. */
    constructor(message: string);
}
/**
 * The run needs reads from the API server itself. {@link Lister.live} and {@link Lister.ask} throw it; let it pass.
 * The host then reads and runs the key again, so this is not a failure.
 */
export declare class Needs extends Error {
    needs: readonly Need[];
    /** @param {readonly Need[]} needs */
    constructor(needs: readonly Need[]);
}
