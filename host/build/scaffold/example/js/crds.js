// Prints the definitions of the kinds in api.js. `pintle crds` runs it, and writes what it prints to crds/.
import { definition, print } from "pintle/crds";

import { {{Kind}}Spec, {{Kind}}Status } from "./api.js";

print(
  definition("{{apiKind}}", {
    plural: "{{plural}}",
    scope: "{{scope}}",
    categories: ["all"],
    description: "{{Kind}} has members, which a ConfigMap lists.",
    columns: [
      { name: "Members", type: "integer", jsonPath: ".status.members" },
      { name: "Ready", type: "string", jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
      { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
    ],
    spec: {{Kind}}Spec,
    status: {{Kind}}Status,
  }),
);
