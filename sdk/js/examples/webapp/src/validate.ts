// Validation beyond the schema of the custom resource: an invalid WebApp reports all its problems at once.

import type { Wanted } from "./types.ts";

/** What is wrong, in the order of the spec; empty if nothing is. */
export function problems(name: string, wanted: Wanted): string[] {
  const { image, replicas, port, host, config, autoscaling, disruptionBudget } = wanted;
  const found: string[] = [];
  const check = (isRight: boolean, problem: string) => {
    if (!isRight) {
      found.push(problem);
    }
  };
  check(isLabel(name) && /^[a-z]/.test(name), `metadata.name: not a name for a Service: ${name}`);
  check(image !== "", "spec.image: is required");
  check(replicas >= 0, "spec.replicas: must not be negative");
  check(port >= 1 && port <= 65535, "spec.port: must be between 1 and 65535");
  check(host === "" || isDnsName(host), `spec.host: not a DNS name: ${host}`);
  for (const key of Object.keys(config).sort(byCodePoints)) {
    check(/^[A-Za-z0-9\-_.]{1,253}$/.test(key), `spec.config: not a key: ${key}`);
  }
  if (autoscaling) {
    const { minReplicas, maxReplicas, cpuPercent } = autoscaling;
    check(minReplicas >= 1, "spec.autoscaling.minReplicas: must be at least 1");
    check(maxReplicas >= 1, "spec.autoscaling.maxReplicas: must be at least 1");
    const isRange = minReplicas < 1 || maxReplicas < 1 || minReplicas <= maxReplicas;
    check(isRange, `spec.autoscaling: minReplicas ${minReplicas} is more than maxReplicas ${maxReplicas}`);
    check(cpuPercent >= 1, "spec.autoscaling.cpuPercent: must be at least 1");
  }
  if (disruptionBudget) {
    const { minAvailable, maxUnavailable } = disruptionBudget;
    const isOne = (minAvailable === undefined) !== (maxUnavailable === undefined);
    check(isOne, "spec.disruptionBudget: needs either minAvailable or maxUnavailable");
    check((minAvailable ?? 0) >= 0, "spec.disruptionBudget.minAvailable: must not be negative");
    check((maxUnavailable ?? 0) >= 0, "spec.disruptionBudget.maxUnavailable: must not be negative");
  }
  return found;
}

/** 1 to 63 lower-case letters, digits and `-`, with neither end a `-`. */
function isLabel(text: string): boolean {
  return /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(text);
}

/** Labels with dots between them, at most 253 bytes. */
function isDnsName(text: string): boolean {
  return text.length <= 253 && text.split(".").every(isLabel);
}

/** The order of UTF-8 bytes; JavaScript's own is that of UTF-16. */
function byCodePoints(a: string, b: string): number {
  const [left, right] = [[...a], [...b]];
  const i = left.findIndex((character, j) => character !== right[j]);
  return i < 0 ? left.length - right.length : (left[i]?.codePointAt(0) ?? 0) - (right[i]?.codePointAt(0) ?? -1);
}
