// Where in the author's sources an exception was thrown.

import { stringify } from "../json.js";

/**
 * For each line of the bundle, place of its source in `sources` and line there; written by `build.js` at the end of the bundle.
 * @typedef {{sources: string[], lines: ([number, number] | 0)[]}} LineTable
 */

/** Frames that are shown. */
const MAX_FRAMES = 5;

/**
 * One line: type, message and places of the author's code, innermost first.
 * @param {unknown} thrown
 * @param {LineTable | undefined} table
 * @returns {string}
 */
export function describe(thrown, table) {
  if (!(thrown instanceof Error)) {
    return `uncaught ${typeof thrown === "object" ? stringify(thrown) : String(thrown)} (throw an Error: it would tell the place)`;
  }
  const frames = (thrown.stack ?? "").split("\n").flatMap((line) => frame(line, table));
  const own = frames.filter(({ source }) => !source.startsWith("pintle/"));
  const shown = (own.length > 0 ? own : frames).slice(0, MAX_FRAMES).map(({ text }) => text);
  return `${thrown.name}: ${thrown.message}${shown.length > 0 ? ` at ${shown.join(", called from ")}` : ""}`;
}

/**
 * @param {string} line `    at NAME (FILE:LINE:COLUMN)`
 * @param {LineTable | undefined} table
 * @returns {{source: string, text: string}[]}
 */
function frame(line, table) {
  const [, named, line1, anonymous] = /^\s*at (?:(.*?) \([^()]*?:(\d+)(?::\d+)?\)|[^()]*?:(\d+)(?::\d+)?)$/.exec(line) ?? [];
  const place = table?.lines[Number(line1 ?? anonymous) - 1];
  const source = place ? table?.sources[place[0]] : undefined;
  if (!place || source === undefined) {
    return [];
  }
  const name = named && !named.startsWith("<") ? ` (${named})` : "";
  return [{ source, text: `${source}:${place[1]}${name}` }];
}
