// The types of the kind {{Kind}}. `pintle crds` makes crds/ of the values; the controller imports the types only, so that TypeBox is not
// in the component.
import { conditions } from "pintle/crds";
import Type from "typebox";

/**
 * The desired state.
 * @typedef {import("typebox").Static<typeof {{Kind}}Spec>} {{Kind}}SpecType
 */
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

/**
 * What the controller has found.
 * @typedef {import("typebox").Static<typeof {{Kind}}Status>} {{Kind}}StatusType
 */
export const {{Kind}}Status = Type.Object(
  {
    members: Type.Optional(Type.Integer({ format: "int32", description: "Number of members." })),
    observedGeneration: Type.Optional(
      Type.Integer({ format: "int64", description: "Generation of the spec that the status is about." }),
    ),
    conditions: Type.Optional(Type.Unsafe(conditions("Ready is the only condition."))),
  },
  { description: "What the controller has found." },
);

/**
 * A {{Kind}} as the controller reads it.
 * @typedef {import("pintle").KubernetesObject & {spec: {{Kind}}SpecType, status?: {{Kind}}StatusType}} {{Kind}}
 */
