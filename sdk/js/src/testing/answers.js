// Answers to needs: what the API server, signers and endpoints of a case say.

import { Kind } from "../kind.js";
import { equal } from "../status.js";
import { kindText, objectText } from "./render.js";

/** @import { AnyObject, ApiError } from "../model.js" */
/** @import { WireNeed } from "../wire.js" */

/** @typedef {{tag: "ok", val: string} | {tag: "err", val: ApiError}} Answer */

/**
 * A subresource that a live read finds.
 * @typedef {{kind: string, namespace: string, name: string, subresource: string, answer: unknown}} Subresource
 */

/**
 * A verdict of the API server on reviews whose spec has these fields.
 * @typedef {{kind: string, namespace: string, spec: unknown, status: unknown}} Review
 */

/**
 * A signature by a key or an authority; of tokens, on claims that have these fields.
 * @typedef {{by: string, claims: unknown, answer: string, error?: ApiError}} Signature
 */

/**
 * The answer of an endpoint to bodies that have these fields.
 * @typedef {{endpoint: string, operation: string, body: unknown, answer: unknown, error?: ApiError}} Call
 */

/**
 * What a case has to say besides objects. The first entry that fits counts.
 * @typedef {object} Answers
 * @property {Subresource[]} subresources
 * @property {Review[]} reviews
 * @property {Signature[]} signatures
 * @property {Call[]} calls
 */

/** Fields of the entries: the needed ones, and the others with what they are if absent. */
const ENTRIES = {
  subresources: { needed: ["kind", "name", "subresource", "answer"], others: { namespace: "" } },
  reviews: { needed: ["kind", "status"], others: { namespace: "", spec: null } },
  signatures: { needed: ["by"], others: { claims: null, answer: "", error: undefined } },
  calls: { needed: ["endpoint", "operation"], others: { body: null, answer: null, error: undefined } },
};

/** Names of the fields of an input that hold answers. */
export const ANSWERS = Object.keys(ENTRIES);

/**
 * The answers that an input has.
 * @param {Record<string, any>} input
 * @returns {Answers}
 * @throws {Error} If one lacks a field, or has an unknown one.
 */
export function answersOf(input) {
  const all = Object.entries(ENTRIES).map(([list, { needed, others }]) => {
    const entries = input[list] ?? [];
    if (!Array.isArray(entries)) {
      throw new Error(`${list} of the input must be a list`);
    }
    const read = entries.map((/** @type {any} */ entry, i) => {
      const known = [...needed, ...Object.keys(others)];
      const missing = needed.find((name) => entry?.[name] === undefined);
      if (missing !== undefined) {
        throw new Error(`${list}[${i}] of the input needs ${missing}: it has ${known.join(", ")}`);
      }
      const unknown = Object.keys(entry).find((name) => !known.includes(name));
      if (unknown !== undefined) {
        throw new Error(`${list}[${i}] of the input has an unknown field ${unknown}: it may have ${known.join(", ")}`);
      }
      const kind = needed.includes("kind") ? { kind: String(Kind.of(entry.kind)) } : {};
      return { ...others, ...entry, ...kind };
    });
    return [list, read];
  });
  return Object.fromEntries(all);
}

/**
 * The answer to a need that is not about objects, paths or discovery.
 * @param {WireNeed} need
 * @param {Answers} answers
 * @returns {Answer | undefined} Nothing if it is about these.
 */
export function answerOf(need, { subresources, reviews, signatures, calls }) {
  switch (need.tag) {
    case "live-object": {
      const { kind, object, subresource } = need.val;
      if (subresource === null) {
        return undefined;
      }
      const found = subresources.find(
        (one) =>
          one.kind === kindText(kind) &&
          one.subresource === subresource &&
          one.namespace === object.namespace &&
          one.name === object.name,
      );
      const what = `${kindText(kind)}/${subresource} ${objectText(object)}; a case has it in \`subresources\``;
      return found ? ok(found.answer) : notFound(what);
    }
    case "review": {
      const { kind, namespace, object } = need.val;
      const review = JSON.parse(object);
      const found = reviews.find(
        (one) => one.kind === kindText(kind) && one.namespace === namespace && contains(review.spec, one.spec),
      );
      if (found === undefined) {
        return notFound(`a verdict on ${kindText(kind)} ${JSON.stringify(review.spec)}; a case has it in \`reviews\``);
      }
      const { apiVersion, name } = Kind.of(found.kind);
      return ok({ ...review, apiVersion, kind: name, status: found.status });
    }
    case "sign-jwt":
    case "sign-certificate": {
      const by = need.tag === "sign-jwt" ? need.val.key : need.val.authority;
      const fits = (/** @type {Signature} */ one) =>
        one.by === by && (need.tag !== "sign-jwt" || contains(JSON.parse(need.val.claims), one.claims));
      const found = signatures.find(fits);
      if (found === undefined) {
        return notFound(`a signature by ${by}; a case has it in \`signatures\``);
      }
      // The token or the certificate itself, not JSON.
      return found.error ? refused(found.error) : { tag: "ok", val: found.answer };
    }
    case "call": {
      const { endpoint, operation, body } = need.val;
      const found = calls.find(
        (one) => one.endpoint === endpoint && one.operation === operation && contains(JSON.parse(body), one.body),
      );
      if (found === undefined) {
        return notFound(`an answer to ${endpoint}/${operation} ${body}; a case has it in \`calls\``);
      }
      return found.error ? refused(found.error) : ok(found.answer);
    }
    default:
      return undefined;
  }
}

/**
 * Whether an object's fields are as a field selector says: `a.b=x,c!=y`. A field that is not there is empty.
 * @param {string} selector
 * @param {AnyObject} object
 * @returns {boolean}
 * @throws {Error} If it is not a field selector.
 */
export function fieldsMatch(selector, object) {
  const terms = selector.split(",").filter((term) => term !== "");
  return terms.every((term) => {
    const [, path, sign, wanted] = /^(.*?)(!=|==|=)(.*)$/s.exec(term) ?? [];
    if (path === undefined) {
      throw new Error(`${JSON.stringify(term)} is not a term of a field selector: write spec.nodeName=n1`);
    }
    const found = path.split(".").reduce((value, name) => value?.[name], /** @type {any} */ (object)) ?? "";
    return ((typeof found === "string" ? found : JSON.stringify(found)) === wanted) === (sign !== "!=");
  });
}

/**
 * Whether a value has all that another one has; nothing is asked for by `null`.
 * @param {any} value
 * @param {any} wanted
 * @returns {boolean}
 */
function contains(value, wanted) {
  if (wanted == null) {
    return true;
  }
  const isObject = (/** @type {any} */ one) => one !== null && typeof one === "object" && !Array.isArray(one);
  if (isObject(value) && isObject(wanted)) {
    return Object.entries(wanted).every(([name, member]) => Object.hasOwn(value, name) && contains(value[name], member));
  }
  return equal(value ?? null, wanted);
}

/**
 * @param {unknown} value
 * @returns {Answer}
 */
export function ok(value) {
  return { tag: "ok", val: JSON.stringify(value) };
}

/**
 * @param {string} what
 * @returns {Answer}
 */
export function notFound(what) {
  return refused({ code: 404, reason: "NotFound", message: `${what} not found` });
}

/**
 * @param {Partial<ApiError>} error
 * @returns {Answer}
 */
export function refused(error) {
  return { tag: "err", val: { code: 0, reason: "", message: "", ...error } };
}
