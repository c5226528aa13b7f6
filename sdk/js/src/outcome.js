/** @import { Need } from "./need.js" */
/** @import { Mutation } from "./mutation.js" */

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
export const Step = Object.freeze({
  /**
   * One after the other, stopping at the first failure.
   * @param {readonly MaybeMutation[]} mutations
   * @param {{always?: boolean}} [options]
   * @returns {Step}
   */
  sequential(mutations, options) {
    return step("sequential", mutations, options);
  },

  /**
   * All at once; all are tried.
   * @param {readonly MaybeMutation[]} mutations
   * @param {{always?: boolean}} [options]
   * @returns {Step}
   */
  parallel(mutations, options) {
    return step("parallel", mutations, options);
  },

  /**
   * In batches of 1, 2, 4, ...
   * @param {readonly MaybeMutation[]} mutations
   * @param {{always?: boolean}} [options]
   * @returns {Step}
   */
  slowStart(mutations, options) {
    return step("slow-start", mutations, options);
  },
});

/**
 * @param {Order} order
 * @param {readonly MaybeMutation[]} mutations
 * @param {{always?: boolean}} [options]
 * @returns {Step}
 */
function step(order, mutations, { always = false } = {}) {
  return { order, mutations: mutations.filter((mutation) => mutation != null && mutation !== false), always };
}

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
export class Outcome {
  constructor() {
    /** @type {Need[]} */
    this.needs = [];
    /** @type {Step[]} */
    this.steps = [];
    /** @type {number | undefined} */
    this.requeueAfterMs = undefined;
    /** @type {StateWrite[]} */
    this.state = [];
    /** @type {Observation[]} */
    this.observations = [];
  }

  /**
   * Adds a step, unless it is empty. (It is not called `then`, because an object with a method `then` is a promise to JavaScript.)
   * @param {Step} step
   * @returns {this}
   */
  step(step) {
    if (step.mutations.length > 0) {
      this.steps.push(step);
    }
    return this;
  }

  /**
   * Runs the key again after so many milliseconds. The earliest of several calls counts.
   * @param {number} milliseconds
   * @returns {this}
   */
  requeueAfter(milliseconds) {
    this.requeueAfterMs = Math.min(milliseconds, this.requeueAfterMs ?? milliseconds);
    return this;
  }

  /**
   * Asks for a read; the host answers it and calls again. See {@link Lister.ask} for the short way.
   * @param {Need} need
   * @returns {this}
   */
  need(need) {
    this.needs.push(need);
    return this;
  }

  /**
   * Keeps a value under a name, for later runs of this controller.
   * @param {string} name
   * @param {string} value
   * @returns {this}
   */
  keep(name, value) {
    this.state.push({ name, value });
    return this;
  }

  /**
   * Forgets what is kept under a name.
   * @param {string} name
   * @returns {this}
   */
  forget(name) {
    this.state.push({ name, value: null });
    return this;
  }

  /**
   * Adds a sample of a metric.
   * @param {string} metric
   * @param {readonly string[]} labels Values in the order of the label names in the manifest.
   * @param {number} value
   * @returns {this}
   */
  observe(metric, labels, value) {
    this.observations.push({ metric, labels, value });
    return this;
  }
}
