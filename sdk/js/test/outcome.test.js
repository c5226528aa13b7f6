// Outcomes step by step: times, places, keys to wake.

import assert from "node:assert/strict";
import { test } from "node:test";

import { isTime, LONGEST_REQUEUE_MS, Mutation, Outcome, Step, Terminal, tick } from "pintle";

const DAY_MS = 86_400_000;

test("a time that is too far away is looked at again", () => {
  const begin = new Date("2026-01-01T00:00:00Z");
  const due = new Date(begin.getTime() + 365 * DAY_MS);
  let [now, nRuns] = [begin, 0];
  while (now < due) {
    const { requeueAfterMs = 0 } = new Outcome().requeueAt(due, now);
    assert(requeueAfterMs > 0 && requeueAfterMs <= LONGEST_REQUEUE_MS);
    now = new Date(now.getTime() + requeueAfterMs);
    nRuns += 1;
  }
  assert.deepEqual([now, nRuns], [due, 15]);
});

test("a time that has come is due now, and the earliest one counts", () => {
  const [now, later] = ["2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:00Z"];
  assert.equal(new Outcome().requeueAt(now, later).requeueAfterMs, 0);
  assert.equal(new Outcome().requeueAt(now, now).requeueAfterMs, 0);
  assert.equal(new Outcome().requeueAfter(5000).requeueAt(later, now).requeueAfterMs, 5000);
  assert.equal(new Outcome().requeueAt(later, now).requeueAfter(70_000).requeueAfterMs, 60_000);
});

test("times have microseconds and zones, and are never early", () => {
  const after = (/** @type {string} */ time, now = "2026-01-01T00:00:00.000000Z") => new Outcome().requeueAt(time, now).requeueAfterMs;
  assert.equal(after("2026-01-01T00:00:01.5Z"), 1500);
  assert.equal(after("2026-01-01T00:00:00.000001Z"), 1);
  assert.equal(after("2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00.122456Z"), 1);
  assert.equal(after("2026-01-01T00:00:00.123457Z", "2026-01-01T00:00:00.122456Z"), 2);
  assert.equal(after("2026-01-01T00:00:00.0010000001Z"), 2);
  assert.equal(after("2026-01-01T01:00:01+01:00"), 1000);
  assert.equal(after("2026-01-01t00:00:01z"), 1000);
});

test("a text that is not a time is an error that no retry helps against", () => {
  const now = "2026-01-01T00:00:00Z";
  for (const wrong of ["", "soon", "2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", new Date("soon")]) {
    assert(wrong instanceof Date || !isTime(wrong), String(wrong));
    const isTerminal = (/** @type {unknown} */ error) => error instanceof Terminal && /is not a time in RFC 3339/.test(error.message);
    assert.throws(() => new Outcome().requeueAt(wrong, now), isTerminal);
  }
  assert(isTime(now));
  assert.throws(() => new Outcome().requeueAt(/** @type {any} */ (5), now), { name: "TypeError", message: /a text in RFC 3339 or a Date, got number/ });
});

test("the last place is that of the mutation that was added last", () => {
  const one = Mutation.delete("v1/Pod", "ns", "p");
  const outcome = new Outcome();
  assert.throws(() => outcome.lastPlace(), { name: "TypeError", message: /no mutation yet/ });
  outcome.step(Step.parallel([])).step(Step.parallel([one, one]));
  assert.deepEqual(outcome.lastPlace(), { step: 0, position: 1 });
  outcome.step(Step.parallel([undefined])).step(Step.parallel([undefined, one]));
  assert.deepEqual(outcome.lastPlace(), { step: 1, position: 0 });
});

test("the tick key of a queue is no object", () => {
  const { kind, ...rest } = tick("rounds");
  assert.deepEqual([`${kind}`, rest], ["pintle/v1/Tick", { queue: "rounds", namespace: "", name: "rounds" }]);
});
