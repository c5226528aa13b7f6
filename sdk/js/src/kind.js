/**
 * A kind, or its text form: `"apps/v1/Deployment"`, `"v1/Pod"`.
 * @typedef {Kind | string} KindLike
 */

/** A kind as the API server names it. `group` is empty for the core group. */
export class Kind {
  /**
   * @param {string} group Empty for the core group.
   * @param {string} version For example `v1`.
   * @param {string} name For example `Pod`.
   */
  constructor(group, version, name) {
    /** @readonly */
    this.group = group;
    /** @readonly */
    this.version = version;
    /** @readonly */
    this.name = name;
    Object.freeze(this);
  }

  /**
   * The kind that a text names: `"apps/v1/Deployment"`, `"v1/Pod"`.
   * @param {KindLike} kind
   * @returns {Kind}
   * @throws {TypeError} If the text is no kind.
   */
  static of(kind) {
    if (kind instanceof Kind) {
      return kind;
    }
    const parts = typeof kind === "string" ? kind.split("/") : [];
    if ((parts.length !== 2 && parts.length !== 3) || parts.some((part) => part === "")) {
      throw new TypeError(`${JSON.stringify(kind)} is not a kind: write "v1/Pod" or "apps/v1/Deployment"`);
    }
    const [name = "", version = "", group = ""] = parts.reverse();
    return new Kind(group, version, name);
  }

  /**
   * The kind that `apiVersion` and `kind` of an object, or of an owner reference, name.
   * @param {{apiVersion?: string | undefined, kind?: string | undefined}} object
   * @returns {Kind}
   * @throws {TypeError} If the object says neither.
   */
  static ofObject(object) {
    if (!object?.apiVersion || !object.kind) {
      throw new TypeError(`the object has no apiVersion or no kind: ${JSON.stringify(object)?.slice(0, 200)}`);
    }
    return Kind.of(`${object.apiVersion}/${object.kind}`);
  }

  /** `apiVersion` of its objects: `apps/v1`, or `v1` in the core group. */
  get apiVersion() {
    return this.group === "" ? this.version : `${this.group}/${this.version}`;
  }

  /** The text form. */
  toString() {
    return `${this.apiVersion}/${this.name}`;
  }

  /** The text form, so that a kind in JSON is one string. */
  toJSON() {
    return this.toString();
  }
}
