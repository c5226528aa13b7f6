import type { Reconcile } from "../controller.js";
/** @import { Reconcile } from "../controller.js" */
/** @import { RawQuery, View } from "../lister.js" */
/** @import { WireNeed } from "../wire.js" */
/**
 * Calls `reconcile` with the case in a file that `pintle test --filter NAME --export FOLDER` has written, and returns what it returns. Each
 * read gets the answer that the component got.
 * @param {string} file
 * @param {Reconcile} reconcile
 * @returns {ReturnType<Reconcile>}
 * @throws {Error} What `reconcile` throws; or the file has no answer to a read: export the case again after a change of what is read.
 */
export declare function debugCase(file: string, reconcile: Reconcile): ReturnType<Reconcile>;
