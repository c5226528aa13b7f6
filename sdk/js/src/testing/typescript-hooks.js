// Hooks of node's module loader: TypeScript becomes JavaScript while it is loaded.

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { transform } from "esbuild";

/**
 * @param {string} url
 * @param {object} context
 * @param {(url: string, context: object) => Promise<object>} next
 * @returns {Promise<object>}
 */
export async function load(url, context, next) {
  if (!/^file:.*\.m?ts$/.test(url)) {
    return next(url, context);
  }
  const sourcefile = fileURLToPath(url);
  const { code } = await transform(await readFile(sourcefile, "utf8"), {
    loader: "ts",
    format: "esm",
    target: "node20",
    sourcemap: "inline",
    sourcefile,
  });
  return { format: "module", source: code, shortCircuit: true };
}
