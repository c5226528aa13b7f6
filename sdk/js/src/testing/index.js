// What native tests and debuggers use.

export { debugCase } from "./debug.js";
export { ApiError, Dev } from "./dev.js";
