// `../README.md` describes this controller.

const CONFIG_MAP = { group: "", version: "v1", name: "ConfigMap" };

export function reconcile(key, lister) {
  try {
    const text = lister.get(key.kind, key.object);
    if (text == null) return outcome([]);
    const name = key.object.name;
    const { metadata } = JSON.parse(text);
    if (metadata.deletionTimestamp || lister.get(CONFIG_MAP, { namespace: name, name: "badge" }) != null) return outcome([]);
    console.log(`a badge for ${name}`);
    const random = crypto.getRandomValues(new Uint8Array(8));
    const data = {
      now: lister.now(),
      clock: String(Date.now()),
      random: Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join(""),
    };
    if (metadata.labels?.badge === "network") {
      fetch("http://127.0.0.1:443/");
      data.network = "opened";
    }
    const object = JSON.stringify({ metadata: { name: "badge" }, data });
    const action = { tag: "create", val: { kind: CONFIG_MAP, namespace: name, object } };
    return outcome([{ order: "sequential", mutations: [{ action, tolerate: [] }], always: false }]);
  } finally {
    lister[Symbol.dispose]();
  }
}

function outcome(steps) {
  return { needs: [], steps, state: [], observations: [], wake: [], runLabels: [] };
}
