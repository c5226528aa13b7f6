// The types of the kind {{Kind}}. `pintle crds` makes crds/ of the values; the controller imports the types only, so that TypeBox is not
// in the component.
import type { Condition, KubernetesObject } from "pintle";
import { conditions } from "pintle/crds";
import Type, { type Static } from "typebox";

/** The desired state. */
export const {{Kind}}Spec = Type.Object(
  {
    members: Type.Array(Type.String({ maxLength: 63, pattern: "^[a-z]([-a-z0-9]*[a-z0-9])?$" }), {
      minItems: 1,
      "x-kubernetes-list-type": "set",
      description: "Names of the members.",
    }),
    lead: Type.Optional(Type.String({ description: "Member that leads, if any." })),
    format: Type.Optional(
      Type.Enum(["Lines", "Commas"], { default: "Lines", description: "How the ConfigMap lists the members." }),
    ),
  },
  { description: "The desired state." },
);
export type {{Kind}}Spec = Static<typeof {{Kind}}Spec>;

/** What the controller has found. */
export const {{Kind}}Status = Type.Object(
  {
    members: Type.Optional(Type.Integer({ format: "int32", description: "Number of members." })),
    observedGeneration: Type.Optional(
      Type.Integer({ format: "int64", description: "Generation of the spec that the status is about." }),
    ),
    conditions: Type.Optional(Type.Unsafe<Condition[]>(conditions("Ready is the only condition."))),
  },
  { description: "What the controller has found." },
);
export type {{Kind}}Status = Static<typeof {{Kind}}Status>;

/** A {{Kind}} as the controller reads it. */
export interface {{Kind}} extends KubernetesObject {
  spec: {{Kind}}Spec;
  status?: {{Kind}}Status;
}
