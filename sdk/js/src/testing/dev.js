// A cluster for a test: `pintle dev` with a controller, started and queried from the test program.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** @import { ChildProcess } from "node:child_process" */
/** @import { IncomingMessage } from "node:http" */

/** An object of Kubernetes. @typedef {Record<string, any>} KubeObject */

/** Milliseconds between two looks at what has not come yet. */
const PAUSE = 50;
/** Milliseconds that it may take to end after it was asked to. */
const GRACE = 10_000;

/** An answer of the API server that is not 2xx. */
export class ApiError extends Error {
  /**
   * @param {number} code HTTP status code.
   * @param {string} reason `reason` of the Status, such as `NotFound`.
   * @param {string} message
   */
  constructor(code, reason, message) {
    super(`${code} ${reason}: ${message}`);
    this.code = code;
    this.reason = reason;
  }
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
export class Dev {
  #process;
  #folder;
  #ended;
  /** @type {Map<string, {name: string, namespaced: boolean}>} */
  #resources = new Map();
  #server = new URL("https://127.0.0.1");
  /** @type {{ca: Buffer, cert: Buffer, key: Buffer} | undefined} */
  #tls;

  /** The path of its kubeconfig, for kubectl and clients. */
  kubeconfig = "";
  /** What `--ready-file` contains. @type {Record<string, any>} */
  ready = {};

  /**
   * For {@link Dev.start}.
   * @param {object} process a `ChildProcess` of Node.js, whose types a project need not have.
   * @param {string} folder
   */
  constructor(process, folder) {
    const child = /** @type {ChildProcess} */ (process);
    this.#process = child;
    this.#folder = folder;
    this.#ended = once(child, "exit");
  }

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
  static async start({ plugins = [], flags = [], timeout = 600_000 } = {}) {
    const program = process.env["PINTLE_BIN"] ?? "pintle";
    const folder = mkdtempSync(join(tmpdir(), "pintle-dev-"));
    const ready = join(folder, "ready.json");
    const options = ["--stop-with-stdin", `--ready-file=${ready}`, `--kubeconfig=${join(folder, "kubeconfig")}`];
    options.push(`--admin-socket=${join(folder, "admin.sock")}`, ...plugins.map((plugin) => `--plugin=${plugin}`), ...flags);
    const log = openSync(join(folder, "log"), "w");
    // The pipe ends with this process, whatever ends it, and with it `pintle dev`.
    const child = spawn(program, ["dev", ...options], { stdio: ["pipe", log, log] });
    closeSync(log);
    const started = once(child, "spawn");
    try {
      await started;
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      const missing = error instanceof Error && "code" in error && error.code === "ENOENT";
      const why = "there is no `pintle` on the PATH: install it, or name the program by the environment variable PINTLE_BIN";
      throw missing && program === "pintle" ? new Error(why) : new Error(`cannot start ${program}: ${error}`);
    }
    const dev = new Dev(child, folder);
    try {
      await dev.#await(ready, timeout);
      dev.#connect();
    } catch (error) {
      await dev.stop();
      throw error;
    }
    return dev;
  }

  /**
   * @param {string} file
   * @param {number} timeout
   */
  async #await(file, timeout) {
    const deadline = Date.now() + timeout;
    while (!existsSync(file)) {
      if (this.#process.exitCode !== null || this.#process.signalCode !== null) {
        throw new Error(`\`pintle dev\` ended:\n${this.log()}`);
      }
      if (Date.now() > deadline) {
        throw new Error(`\`pintle dev\` is not ready after ${timeout} ms:\n${this.log()}`);
      }
      await sleep(PAUSE);
    }
    this.ready = JSON.parse(readFileSync(file, "utf8"));
    if (this.ready["error"] !== undefined) {
      throw new Error(`a plugin does not run: ${this.ready["error"]}`);
    }
    this.kubeconfig = this.ready["kubeconfig"];
  }

