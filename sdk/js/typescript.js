// Lets node run TypeScript, for tests: `node --import pintle/typescript --test controller.test.ts`.
// It strips types and checks nothing: that is what `tsc` is for.

import { register } from "node:module";

process.setSourceMapsEnabled(true);
register("./src/testing/typescript-hooks.js", import.meta.url);
