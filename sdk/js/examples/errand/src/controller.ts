// Runs errands: each one exercises one part of contract 0.2.
// `tests/errand/README.md` in the repository specifies its behaviour, and the cases there show it.

import { isTime, type Key, type KeyLike, type Lister, Mutation, Need, Outcome, Retry, Step, Terminal, tick } from "pintle";

const ERRAND = "example.com/v1/Errand";
const POD = "v1/Pod";

const ERRANDS = "errands";
const ROUNDS = "rounds";

/** Something to do once. */
interface Errand {
  metadata: { namespace: string; name: string; uid: string };
  spec?: { do?: string; of?: string; until?: string };
  status?: { answer?: string };
}

/** What is known of a Pod. */
interface Pod {
  metadata: { name: string; uid: string };
  spec?: { nodeName?: string };
}

/** What the operator has set. */
interface Config {
  greeting: string;
}

/** What an errand wants besides its answer. There is no answer yet if it is `undefined`. */
interface Done {
  outcome: Outcome;
  answer: string | undefined;
}

/** Says what one errand wants, or, for the tick of the rounds, which errands run. */
export function reconcile(key: Key, lister: Lister): Outcome | undefined {
  if (key.queue === ROUNDS) {
    return rounds(lister);
  }
  const errand = lister.get<Errand>(ERRAND, key.namespace, key.name);
  if (errand === undefined) {
    return undefined;
  }
  const { outcome, answer } = run(errand, lister);
  outcome.runLabel("do", errand.spec?.do ?? "");
  if (answer === undefined || answer === errand.status?.answer) {
    return outcome;
  }
  const { namespace, name, uid } = errand.metadata;
  const patch = Mutation.patch(ERRAND, namespace, name, "merge", { status: { answer } }, { subresource: "status", uid });
  return outcome.step(Step.sequential([patch], { always: true }));
}

/** Every errand again. */
function rounds(lister: Lister): Outcome {
  const outcome = new Outcome().observe("errand_controller_rounds_total", [], 1);
  for (const { metadata } of lister.list<Errand>(ERRAND)) {
    outcome.wake(errandKey(metadata.namespace, metadata.name));
  }
  return outcome;
}

function run({ metadata: { namespace, name }, spec }: Errand, lister: Lister): Done {
  const { do: what = "", of = "", until = "" } = spec ?? {};
  const outcome = new Outcome();
  switch (what) {
    case "wake":
      outcome.wake(errandKey(namespace, of)).wake(tick(ROUNDS), 1500);
      return { outcome, answer: "woken" };
    case "crowd":
      for (let i = 0; i <= 10_000; i += 1) {
        outcome.wake(errandKey(namespace, `e${i}`));
      }
      return { outcome, answer: "woken" };
    case "later": {
      if (!isTime(until)) {
        throw new Terminal("spec.until is not a time");
      }
      // A time that has come is 0 ms away.
      const later = new Outcome().requeueAt(until, lister.now());
      return later.requeueAfterMs === 0 ? { outcome, answer: "due" } : { outcome: later, answer: undefined };
    }
    case "uptime": {
      const [kept, now] = [`since/${namespace}/${name}`, Math.floor(lister.uptime())];
      const since = lister.state(kept);
      return since === undefined
        ? { outcome: outcome.keep(kept, String(now)), answer: "started" }
        : { outcome, answer: `${now - Number(since)} s` };
    }
    case "count":
      return count(namespace, of, lister);
    case "greet":
      return { outcome, answer: greet(of, lister) };
    case "fail":
      return { outcome: outcome.fail(new Retry("out of order", 5000)), answer: greet(of, lister) };
    case "kinds": {
      const found = lister.resourcesOf("apps", "Deployment");
      return { outcome, answer: found.map(({ plural, kind }) => `${plural}.${kind.version}`).join(",") };
    }
    case "tally": {
      const pods = lister.count(POD, { namespace });
      return { outcome: outcome.observe("errand_controller_pods", [namespace], pods), answer: String(pods) };
    }
    default:
      return { outcome, answer: ask(what, { namespace, of, until }, lister) };
  }
}

/** Greets with the word that the operator has set. */
function greet(name: string, lister: Lister): string {
  return `${lister.config<Config>().greeting}, ${name}`;
}

/** Deletes a Pod, and counts what becomes of that. */
function count(namespace: string, name: string, lister: Lister): Done {
  const pod = lister.get<Pod>(POD, namespace, name);
  const outcome = new Outcome();
  if (pod === undefined) {
    return { outcome, answer: "absent" };
  }
  outcome.step(Step.sequential([Mutation.delete(POD, namespace, name, { uid: pod.metadata.uid })]));
  const deletion = outcome.lastPlace();
  outcome
    .observe("errand_controller_deletions_total", ["deleted"], 1, { done: deletion })
    .observe("errand_controller_deletions_total", ["kept"], 1, { failed: deletion });
  return { outcome, answer: "tried" };
}

/** What errands ask, and what is read from the answers. */
function ask(what: string, { namespace, of, until }: Record<"namespace" | "of" | "until", string>, lister: Lister): string {
  /** A refusal is an answer too. */
  const answer = (need: Need, read: (text: string) => string): string => {
    const found = lister.ask(need);
    return found.ok ? read(found.text) : `refused: ${found.error.reason}`;
  };
  switch (what) {
    case "scale": {
      const need = Need.liveObject("apps/v1/Deployment", namespace, of, { subresource: "scale" });
      // The API server leaves out zero.
      return answer(need, (text) => String(JSON.parse(text).spec?.replicas ?? 0));
    }
    case "pods": {
      const need = Need.liveList(POD, { namespace, fieldSelector: `spec.nodeName=${of}`, detail: "projection", limit: 10 });
      return answer(need, (text) => {
        const pods: Pod[] = JSON.parse(text);
        return pods.map((pod) => `${pod.metadata.name} on ${pod.spec?.nodeName ?? ""}`).join(", ");
      });
    }
    case "secrets": {
      const need = Need.liveList("v1/Secret", { namespace, detail: "whole", limit: 10 });
      return answer(need, (text) => String(JSON.parse(text).length));
    }
    case "review": {
      const resourceAttributes = { namespace, verb: "get", resource: "pods" };
      const need = Need.review("authorization.k8s.io/v1/SubjectAccessReview", "", { spec: { user: of, resourceAttributes } });
      return answer(need, (text) => (JSON.parse(text).status.allowed === true ? "allowed" : "denied"));
    }
    case "token":
      return answer(Need.signJwt("key", { sub: of }), (token) => token);
    case "certificate": {
      const validity = { notBefore: lister.now(), notAfter: until };
      const need = Need.signCertificate({ authority: "authority", request: of, usages: ["client auth"], ...validity });
      return answer(need, (certificate) => certificate);
    }
    case "call":
      return answer(Need.call("desk", "look-up", { name: of }, { timeoutMs: 10000 }), (text) => {
        const place: unknown = JSON.parse(text)?.place;
        return typeof place === "string" ? place : "";
      });
    default:
      throw new Terminal(`nothing is called ${what}`);
  }
}

/** The key of an errand. */
function errandKey(namespace: string, name: string): KeyLike {
  return { queue: ERRANDS, kind: ERRAND, namespace, name };
}
