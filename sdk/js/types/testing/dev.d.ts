export type KubeObject = Record<string, any>;
/** An answer of the API server that is not 2xx. */
export declare class ApiError extends Error {
    code: number;
    reason: string;
    /**
     * @param {number} code HTTP status code.
     * @param {string} reason `reason` of the Status, such as `NotFound`.
     * @param {string} message
     */
    constructor(code: number, reason: string, message: string);
}
/**
 * A running `pintle dev`: an embedded cluster with simulated nodes, the built-in controllers and plugins.
 *
 *     const cluster = await Dev.start({ plugins: ["."] });
 *     after(() => cluster.stop());
 *     await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: "team" } });
 *     await cluster.wait("v1/ServiceAccount", "robot", "team");
 *
 * It ends with {@link Dev.stop}, and with the test program, however that ends.
 */
export declare class Dev {
    #private;
    /** The path of its kubeconfig, for kubectl and clients. */
    kubeconfig: string;
    /** What `--ready-file` contains. @type {Record<string, any>} */
    ready: Record<string, any>;
    /**
     * For {@link Dev.start}.
     * @param {object} process a `ChildProcess` of Node.js, whose types a project need not have.
     * @param {string} folder
     */
    constructor(process: object, folder: string);
    /**
     * Starts it and waits until the plugins run. The program is the one that the environment variable PINTLE_BIN names, or `pintle` on the
     * PATH.
     * @param {object} [options]
     * @param {string[]} [options.plugins] Folders, which are built, or components.
     * @param {string[]} [options.flags] More flags of `pintle dev`, such as `--controllers=-deployment` or `--nodes=0`.
     * @param {number} [options.timeout] In milliseconds, the builds included; ten minutes by default.
     * @returns {Promise<Dev>}
     * @throws {Error} It does not get ready; the message holds its log.
     */
    static start({ plugins, flags, timeout }?: {
        plugins?: string[];
        flags?: string[];
        timeout?: number;
    }): Promise<Dev>;
    /**
     * What it has printed so far: the lines of the plugins are among them.
     * @returns {string}
     */
    log(): string;
    /** Ends it. */
    stop(): Promise<void>;
    /**
     * Sends a request to the API server.
     * @param {string} method
     * @param {string} path
     * @param {unknown} [body] Sent as JSON.
     * @param {string} [contentType]
     * @returns {Promise<any>} The answer.
     * @throws {ApiError} It is not 2xx.
     */
    request(method: string, path: string, body?: unknown, contentType?: string): Promise<any>;
    /**
     * Creates or changes an object, as `kubectl apply --server-side --force-conflicts`.
     * @param {KubeObject} object
     * @returns {Promise<KubeObject>}
     */
    apply(object: KubeObject): Promise<KubeObject>;
    /**
     * @param {string} kind As in the manifest: `apps/v1/Deployment`.
     * @param {string} name
     * @param {string} [namespace] `default` by default.
     * @returns {Promise<KubeObject | undefined>} The object, if there is one.
     */
    get(kind: string, name: string, namespace?: string): Promise<KubeObject | undefined>;
    /**
     * Deletes an object, as `kubectl delete --wait=false`.
     * @param {string} kind
     * @param {string} name
     * @param {string} [namespace]
     */
    delete(kind: string, name: string, namespace?: string): Promise<void>;
    /**
     * Waits until the object, undefined if there is none, fulfils the condition.
     * @param {string} kind
     * @param {string} name
     * @param {string} [namespace]
     * @param {object} [options]
     * @param {(object: KubeObject | undefined) => boolean} [options.until] By default until it exists.
     * @param {number} [options.timeout] In milliseconds; a minute by default.
     * @returns {Promise<KubeObject | undefined>} The object.
     * @throws {Error} It takes longer; the message holds the object and the log.
     */
    wait(kind: string, name: string, namespace?: string, { until, timeout }?: {
        until?: (object: KubeObject | undefined) => boolean;
        timeout?: number;
    }): Promise<KubeObject | undefined>;
}
