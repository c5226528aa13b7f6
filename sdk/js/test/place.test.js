// An exception is told with the author's places, which a table of the bundle's lines gives.

import assert from "node:assert/strict";
import { test } from "node:test";

import { describe } from "../src/component/place.js";

/** @type {import("../src/component/place.js").LineTable} */
const TABLE = { sources: ["pintle/wire.js", "controller.ts"], lines: [0, [1, 13], [1, 19], [0, 7]] };

/**
 * @param {string[]} frames As QuickJS writes them.
 */
function thrown(...frames) {
  const error = new TypeError("oh no");
  error.stack = `${frames.join("\n")}\n`;
  return error;
}

test("places are the author's, innermost first", () => {
  const error = thrown(
    "    at wireOutcome (componentize-qjs:user.js:4:9)",
    "    at explode (componentize-qjs:user.js:2:5)",
    "    at native (native)",
    "    at reconcile (componentize-qjs:user.js:3)",
    "    at <anonymous> (componentize-qjs:user.js:1:1)",
    "    at <anonymous> (componentize-qjs:user.js:99:1)",
  );
  assert.equal(describe(error, TABLE), "TypeError: oh no at controller.ts:13 (explode), called from controller.ts:19 (reconcile)");
});

test("places of the SDK are told only if there are no others", () => {
  assert.equal(describe(thrown("    at <anonymous> (componentize-qjs:user.js:4:9)"), TABLE), "TypeError: oh no at pintle/wire.js:7");
  assert.equal(describe(thrown("    at f (componentize-qjs:user.js:2:9)"), undefined), "TypeError: oh no");
});

test("no more than five places are told", () => {
  const frames = Array.from({ length: 9 }, () => "    at f (componentize-qjs:user.js:2:5)");
  assert.equal(describe(thrown(...frames), TABLE).match(/controller.ts:13/g)?.length, 5);
});

test("what is thrown and no Error is told, too", () => {
  assert.match(describe("text", TABLE), /^uncaught text \(throw an Error/);
  assert.match(describe({ a: 1 }, TABLE), /^uncaught \{"a":1\}/);
});
