/**
 * Severity of a line.
 * @typedef {"debug" | "info" | "warn" | "error"} Level
 */
export type Level = "debug" | "info" | "warn" | "error";
/**
 * Sends lines elsewhere: the glue of components sends them to the host.
 * @internal
 * @param {(level: Level, message: string) => void} to
 */
export declare function setSink(to: (level: Level, message: string) => void): void;
/** Lines for the host's log, which tags them with controller and key. Their size and number are limited. Natively they go to standard error. */
export declare const log: Readonly<{
    /** @param {string} message */
    debug(message: string): void;
    /** @param {string} message */
    info(message: string): void;
    /** @param {string} message */
    warn(message: string): void;
    /** @param {string} message */
    error(message: string): void;
}>;
