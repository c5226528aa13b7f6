/** @import { Need } from "./need.js" */
/** @import { Mutation } from "./mutation.js" */
import type { Need } from "./need.js";
import type { Mutation } from "./mutation.js";
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
     * Run this key again after so many milliseconds, whatever happens until then.
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
};
/**
 * A sample for one of the metrics that the manifest declares.
 * @typedef {object} Observation
 * @property {string} metric Name of the metric.
 * @property {readonly string[]} labels Values in the order of the label names in the manifest.
 * @property {number} value Added to a counter, set on a gauge, observed by a histogram.
 */
/**
 * State to keep under a name, or to forget if the value is `null`.
 * @typedef {object} StateWrite
 * @property {string} name
 * @property {string | null} value
 */
/**
 * What one run wants, as a plain object; {@link Outcome} makes one step by step.
 * @typedef {object} OutcomeLike
 * @property {readonly Need[]} [needs] Reads that the host must do first; it carries out nothing else, and calls again.
 * @property {readonly Step[]} [steps] Writes. Empty steps are left out.
 * @property {number | undefined} [requeueAfterMs] Run this key again after so many milliseconds, whatever happens until then.
 * @property {readonly StateWrite[]} [state] State to keep or forget, by name.
 * @property {readonly Observation[]} [observations] Samples of metrics.
 */
/** What one run wants. A new one: nothing. */
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
     * @returns {this}
     */
    observe(metric: string, labels: readonly string[], value: number): this;
}
