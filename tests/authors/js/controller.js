// Makes the mistake that the name of its key says. What is told of each: tests/tests/mistakes.rs.

import { Mutation, Outcome, Step, Terminal } from "../../../sdk/js/src/index.js";

import { churn } from "./churn.js";

const MISTAKE = "example.com/v1/Mistake";
const CONFIG_MAP = "v1/ConfigMap";
const SECRET = "v1/Secret";

let runs = 0;

/** Makes a mistake. */
export function reconcile(key, lister) {
  switch (key.name) {
    case "panic":
      return thirdOf([]);
    case "clock":
      return new Outcome().keep("now", new Date().toISOString());
    case "random":
      return new Outcome().keep("random", String(Math.random()));
    case "global":
      runs += 1;
      return new Outcome().keep("runs", String(runs));
    case "bad-json":
      return parse(key, lister);
    case "bad-type":
      return replicas(key, lister);
    case "undeclared-kind":
      return step(Mutation.create(SECRET, key.namespace, { metadata: { name: key.name } }));
    case "forgotten-grant":
      return step(Mutation.delete(CONFIG_MAP, key.namespace, key.name));
    case "unwatched":
      return new Outcome().keep("secret", JSON.stringify(lister.get(SECRET, key.namespace, key.name)));
    case "loop":
      for (;;);
    case "memory":
      return fillMemory();
    case "deep":
      return new Outcome().keep("depth", String(depth(0)));
    case "churn":
      return churn(key, lister);
    default:
      throw new Terminal(`there is no mistake ${key.name}`);
  }
}

function step(mutation) {
  return new Outcome().step(Step.sequential([mutation]));
}

function thirdOf(items) {
  const third = items[2];
  return new Outcome().keep("third", third.name);
}

function parse(key, lister) {
  const mistake = lister.get(MISTAKE, key.namespace, key.name);
  return new Outcome().keep("settings", JSON.parse(mistake.spec.settings).name);
}

function replicas(key, lister) {
  const mistake = lister.get(MISTAKE, key.namespace, key.name);
  // Text in this object, so that it is appended and not added. Nobody but a schema of the kind can tell.
  return new Outcome().keep("replicas", (mistake.spec.replicas + 1).toFixed(0));
}

function fillMemory() {
  const all = [];
  for (;;) {
    all.push(new Uint8Array(1 << 20).fill(1));
  }
}

function depth(level) {
  return depth(level + 1) + level;
}
