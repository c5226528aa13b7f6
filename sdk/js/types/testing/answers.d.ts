import type { AnyObject, ApiError } from "../model.js";
import type { WireNeed } from "../wire.js";
export type Answer = {
    tag: "ok";
    val: string;
} | {
    tag: "err";
    val: ApiError;
};
export type Subresource = {
    kind: string;
    namespace: string;
    name: string;
    subresource: string;
    answer: unknown;
};
export type Review = {
    kind: string;
    namespace: string;
    spec: unknown;
    status: unknown;
};
export type Signature = {
    by: string;
    claims: unknown;
    answer: string;
    error?: ApiError;
};
export type Call = {
    endpoint: string;
    operation: string;
    body: unknown;
    answer: unknown;
    error?: ApiError;
};
export type Answers = {
    subresources: Subresource[];
    reviews: Review[];
    signatures: Signature[];
    calls: Call[];
};
/** Names of the fields of an input that hold answers. */
export declare const ANSWERS: string[];
/**
 * The answers that an input has.
 * @param {Record<string, any>} input
 * @returns {Answers}
 * @throws {Error} If one lacks a field, or has an unknown one.
 */
export declare function answersOf(input: Record<string, any>): Answers;
/**
 * The answer to a need that is not about objects, paths or discovery.
 * @param {WireNeed} need
 * @param {Answers} answers
 * @returns {Answer | undefined} Nothing if it is about these.
 */
export declare function answerOf(need: WireNeed, { subresources, reviews, signatures, calls }: Answers): Answer | undefined;
/**
 * Whether an object's fields are as a field selector says: `a.b=x,c!=y`. A field that is not there is empty.
 * @param {string} selector
 * @param {AnyObject} object
 * @returns {boolean}
 * @throws {Error} If it is not a field selector.
 */
export declare function fieldsMatch(selector: string, object: AnyObject): boolean;
/**
 * @param {unknown} value
 * @returns {Answer}
 */
export declare function ok(value: unknown): Answer;
/**
 * @param {string} what
 * @returns {Answer}
 */
export declare function notFound(what: string): Answer;
/**
 * @param {Partial<ApiError>} error
 * @returns {Answer}
 */
export declare function refused(error: Partial<ApiError>): Answer;
