import { Terminal } from "./errors.js";
import { Kind } from "./kind.js";

/** @import { Retry } from "./errors.js" */
/** @import { Key, KeyLike } from "./model.js" */
/** @import { Need } from "./need.js" */
/** @import { Mutation } from "./mutation.js" */

/** Longest time until a key runs again, in milliseconds: 24.8 days, the most that the contract has. */
export const LONGEST_REQUEUE_MS = 2_147_483_647;

const TICK = new Kind("pintle", "v1", "Tick");
const RFC_3339 = /^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)$/;

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
    /** @type {Wake[]} */
    this.wakes = [];
    /** @type {Record<string, string>} */
    this.runLabels = {};
    /** @type {Retry | Terminal | undefined} */
    this.error = undefined;
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
   * Runs the key again at this time. The earliest of several calls counts.
   *
   * A key waits for at most {@link LONGEST_REQUEUE_MS}. The run for a later time comes then, and calls this again: do what is due by the
   * clock, not because the key runs.
   * @param {string | Date} time A text is in RFC 3339.
   * @param {string | Date} now {@link Lister.now} of the run.
   * @returns {this}
   * @throws {Terminal} If a text is not a time in RFC 3339: what an object contains does not change with a retry.
   */
  requeueAt(time, now) {
    const microseconds = Math.max(microsecondsOf(time) - microsecondsOf(now), 0);
    // Rounded up, so that the time has come then.
    return this.requeueAfter(Math.min(Math.ceil(microseconds / 1000), LONGEST_REQUEUE_MS));
  }

  /**
   * Runs another key of this controller. Keys are added when the outcome is accepted, before its writes are sent. A key that waits already
   * is not added twice; the earlier time counts.
   * @param {KeyLike} key
   * @param {number} [afterMs] Not before so many milliseconds have passed; at once if absent.
   * @returns {this}
   */
  wake(key, afterMs) {
    this.wakes.push(afterMs === undefined ? { ...key } : { ...key, afterMs });
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
   * @param {Moment} [at] When it counts; when the outcome is accepted if absent.
   * @returns {this}
   */
  observe(metric, labels, value, at) {
    this.observations.push({ metric, labels, value, ...(at === undefined ? {} : { at }) });
    return this;
  }

  /**
   * The place of the mutation that was added last, for samples that are tied to it.
   * @returns {Place}
   * @throws {TypeError} If there is none.
   */
  lastPlace() {
    const step = this.steps.length - 1;
    const position = (this.steps[step]?.mutations.length ?? 0) - 1;
    if (position < 0) {
      throw new TypeError("the outcome has no mutation yet: add the step first");
    }
    return { step, position };
  }

  /**
   * Sets a label for the metrics of runs (`of: runs`). Labels that a run does not set are empty.
   * @param {string} name
   * @param {string} value
   * @returns {this}
   */
  runLabel(name, value) {
    this.runLabels[name] = value;
    return this;
  }

  /**
   * The run has failed all the same, once everything else of the outcome is carried out: the key is tried again as after an error that is
   * thrown. Where a mutation fails too, that decides when the key is tried again.
   * @param {Retry | Terminal} error The last of several calls counts.
   * @returns {this}
   */
  fail(error) {
    this.error = error;
    return this;
  }
}

/**
 * The tick key of a queue, to {@link Outcome.wake} it. It is no object: `lister.get` finds nothing.
 * @param {string} queue Name of the queue, as the manifest declares it.
 * @returns {Key}
 */
export function tick(queue) {
  return { queue, kind: TICK, namespace: "", name: queue };
}

/**
 * Whether a text is a time in RFC 3339, as {@link Outcome.requeueAt} takes it.
 * @param {string} text
 * @returns {boolean}
 */
export function isTime(text) {
  return Number.isFinite(parseTime(text));
}

/**
 * Microseconds since 1970.
 * @param {unknown} time
 * @returns {number}
 */
function microsecondsOf(time) {
  if (!(time instanceof Date) && typeof time !== "string") {
    throw new TypeError(`a time must be a text in RFC 3339 or a Date, got ${typeof time}`);
  }
  const microseconds = typeof time === "string" ? parseTime(time) : time.getTime() * 1000;
  if (!Number.isFinite(microseconds)) {
    throw new Terminal(`${JSON.stringify(String(time)).slice(0, 100)} is not a time in RFC 3339`);
  }
  return microseconds;
}

/**
 * Microseconds since 1970, which `Date` would cut to milliseconds. Parts of a microsecond are rounded up.
 * @param {string} time
 * @returns {number} NaN if it is not a time.
 */
function parseTime(time) {
  const [, date, clock, fraction = "", zone = ""] = RFC_3339.exec(time) ?? [];
  const whole = Date.parse(`${date}T${clock}${zone.toUpperCase()}`);
  const rest = /[1-9]/.test(fraction.slice(6)) ? 1 : 0;
  return whole * 1000 + Number(fraction.slice(0, 6).padEnd(6, "0")) + rest;
}
