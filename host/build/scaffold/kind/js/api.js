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
    text: Type.String({ description: "Text of the ConfigMap." }),
  },
  { description: "The desired state." },
);

/**
 * What the controller has found.
 * @typedef {import("typebox").Static<typeof {{Kind}}Status>} {{Kind}}StatusType
 */
export const {{Kind}}Status = Type.Object(
  {
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
