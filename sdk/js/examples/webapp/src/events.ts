// What is told of changes.

import { event, type Mutation } from "pintle";

import type { WebApp } from "./types.ts";

/** Tells what was created and deleted. An apply of what was not seen has no precondition. */
export function withEvent(app: WebApp, change: Mutation): Mutation {
  const tell = (reason: string, verb: string, name: string) => {
    const about = `${verb} ${"kind" in change ? change.kind : ""} ${name}`;
    return { ...change, onSuccess: event(app, "normal", reason, about) };
  };
  switch (change.verb) {
    case "create":
      return tell("Created", "created", (change.object as { metadata: { name: string } }).metadata.name);
    case "patch":
      return change.preconditions.uid === undefined ? tell("Created", "created", change.name) : change;
    case "delete":
      return tell("Deleted", "deleted", change.name);
    default:
      return change;
  }
}
