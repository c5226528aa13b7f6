/**
 * A kind, or its text form: `"apps/v1/Deployment"`, `"v1/Pod"`.
 * @typedef {Kind | string} KindLike
 */
export type KindLike = Kind | string;
/** A kind as the API server names it. `group` is empty for the core group. */
export declare class Kind {
    /** @readonly */
    group: string;
    /** @readonly */
    version: string;
    /** @readonly */
    name: string;
    /**
     * @param {string} group Empty for the core group.
     * @param {string} version For example `v1`.
     * @param {string} name For example `Pod`.
     */
    constructor(group: string, version: string, name: string);
    /**
     * The kind that a text names: `"apps/v1/Deployment"`, `"v1/Pod"`.
     * @param {KindLike} kind
     * @returns {Kind}
     * @throws {TypeError} If the text is no kind.
     */
    static of(kind: KindLike): Kind;
    /**
     * The kind that `apiVersion` and `kind` of an object, or of an owner reference, name.
     * @param {{apiVersion?: string | undefined, kind?: string | undefined}} object
     * @returns {Kind}
     * @throws {TypeError} If the object says neither.
     */
    static ofObject(object: {
        apiVersion?: string | undefined;
        kind?: string | undefined;
    }): Kind;
    /** `apiVersion` of its objects: `apps/v1`, or `v1` in the core group. */
    get apiVersion(): string;
    /** The text form. */
    toString(): string;
    /** The text form, so that a kind in JSON is one string. */
    toJSON(): string;
}