  #connect() {
    const text = readFileSync(this.kubeconfig, "utf8");
    /** @param {string} name One field a line, as `pintle dev` writes it. */
    const field = (name) => {
      const [, value] = new RegExp(`^ *(?:- )?${name}: *["']?([^"'\\n]+)`, "m").exec(text) ?? [];
      if (value === undefined) {
        throw new Error(`${this.kubeconfig} is not a kubeconfig of pintle dev: it has no ${name}`);
      }
      return value;
    };
    /** @param {string} name */
    const decoded = (name) => Buffer.from(field(name), "base64");
    this.#tls = { ca: decoded("certificate-authority-data"), cert: decoded("client-certificate-data"), key: decoded("client-key-data") };
    this.#server = new URL(field("server"));
  }

  /**
   * What it has printed so far: the lines of the plugins are among them.
   * @returns {string}
   */
  log() {
    return readFileSync(join(this.#folder, "log"), "utf8");
  }

  /** Ends it. */
  async stop() {
    this.#process.stdin?.end();
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), GRACE);
    await this.#ended;
    clearTimeout(timer);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /**
   * Sends a request to the API server.
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body] Sent as JSON.
   * @param {string} [contentType]
   * @returns {Promise<any>} The answer.
   * @throws {ApiError} It is not 2xx.
   */
  async request(method, path, body, contentType = "application/json") {
    const { hostname, port } = this.#server;
    const headers = { "content-type": contentType, accept: "application/json" };
    const sent = request({ ...this.#tls, hostname, port, method, path, headers, agent: false });
    sent.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = /** @type {[IncomingMessage]} */ (await once(sent, "response"));
    const text = Buffer.concat(await response.toArray()).toString();
    const code = response.statusCode ?? 0;
    if (code < 300) {
      return JSON.parse(text);
    }
    /** @type {{reason?: string, message?: string}} */
    let status = {};
    try {
      status = JSON.parse(text);
    } catch {
      // The message is the text.
    }
    throw new ApiError(code, status.reason ?? "", status.message ?? text);
  }

  /**
   * Creates or changes an object, as `kubectl apply --server-side --force-conflicts`.
   * @param {KubeObject} object
   * @returns {Promise<KubeObject>}
   */
  async apply(object) {
    const { name, namespace } = object["metadata"];
    const path = await this.#path(`${object["apiVersion"]}/${object["kind"]}`, name, namespace);
    return this.request("PATCH", `${path}?fieldManager=test&force=true`, object, "application/apply-patch+yaml");
  }

  /**
   * @param {string} kind As in the manifest: `apps/v1/Deployment`.
   * @param {string} name
   * @param {string} [namespace] `default` by default.
   * @returns {Promise<KubeObject | undefined>} The object, if there is one.
   */
  async get(kind, name, namespace) {
    const path = await this.#path(kind, name, namespace);
    try {
      return await this.request("GET", path);
    } catch (error) {
      if (error instanceof ApiError && error.code === 404) {
        return undefined;
      }
      throw error;
    }
  }

  /**
   * Deletes an object, as `kubectl delete --wait=false`.
   * @param {string} kind
   * @param {string} name
   * @param {string} [namespace]
   */
  async delete(kind, name, namespace) {
    await this.request("DELETE", await this.#path(kind, name, namespace));
  }

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
  async wait(kind, name, namespace, { until = (object) => object !== undefined, timeout = 60_000 } = {}) {
    const deadline = Date.now() + timeout;
    for (;;) {
      const object = await this.get(kind, name, namespace);
      if (until(object)) {
        return object;
      }
      if (Date.now() > deadline) {
        const shown = JSON.stringify(object, undefined, 2);
        throw new Error(`${kind} ${namespace ?? ""}/${name} is not as expected after ${timeout} ms: ${shown}\n${this.log()}`);
      }
      await sleep(PAUSE);
    }
  }

  /**
   * @param {string} kind
   * @param {string} name
   * @param {string} [namespace]
   */
  async #path(kind, name, namespace = "default") {
    const at = kind.lastIndexOf("/");
    const [version, kindName] = [kind.slice(0, at), kind.slice(at + 1)];
    const root = version.includes("/") ? `/apis/${version}` : `/api/${version}`;
    let found = this.#resources.get(kind);
    if (found === undefined) {
      /** @type {{name: string, kind: string, namespaced: boolean}[]} */
      const resources = (await this.request("GET", root)).resources;
      found = resources.find((resource) => resource.kind === kindName && !resource.name.includes("/"));
      if (found === undefined) {
        throw new ApiError(404, "NotFound", `the API server does not serve ${kind}`);
      }
      this.#resources.set(kind, found);
    }
    const scope = found.namespaced ? `/namespaces/${encodeURIComponent(namespace)}` : "";
    return `${root}${scope}/${found.name}/${encodeURIComponent(name)}`;
  }
}
