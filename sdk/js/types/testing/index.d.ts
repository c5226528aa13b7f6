import { Lister } from "../lister.js";
import { World } from "./world.js";
export { ApiError, Dev } from "./dev.js";
import type { Key } from "../model.js";
import type { Reconcile } from "../controller.js";
/**
 * Runs every case below `folder/cases` with `folder/manifest.yaml`, as one test of `node --test` each, and compares the outcomes.
 *
 * The lister of a case gives what the host would give: only watched kinds, only projected fields, only declared indexes; anything else
 * fails the case. Where what is expected is missing or differs, the message shows the outcome; `pintle test --update` writes it.
 * @param {string} folder The controller's folder; relative to where the tests are started, which is the package with `npm test`.
 * @param {Reconcile} reconcile
 * @param {{cases?: string}} [options] `cases`: another folder of cases, relative to `folder`.
 */
export declare function checkCases(folder: string, reconcile: Reconcile, { cases }?: {
    cases?: string;
}): void;
/** One run: a key and the cluster that it reads. */
export declare class Fixture {
    #private;
    /** The key of the run. */
    key: Key;
    /** The world. */
    lister: Lister;
    /**
     * @param {Key} key
     * @param {World} world
     */
    constructor(key: Key, world: World);
    /**
     * Reads a manifest and an input, both YAML. The input has `key` (`kind`, `namespace`, `name`, and `queue` if it is not the manifest's
     * first), `now`, `uptime`, `objects` (the cache), `live` (what the API server itself has; the same if absent), `raw` (path -> body),
     * `subresources`, `reviews`, `signatures`, `calls` (answers to needs), `discovery`, `config`, `state`, `attempt`, `failures`,
     * `resources`.
     * @param {string} manifestText
     * @param {string} inputText
     * @returns {Fixture}
     * @throws {Error} What is wrong with them.
     */
    static parse(manifestText: string, inputText: string): Fixture;
    /**
     * Runs the key, answers its needs until there are no more, and shows the result in the form of the expected outcome of a case.
     * @param {Reconcile} reconcile
     * @returns {Record<string, any>}
     * @throws {Error} What the controller threw, if it is neither {@link Retry} nor {@link Terminal}; or the fault of the run.
     */
    run(reconcile: Reconcile): Record<string, any>;
}
