// The type declarations that authors get are committed; `cargo xtask generate declarations` writes them anew.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const SDK = fileURLToPath(new URL("..", import.meta.url));

/** @param {string} folder */
function contents(folder) {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".d.ts"));
  return Object.fromEntries(files.sort().map((name) => [name, readFileSync(join(folder, name), "utf8")]));
}

test("the type declarations are those of the sources", () => {
  const folder = mkdtempSync(join(tmpdir(), "pintle-types-"));
  try {
    const tsc = join(SDK, "node_modules/typescript/bin/tsc");
    execFileSync(process.execPath, [tsc, "--project", join(SDK, "tsconfig.types.json"), "--outDir", folder]);
    assert.deepEqual(contents(join(SDK, "types")), contents(folder), "run `cargo xtask generate declarations`");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
