import { Kind } from "./kind.js";

/** @import { KindLike } from "./kind.js" */

/**
 * How much of each object the answer to a live list has: `metadata` is `apiVersion`, `kind` and `metadata` without `managedFields`;
 * `projection` is what the watch of the kind declares, only for kinds that the manifest watches; `whole` is everything but `managedFields`.
 * @typedef {"metadata" | "projection" | "whole"} LiveDetail
 */

/**
 * Which objects a live list has, and how much of them.
 * @typedef {object} LiveListOptions
 * @property {string} [namespace] All namespaces if absent.
 * @property {string} [labelSelector] In the syntax of kubectl.
 * @property {string} [fieldSelector] In the syntax of kubectl, for example `spec.nodeName=n1`. The API server decides which fields a
 *   kind has for this; it refuses others.
 * @property {LiveDetail} [detail] How much of each object; `metadata` if absent.
 * @property {number} [limit] At most this many objects; 500 if absent.
 */

/**
 * A certificate to sign. It is never that of an authority.
 * @typedef {object} CertificateRequest
 * @property {string} authority A setting of type `authority`.
 * @property {string} request In PEM: one `CERTIFICATE REQUEST`. Subject and subject alternative names are those of the request.
 * @property {readonly string[]} usages As `certificates.k8s.io` names them, for example `client auth`.
 * @property {string} notBefore RFC 3339.
 * @property {string} notAfter RFC 3339. The host cuts it to the end of the authority's certificate; if that is in the past, the answer is a
 *   refusal with the reason `Expired`.
 */

/**
 * A read that the cache cannot answer, or another question; made by {@link Need}.
 * @typedef {Readonly<
 *   | {tag: "live-object", val: {kind: Kind, object: {namespace: string, name: string}, subresource: string | null}}
 *   | {tag: "live-list", val: {kind: Kind, namespace: string, labelSelector: string | null, fieldSelector: string | null,
 *      detail: LiveDetail, limit: number}}
 *   | {tag: "raw-path", val: string}
 *   | {tag: "discovery"}
 *   | {tag: "review", val: {kind: Kind, namespace: string, object: object}}
 *   | {tag: "sign-jwt", val: {key: string, claims: object}}
 *   | {tag: "sign-certificate", val: CertificateRequest}
 *   | {tag: "call", val: {endpoint: string, operation: string, body: unknown, timeoutMs: number | null}}
 * >} Need
 */

/** Makes reads that the cache cannot answer and other questions, for {@link Lister.ask} and {@link Outcome.need}. */
export const Need = Object.freeze({
  /**
   * One object from the API server itself, or a subresource of it, for example `scale`. Answer: the object as JSON.
   * See {@link Lister.live} and {@link Lister.liveSubresource} for the short way.
   * @param {KindLike} kind
   * @param {string} namespace Empty for cluster-scoped kinds.
   * @param {string} name
   * @param {{subresource?: string | undefined}} [options]
   * @returns {Need}
   */
  liveObject(kind, namespace, name, { subresource } = {}) {
    return { tag: "live-object", val: { kind: Kind.of(kind), object: { namespace, name }, subresource: subresource ?? null } };
  },

  /**
   * A list from the API server itself. Answer: a JSON array of objects.
   * @param {KindLike} kind
   * @param {LiveListOptions} [options]
   * @returns {Need}
   */
  liveList(kind, { namespace = "", labelSelector, fieldSelector, detail = "metadata", limit = 500 } = {}) {
    const selectors = { labelSelector: labelSelector ?? null, fieldSelector: fieldSelector ?? null };
    return { tag: "live-list", val: { kind: Kind.of(kind), namespace, ...selectors, detail, limit } };
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

  /**
   * A verdict of the API server, for example on a SubjectAccessReview. The review is stored nowhere; the grants must allow to create it.
   * Answer: the review with its `status`. See {@link Lister.review} for the short way.
   * @param {KindLike} kind Of `authorization.k8s.io` or `authentication.k8s.io`; its name ends in `Review`.
   * @param {string} namespace Empty for cluster-scoped kinds.
   * @param {object} review With its `spec`; the host fills in `apiVersion` and `kind`.
   * @returns {Need}
   */
  review(kind, namespace, review) {
    return { tag: "review", val: { kind: Kind.of(kind), namespace, object: review } };
  },

  /**
   * A JSON Web Token, signed by a key that never enters the controller. Answer: the token, a compact JWS.
   * @param {string} key A setting of type `key`.
   * @param {object} claims
   * @returns {Need}
   */
  signJwt(key, claims) {
    return { tag: "sign-jwt", val: { key, claims } };
  },

  /**
   * A certificate, signed by an authority whose key never enters the controller. Answer: the certificate in PEM.
   * @param {CertificateRequest} request
   * @returns {Need}
   */
  signCertificate(request) {
    return { tag: "sign-certificate", val: request };
  },

  /**
   * One operation of an endpoint outside of the cluster, which the manifest declares and the operator has bound. It takes place before the
   * outcome is accepted, and the host does not repeat it: expect to see your own half-done work. Answer: the body of the response, JSON.
   * @param {string} endpoint As `endpoints` of the manifest declares it.
   * @param {string} operation One of its operations.
   * @param {unknown} body What becomes JSON.
   * @param {{timeoutMs?: number | undefined}} [options] Milliseconds to wait for the answer: at most 30,000, which is the default.
   * @returns {Need}
   */
  call(endpoint, operation, body, { timeoutMs } = {}) {
    return { tag: "call", val: { endpoint, operation, body, timeoutMs: timeoutMs ?? null } };
  },
});
