// Write Kubernetes controllers in JavaScript or TypeScript. See README.md.

export * from "./children.js";
export * from "./conditions.js";
export * from "./controller.js";
export * from "./errors.js";
export * from "./finalizers.js";
export * from "./hash.js";
export * from "./kind.js";
export { Lister } from "./lister.js";
export { log } from "./log.js";
export * from "./model.js";
export * from "./mutation.js";
export * from "./need.js";
export * from "./outcome.js";
export * from "./owners.js";
export { patchStatus } from "./status.js";

/** @typedef {import("./lister.js").Answer} Answer */
