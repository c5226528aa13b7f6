// Reads the world again and again while the heap is full of garbage, and looks whether what was read is what was there.

import { log, Outcome, Terminal } from "../../../sdk/js/src/index.js";

/** How often everything is read in one run. */
const N_ROUNDS = 2;

/** Garbage that only a collection finds, as it refers to itself: what is not there after a call of the host was collected in it. */
function cycle() {
  const node = { text: "x".repeat(500) };
  node.self = node;
  return new WeakRef(node);
}

/** Reads, and counts the collections that happen meanwhile. */
class Reader {
  collections = 0;

  ask(call) {
    const before = cycle();
    garbage();
    // Garbage of the call itself is not looked at.
    const wasThere = before.deref() !== undefined;
    const answer = call();
    if (wasThere && before.deref() === undefined) {
      this.collections += 1;
    }
    return answer;
  }
}

export function churn(key, lister) {
  const reader = new Reader();
  let checked = 0;
  for (let round = 0; round < N_ROUNDS; round += 1) {
    const all = reader.ask(() => lister.list("v1/ConfigMap", { namespace: key.namespace }));
    for (const listed of all) {
      const { name } = listed.metadata;
      const one = reader.ask(() => lister.get("v1/ConfigMap", key.namespace, name));
      for (const read of [listed, one]) {
        if (read.data.text !== name.repeat(Number(read.data.times))) {
          throw new Terminal(`corrupt: ${name}`);
        }
        checked += 1;
      }
    }
    if (reader.ask(() => lister.state("word")) !== reader.ask(() => lister.config()).word) {
      throw new Terminal("corrupt: state or configuration");
    }
  }
  log.warn(`collections during calls: ${reader.collections}`);
  return new Outcome().keep("checked", String(checked));
}

/** Lives until it is replaced, between what dies at once. */
const kept = [];

function garbage() {
  for (let i = 0; i < 64; i += 1) {
    const node = { text: "y".repeat(((i * 97) % 1500) + 1) };
    node.self = node;
    if (i % 8 === 0) {
      kept[i] = node;
    }
  }
}
