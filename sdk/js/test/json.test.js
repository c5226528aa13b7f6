import assert from "node:assert/strict";
import { test } from "node:test";

import { hash, Terminal } from "pintle";
import { parse, stringify } from "../src/json.js";

test("integers that a number does not hold survive", () => {
  for (const text of [
    '{"a":9007199254740993,"b":[-9223372036854775808,18446744073709551615],"c":1}',
    '{"text":"9007199254740993 and \\"9007199254740993\\"","a":9007199254740993}',
    '{"9007199254740993":"x","a":-9007199254740993}',
    '[9007199254740993]',
  ]) {
    assert.equal(stringify(parse(text)), text);
  }
  assert.equal(parse("9007199254740993"), 9007199254740993n);
  assert.deepEqual(parse('{"a":9007199254740991,"b":1.2345678901234567,"c":1e300}'), { a: 9007199254740991, b: 1.2345678901234567, c: 1e300 });
});

test("texts that look like the helper's own are texts", () => {
  const texts = ["pintle-integer-0:5", "pintle-integer-1:9007199254740993", "pintle-integer-0:x"];
  for (const text of [JSON.stringify({ texts, big: 1 }), JSON.stringify({ texts, big: 1 }).replace(/-/g, "\\u002d")]) {
    const big = text.replace('"big":1', '"big":9007199254740993');
    assert.deepEqual(parse(big), { texts, big: 9007199254740993n });
  }
  assert.equal(stringify({ texts, big: 9007199254740993n }), JSON.stringify({ texts, big: 1 }).replace(":1}", ":9007199254740993}"));
});

test("only large integers are bigint, and BigInt stays as it was", () => {
  assert.equal(typeof parse('{"a":1000000000000000}').a, "number");
  assert.throws(() => JSON.stringify(1n), TypeError);
  assert.equal(stringify(undefined), undefined);
  assert.throws(() => hash([9007199254740993n]), Terminal);
  assert.equal(hash([5n]), hash([5]));
});
