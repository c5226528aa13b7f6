// `build.js` makes components, and tells what is wrong with what it is given.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const BUILD = fileURLToPath(new URL("../build.js", import.meta.url));

/**
 * Builds a controller of these files.
 * @param {Record<string, string>} files
 * @param {string} [world]
 */
function build(files, world = "controller") {
  const folder = mkdtempSync(join(tmpdir(), "pintle-build-"));
  try {
    for (const [name, text] of Object.entries({ "package.json": '{"type": "module", "main": "controller.ts"}', ...files })) {
      writeFileSync(join(folder, name), text);
    }
    const output = join(folder, "out.wasm");
    const { status, stderr } = spawnSync(process.execPath, [BUILD, "--world", world, "--output", output], { cwd: folder, encoding: "utf8" });
    return { status, stderr, component: status === 0 ? readFileSync(output) : undefined };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const RECONCILE = "export function reconcile(key: { name: string }) { return { state: [{ name: key.name, value: null }] }; }\n";

test("a controller in TypeScript becomes a component that asks for nothing of the operating system", () => {
  const { status, stderr, component } = build({ "controller.ts": RECONCILE });
  assert.equal(status, 0, stderr);
  // Magic number, version and layer of components.
  assert.deepEqual([...(component ?? Buffer.of()).subarray(0, 8)], [0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0]);
  assert(component?.includes("pintle:controller/view@"));
  assert(!component?.includes("controller/mapping@"));
});

test("a component has structuredClone, from the start", () => {
  const files = { "controller.ts": `const [copy] = structuredClone([{ name: "x" }]);\nif (copy.name !== "x") throw copy;\n${RECONCILE}` };
  const { status, stderr } = build(files);
  assert.equal(status, 0, stderr);
});

test("mistakes are told with their places", () => {
  for (const [files, world, message] of /** @type {[Record<string, string>, string, RegExp][]} */ ([
    [{ "controller.ts": "export const reconcil = 1;" }, "controller", /the module that package.json names as main must export it: `export function reconcile/],
    [{ "controller.ts": RECONCILE }, "mapping-controller", /a watch of the manifest says `to: plugin`, .* must export `keysOf`/],
    [{ "controller.ts": `import "node:fs";\n${RECONCILE}` }, "controller", /controller.ts:1:7.*A component has no files/s],
    [{ "controller.ts": `${RECONCILE}export const x = ;` }, "controller", /controller.ts:2:17/],
    [{ "controller.ts": `${RECONCILE}\n(undefined as any).spec;` }, "controller", /cannot be initialised: .*'spec'.*controller.ts:3/s],
    [{ "package.json": "{}" }, "controller", /package.json: "main" is missing/],
    [{ "package.json": "{" }, "controller", /^package.json: .*JSON/],
    [{}, "plugin", /there is no world plugin/],
  ])) {
    const { status, stderr } = build(files, world);
    assert.equal(status, 1);
    assert.match(stderr, message);
  }
});
