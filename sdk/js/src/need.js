import { Kind } from "./kind.js";

/** @import { KindLike } from "./kind.js" */

/**
 * A read that the cache cannot answer; made by {@link Need}.
 * @typedef {Readonly<
 *   | {tag: "live-object", val: {kind: Kind, object: {namespace: string, name: string}}}
 *   | {tag: "live-list", val: {kind: Kind, namespace: string, labelSelector: string | null, limit: number}}
 *   | {tag: "raw-path", val: string}
 *   | {tag: "discovery"}
 * >} Need
 */

/** Makes reads that the cache cannot answer, for {@link Lister.ask} and {@link Outcome.need}. */
export const Need = Object.freeze({
  /**
   * One object from the API server itself. Answer: the object as JSON. See {@link Lister.live} for the short way.
   * @param {KindLike} kind
   * @param {string} namespace Empty for cluster-scoped kinds.
   * @param {string} name
   * @returns {Need}
   */
  liveObject(kind, namespace, name) {
    return { tag: "live-object", val: { kind: Kind.of(kind), object: { namespace, name } } };
  },

  /**
   * A list from the API server itself. Answer: a JSON array of objects with `apiVersion`, `kind` and `metadata` only.
   * @param {KindLike} kind
   * @param {{namespace?: string, labelSelector?: string, limit?: number}} [options] All namespaces if `namespace` is absent;
   *   at most `limit` objects, 500 if absent.
   * @returns {Need}
   */
  liveList(kind, { namespace = "", labelSelector, limit = 500 } = {}) {
    return { tag: "live-list", val: { kind: Kind.of(kind), namespace, labelSelector: labelSelector ?? null, limit } };
  },

  /**
   * GET of a path of the API server. Answer: the body.
   * @param {string} path
   * @returns {Need}
   */
  rawPath(path) {
    return { tag: "raw-path", val: path };
  },

  /**
   * Discover the API server's resources now: {@link Lister.resources} shows them once this is answered.
   * Answer: a JSON array of the group versions that did not answer.
   * @returns {Need}
   */
  discovery() {
    return { tag: "discovery" };
  },
});
