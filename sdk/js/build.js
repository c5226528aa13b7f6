#!/usr/bin/env node
// Makes a component of the controller in the current folder: bundles it with the glue (esbuild), and puts it into QuickJS (componentize-qjs).
// `pintle build` calls this.

import { readFileSync, writeFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";

const SDK = dirname(fileURLToPath(import.meta.url));

/** The contract that this package speaks: in the repository, or beside the copy in a project. */
const WIT = resolve(SDK, "../../wit");
const USAGE = `Usage: node node_modules/pintle/build.js [--world WORLD] [--wit FOLDER] --output FILE

Makes a component of the controller in the current folder. package.json says by "main" which module exports reconcile.

  --world WORLD   controller (default), or mapping-controller if a watch of the manifest says \`to: plugin\`
  --wit FOLDER    folder of controller.wit; by default the one that came with this package
  --output FILE   where to write the component`;

/** A mistake of the author, told without a stack. */
class Mistake extends Error {}

try {
  await main();
} catch (error) {
  if (!(error instanceof Error)) {
    throw error;
  }
  console.error(error instanceof Mistake ? error.message : error.stack);
  process.exitCode = 1;
}

async function main() {
  const { values } = parseArgs({
    options: {
      world: { type: "string", default: "controller" },
      wit: { type: "string", default: WIT },
      output: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return;
  }
  if (values.output === undefined) {
    throw new Mistake(`--output is missing\n\n${USAGE}`);
  }
  const { world } = values;
  if (world !== "controller" && world !== "mapping-controller") {
    throw new Mistake(`there is no world ${world}: --world takes controller or mapping-controller`);
  }
  const { source, table } = await bundle(mainModule(process.cwd()), world === "mapping-controller");
  const jsSource = `${source}\nglobalThis[Symbol.for("pintle.lines")] = ${JSON.stringify(table)};\n`;
  const { componentize } = await tool("componentize-qjs");
  const { component } = await componentize({ witPath: values.wit, jsSource, world, stubWasi: true, sync: true }).catch(
    (/** @type {unknown} */ error) => {
      throw new Mistake(`the controller cannot be initialised: ${placed(error instanceof Error ? error.message : String(error), table)}`);
    },
  );
  writeFileSync(values.output, component);
}

/**
 * The module that package.json names.
 * @param {string} folder
 */
function mainModule(folder) {
  let main;
  try {
    ({ main } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")));
  } catch (error) {
    throw new Mistake(`package.json: ${error instanceof Error ? error.message : error}`);
  }
  if (typeof main !== "string") {
    throw new Mistake('package.json: "main" is missing: it names the module that exports reconcile, for example "controller.js"');
  }
  return `./${relative(folder, resolve(folder, main))}`;
}

/**
 * One module without imports but the contract's, and the table of its lines.
 * @param {string} controller
 * @param {boolean} maps
 */
async function bundle(controller, maps) {
  const glue = join(SDK, "src/component");
  const entry = [
    `import ${JSON.stringify(join(glue, "console.js"))};`,
    `import ${JSON.stringify(join(glue, "clone.js"))};`,
    `import * as author from ${JSON.stringify(controller)};`,
    `import { component } from ${JSON.stringify(join(glue, "index.js"))};`,
    "const made = component(author);",
    "export const reconcile = made.reconcile;",
    ...(maps ? ["export const mapping = made.mapping;"] : []),
  ];
  const esbuild = await tool("esbuild");
  const result = await esbuild
    .build({
      stdin: { contents: entry.join("\n"), resolveDir: process.cwd(), sourcefile: "pintle-entry.js" },
      bundle: true,
      write: false,
      outfile: "controller.js",
      format: "esm",
      platform: "neutral",
      mainFields: ["module", "main"],
      target: "es2023",
      external: ["pintle:*"],
      sourcemap: "external",
      sourcesContent: false,
      keepNames: false,
      logLevel: "silent",
    })
    .catch(async (/** @type {any} */ failure) => {
      if (!Array.isArray(failure?.errors)) {
        throw failure;
      }
      const lines = await esbuild.formatMessages(failure.errors.map(explained), { kind: "error", color: process.stderr.isTTY });
      throw new Mistake(lines.join("").trimEnd());
    });
  const file = (/** @type {string} */ ending) =>
    result.outputFiles.find((/** @type {{path: string}} */ { path }) => path.endsWith(ending))?.text ?? "";
  const source = file(".js");
  return { source, table: lineTable(source, JSON.parse(file(".map"))) };
}

/**
 * @param {any} message
 */
function explained(message) {
  const notes = [...message.notes];
  if (/Could not resolve "(node:|fs|path|os|crypto|http|https|net|child_process|util)/.test(message.text)) {
    notes.push({ text: "A component has no files, network or processes: what a controller reads comes from its lister." });
  }
  return { ...message, notes };
}

/**
 * For each line of the bundle, the author's file and line that it comes from. See src/component/place.js.
 * @param {string} source
 * @param {any} payload Source map.
 * @returns {import("./src/component/place.js").LineTable}
 */
function lineTable(source, payload) {
  const map = new SourceMap(payload);
  /** @type {string[]} */
  const sources = [];
  const lines = source.split("\n").map((line, i) => {
    const column = Math.max(line.search(/\S/), 0);
    const entry = /** @type {any} */ (map.findEntry(i, column));
    if (entry.originalSource === undefined || entry.generatedLine !== i) {
      return 0;
    }
    const name = sourceName(entry.originalSource);
    let place = sources.indexOf(name);
    if (place < 0) {
      place = sources.push(name) - 1;
    }
    return /** @type {[number, number]} */ ([place, entry.originalLine + 1]);
  });
  return { sources, lines };
}

/**
 * A message of the engine, with places in the author's files instead of those in the bundle.
 * @param {string} message
 * @param {import("./src/component/place.js").LineTable} table
 */
function placed(message, { sources, lines }) {
  return message
    .replace(/^[\s:]*(Failed to [^:]*: )*/, "")
    .replace(/componentize-qjs:user\.js:(\d+)(:\d+)?/g, (whole, line) => {
      const place = lines[Number(line) - 1];
      return place ? `${sources[place[0]]}:${place[1]}` : whole;
    })
    .trimEnd();
}

/**
 * How messages name a source: from the controller's folder, or `pintle/...` if it is the SDK's.
 * @param {string} source
 */
function sourceName(source) {
  const path = resolve(process.cwd(), source);
  const inside = relative(join(SDK, "src"), path);
  return inside.startsWith("..") ? relative(process.cwd(), path) : `pintle/${inside}`;
}

/**
 * @param {string} name
 * @returns {Promise<any>}
 */
async function tool(name) {
  try {
    return await import(name);
  } catch (error) {
    throw new Mistake(`${name} cannot be loaded: run \`npm install\` (${error instanceof Error ? error.message : error})`);
  }
}
