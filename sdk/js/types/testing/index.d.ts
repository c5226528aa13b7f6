export { debugCase } from "./debug.js";
export { ApiError, Dev } from "./dev.js";
