import assert from "node:assert/strict";
import { test } from "node:test";

import { conditions, definition } from "pintle/crds";

test("a definition has the names, columns and schemas that it is given", () => {
  const spec = { type: "object", required: ["names"], properties: { names: { type: "array", items: { type: "string" } } } };
  const columns = [{ name: "Size", type: /** @type {const} */ ("integer"), jsonPath: ".status.size" }];
  const status = { type: "object", properties: { conditions: conditions("All.") } };
  const made = /** @type {any} */ (
    definition("example.org/v1/Person", { plural: "people", shortNames: ["p"], categories: ["all"], columns, spec, status })
  );
  assert.deepEqual(made.metadata, { name: "people.example.org" });
  assert.equal(made.spec.scope, "Namespaced");
  assert.deepEqual(made.spec.names, {
    kind: "Person",
    listKind: "PersonList",
    plural: "people",
    singular: "person",
    shortNames: ["p"],
    categories: ["all"],
  });
  const [version] = made.spec.versions;
  assert.deepEqual([version.name, version.served, version.storage], ["v1", true, true]);
  assert.deepEqual(version.subresources, { status: {} });
  assert.deepEqual(version.additionalPrinterColumns, columns);
  const root = version.schema.openAPIV3Schema;
  assert.deepEqual([root.required, root.properties.spec], [["spec"], spec]);
  const list = root.properties.status.properties.conditions;
  assert.deepEqual([list.description, list["x-kubernetes-list-map-keys"]], ["All.", ["type"]]);
});

test("a definition without a status has no subresource, and its spec may be absent", () => {
  const made = /** @type {any} */ (definition("example.org/v1/Team", { scope: "Cluster", spec: { type: "object" } }));
  assert.equal(made.metadata.name, "teams.example.org");
  const [version] = made.spec.versions;
  assert.equal(version.subresources, undefined);
  assert.equal(version.schema.openAPIV3Schema.properties.status, undefined);
  assert.deepEqual([version.schema.openAPIV3Schema.required, made.spec.scope], [[], "Cluster"]);
});
