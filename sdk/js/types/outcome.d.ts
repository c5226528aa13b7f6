import { Terminal } from "./errors.js";
import type { Retry } from "./errors.js";
import type { Key, KeyLike } from "./model.js";
import type { Need } from "./need.js";
import type { Mutation } from "./mutation.js";
/** @import { Retry } from "./errors.js" */
/** @import { Key, KeyLike } from "./model.js" */
/** @import { Need } from "./need.js" */
/** @import { Mutation } from "./mutation.js" */
/** Longest time until a key runs again, in milliseconds: 24.8 days, the most that the contract has. */
export declare const LONGEST_REQUEUE_MS = 2147483647;
export type Order = "sequential" | "parallel" | "slow-start";
export type Step = {
    /**
     * How they are carried out.
     */
    order: Order;
    mutations: readonly Mutation[];
    /**
     * Carried out even if an earlier step failed: a status is written also when a scale-up was refused.
     */
    always?: boolean;
};
export type MaybeMutation = Mutation | undefined | null | false;
/**
 * How the mutations of one step are carried out: `sequential`, one after the other, stopping at the first failure; `parallel`, all at
 * once, and all are tried; `slow-start`, in batches of 1, 2, 4, ..., for many writes that would all be refused for the same reason.
 * @typedef {"sequential" | "parallel" | "slow-start"} Order
 */
/**
 * Mutations that belong together. A failed step stops those after it that are not `always`.
 * @typedef {object} Step
 * @property {Order} order How they are carried out.
 * @property {readonly Mutation[]} mutations
 * @property {boolean} [always] Carried out even if an earlier step failed: a status is written also when a scale-up was refused.
 */
/**
 * A mutation, or nothing: what helpers such as {@link patchStatus} give.
 * @typedef {Mutation | undefined | null | false} MaybeMutation
 */
/** Makes steps. What is no mutation (`undefined`, `null`, `false`) is left out. */
export declare const Step: Readonly<{
    /**
     * One after the other, stopping at the first failure.
     * @param {readonly MaybeMutation[]} mutations
     * @param {{always?: boolean}} [options]
     * @returns {Step}
     */
    sequential(mutations: readonly MaybeMutation[], options?: {
        always?: boolean;
    }): Step;
    /**
     * All at once; all are tried.
     * @param {readonly MaybeMutation[]} mutations
     * @param {{always?: boolean}} [options]
     * @returns {Step}
     */
    parallel(mutations: readonly MaybeMutation[], options?: {
        always?: boolean;
    }): Step;
    /**
     * In batches of 1, 2, 4, ...
     * @param {readonly MaybeMutation[]} mutations
     * @param {{always?: boolean}} [options]
     * @returns {Step}
     */
    slowStart(mutations: readonly MaybeMutation[], options?: {
        always?: boolean;
    }): Step;
}>;
export type Place = {
    step: number;
    position: number;
};
export type Moment = {
    done: Place;
} | {
    failed: Place;
};
export type Observation = {
    /**
     * Name of the metric.
     */
    metric: string;
    /**
     * Values in the order of the label names in the manifest.
     */
    labels: readonly string[];
    /**
     * Added to a counter, set on a gauge, observed by a histogram.
     */
    value: number;
    /**
     * When it counts. If absent, when the outcome is accepted, before its writes are sent; the next try of
     * a failed run then counts again.
     */
    at?: Moment | undefined;
};
export type Wake = KeyLike & {
    afterMs?: number | undefined;
};
export type StateWrite = {
    name: string;
    value: string | null;
};
export type OutcomeLike = {
    /**
     * Reads that the host must do first; it carries out nothing else, and calls again.
     */
    needs?: readonly Need[];
    /**
     * Writes. Empty steps are left out.
     */
    steps?: readonly Step[];
    /**
     * Run this key again after so many milliseconds, whatever happens until then; if a write fails, not before the retry of the run.
     */
    requeueAfterMs?: number | undefined;
    /**
     * State to keep or forget, by name.
     */
    state?: readonly StateWrite[];
    /**
     * Samples of metrics.
     */
    observations?: readonly Observation[];
    /**
     * Other keys of this controller to run, at most 10,000.
     */
    wakes?: readonly Wake[];
    /**
     * Values of labels for the metrics of runs (`of: runs`), by label name.
     */
    runLabels?: Readonly<Record<string, string>>;
    /**
     * The run has failed all the same, once everything else is carried out; see
     * {@link Outcome.fail}.
     */
    error?: Retry | Terminal | undefined;
};
/**
 * Place of a mutation in an outcome: numbers of the step and of the mutation in the step, from 0. {@link Outcome.lastPlace} gives it.
 * @typedef {object} Place
 * @property {number} step
 * @property {number} position
 */
/**
 * When a sample counts, if not at once. `done`: when this mutation has succeeded, or its refusal was tolerated.
 * `failed`: when it has failed, or was not tried because another one had failed.
 * @typedef {{done: Place} | {failed: Place}} Moment
 */
/**
 * A sample for one of the metrics that the manifest declares.
 * @typedef {object} Observation
 * @property {string} metric Name of the metric.
 * @property {readonly string[]} labels Values in the order of the label names in the manifest.
 * @property {number} value Added to a counter, set on a gauge, observed by a histogram.
 * @property {Moment | undefined} [at] When it counts. If absent, when the outcome is accepted, before its writes are sent; the next try of
 *   a failed run then counts again.
 */
