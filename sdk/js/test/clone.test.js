// Components have a `structuredClone`, with the results of that of Node.js.

import assert from "node:assert/strict";
import { test } from "node:test";

import { clone } from "../src/component/clone.js";

test("a copy is equal to that of Node.js, and shares nothing with the original", () => {
  const shared = { a: [1] };
  const text = '{"metadata":{"labels":{"__proto__":"x","constructor":"y"},"finalizers":["a",null]},"spec":{"on":true,"n":1.5}}';
  for (const value of [
    JSON.parse(text),
    [shared, shared, { deeper: [shared] }],
    { big: 9007199254740993n, absent: undefined, at: new Date(5), holes: [, 1] },
    null,
    undefined,
    "text",
  ]) {
    const copy = clone(value);
    assert.deepStrictEqual(copy, structuredClone(value));
    assert.deepStrictEqual(copy, value);
  }
  const copy = clone([shared, shared]);
  assert(copy[0] === copy[1] && copy[0] !== shared && copy[0]?.a !== shared.a);
  /** @type {{self?: unknown}} */
  const cyclic = {};
  cyclic.self = cyclic;
  const cycle = clone(cyclic);
  assert(cycle.self === cycle && cycle !== cyclic);
});

test("an instance of a class becomes a plain object", () => {
  class Point {
    x = 1;
  }
  assert.deepStrictEqual(clone(new Point()), { x: 1 });
});

test("what cannot be copied is an error with its type", () => {
  for (const [value, type] of /** @type {[unknown, string][]} */ ([
    [() => {}, "Function"],
    [Symbol("s"), "Symbol"],
    [new Map(), "Map"],
    [new TypeError("no"), "Error"],
    [/x/, "RegExp"],
  ])) {
    const message = new RegExp(`^structuredClone cannot copy a value of type ${type}: it copies plain objects`);
    assert.throws(() => clone({ deep: [value] }), { name: "DataCloneError", message });
  }
});