/**
 * Another key of this controller to run.
 * @typedef {KeyLike & {afterMs?: number | undefined}} Wake `afterMs`: not before so many milliseconds have passed; at once if absent.
 */
/**
 * State to keep under a name, or to forget if the value is `null`.
 * @typedef {object} StateWrite
 * @property {string} name
 * @property {string | null} value
 */
/**
 * The result of one run, as a plain object; {@link Outcome} makes one step by step.
 * @typedef {object} OutcomeLike
 * @property {readonly Need[]} [needs] Reads that the host must do first; it carries out nothing else, and calls again.
 * @property {readonly Step[]} [steps] Writes. Empty steps are left out.
 * @property {number | undefined} [requeueAfterMs] Run this key again after so many milliseconds, whatever happens until then; if a write fails, not before the retry of the run.
 * @property {readonly StateWrite[]} [state] State to keep or forget, by name.
 * @property {readonly Observation[]} [observations] Samples of metrics.
 * @property {readonly Wake[]} [wakes] Other keys of this controller to run, at most 10,000.
 * @property {Readonly<Record<string, string>>} [runLabels] Values of labels for the metrics of runs (`of: runs`), by label name.
 * @property {Retry | Terminal | undefined} [error] The run has failed all the same, once everything else is carried out; see
 *   {@link Outcome.fail}.
 */
/** The result of one run. A new one changes nothing. */
export declare class Outcome {
    /** @type {Need[]} */
    needs: Need[];
    /** @type {Step[]} */
    steps: Step[];
    /** @type {number | undefined} */
    requeueAfterMs: number | undefined;
    /** @type {StateWrite[]} */
    state: StateWrite[];
    /** @type {Observation[]} */
    observations: Observation[];
    /** @type {Wake[]} */
    wakes: Wake[];
    /** @type {Record<string, string>} */
    runLabels: Record<string, string>;
    /** @type {Retry | Terminal | undefined} */
    error: Retry | Terminal | undefined;
    constructor();
    /**
     * Adds a step, unless it is empty. (It is not called `then`, because an object with a method `then` is a promise to JavaScript.)
     * @param {Step} step
     * @returns {this}
     */
    step(step: Step): this;
    /**
     * Runs the key again after so many milliseconds. The earliest of several calls counts.
     * @param {number} milliseconds
     * @returns {this}
     */
    requeueAfter(milliseconds: number): this;
    /**
     * Runs the key again at this time. The earliest of several calls counts.
     *
     * A key waits for at most {@link LONGEST_REQUEUE_MS}. The run for a later time comes then, and calls this again: do what is due by the
     * clock, not because the key runs.
     * @param {string | Date} time A text is in RFC 3339.
     * @param {string | Date} now {@link Lister.now} of the run.
     * @returns {this}
     * @throws {Terminal} If a text is not a time in RFC 3339: what an object contains does not change with a retry.
     */
    requeueAt(time: string | Date, now: string | Date): this;
    /**
     * Runs another key of this controller. Keys are added when the outcome is accepted, before its writes are sent. A key that waits already
     * is not added twice; the earlier time counts.
     * @param {KeyLike} key
     * @param {number} [afterMs] Not before so many milliseconds have passed; at once if absent.
     * @returns {this}
     */
    wake(key: KeyLike, afterMs?: number): this;
    /**
     * Asks for a read; the host answers it and calls again. See {@link Lister.ask} for the short way.
     * @param {Need} need
     * @returns {this}
     */
    need(need: Need): this;
    /**
     * Keeps a value under a name, for later runs of this controller.
     * @param {string} name
     * @param {string} value
     * @returns {this}
     */
    keep(name: string, value: string): this;
    /**
     * Forgets what is kept under a name.
     * @param {string} name
     * @returns {this}
     */
    forget(name: string): this;
    /**
     * Adds a sample of a metric.
     * @param {string} metric
     * @param {readonly string[]} labels Values in the order of the label names in the manifest.
     * @param {number} value
     * @param {Moment} [at] When it counts; when the outcome is accepted if absent.
     * @returns {this}
     */
    observe(metric: string, labels: readonly string[], value: number, at?: Moment): this;
    /**
     * The place of the mutation that was added last, for samples that are tied to it.
     * @returns {Place}
     * @throws {TypeError} If there is none.
     */
    lastPlace(): Place;
    /**
     * Sets a label for the metrics of runs (`of: runs`). Labels that a run does not set are empty.
     * @param {string} name
     * @param {string} value
     * @returns {this}
     */
    runLabel(name: string, value: string): this;
    /**
     * The run has failed all the same, once everything else of the outcome is carried out: the key is tried again as after an error that is
     * thrown. Where a mutation fails too, that decides when the key is tried again.
     * @param {Retry | Terminal} error The last of several calls counts.
     * @returns {this}
     */
    fail(error: Retry | Terminal): this;
}
/**
 * The tick key of a queue, to {@link Outcome.wake} it. It is no object: `lister.get` finds nothing.
 * @param {string} queue Name of the queue, as the manifest declares it.
 * @returns {Key}
 */
export declare function tick(queue: string): Key;
/**
 * Whether a text is a time in RFC 3339, as {@link Outcome.requeueAt} takes it.
 * @param {string} text
 * @returns {boolean}
 */
export declare function isTime(text: string): boolean;
