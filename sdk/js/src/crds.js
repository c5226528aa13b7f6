// CustomResourceDefinitions from JSON Schema, for example TypeBox's. Only `pintle crds` needs this: not for components.

import { Kind } from "./kind.js";

/** @import { KindLike } from "./kind.js" */

/**
 * @typedef {object} Column A column of `kubectl get`.
 * @property {string} name
 * @property {"boolean" | "date" | "integer" | "number" | "string"} type
 * @property {string} jsonPath Where the value is, for example `.status.members`.
 * @property {string} [description]
 * @property {string} [format]
 * @property {number} [priority] More than 0: only with `-o wide`.
 */

/**
 * @typedef {object} DefinitionOptions
 * @property {object} spec JSON Schema of `spec`.
 * @property {object} [status] JSON Schema of `status`; with it, the status is a subresource.
 * @property {string} [plural] Name in URLs; by default the kind in lower case with an `s`.
 * @property {string} [singular] By default the kind in lower case.
 * @property {string[]} [shortNames]
 * @property {string[]} [categories] For example `all`, to be in `kubectl get all`.
 * @property {"Namespaced" | "Cluster"} [scope] By default `Namespaced`.
 * @property {string} [description] What the kind is.
 * @property {Column[]} [columns] Columns of `kubectl get`.
 */

/**
 * The CustomResourceDefinition of a kind, with one version. `pintle crds` makes structural schemas of those that are given.
 * @param {KindLike} kind
 * @param {DefinitionOptions} options
 * @returns {object}
 */
export function definition(kind, { spec, status, scope = "Namespaced", shortNames, categories, columns, description, ...names }) {
  const { group, version, name } = Kind.of(kind);
  const { singular = name.toLowerCase(), plural = `${name.toLowerCase()}s` } = names;
  const required = "required" in spec && Array.isArray(spec.required) && spec.required.length > 0 ? ["spec"] : [];
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope,
      names: {
        kind: name,
        listKind: `${name}List`,
        plural,
        singular,
        ...(shortNames && { shortNames }),
        ...(categories && { categories }),
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          ...(status && { subresources: { status: {} } }),
          ...(columns && { additionalPrinterColumns: columns }),
          schema: {
            openAPIV3Schema: {
              ...(description && { description }),
              type: "object",
              required,
              properties: {
                apiVersion: { type: "string" },
                kind: { type: "string" },
                metadata: { type: "object" },
                spec,
                ...(status && { status }),
              },
            },
          },
        },
      ],
    },
  };
}

/**
 * JSON Schema of a list of conditions, as `metav1.Condition` has it: one of each type.
 * @param {string} [description]
 * @returns {object}
 */
export function conditions(description) {
  return {
    ...(description && { description }),
    type: "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    items: {
      type: "object",
      required: ["lastTransitionTime", "message", "reason", "status", "type"],
      properties: {
        lastTransitionTime: { type: "string", format: "date-time" },
        message: { type: "string", maxLength: 32768 },
        observedGeneration: { type: "integer", format: "int64", minimum: 0 },
        reason: { type: "string", minLength: 1, maxLength: 1024, pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$" },
        status: { type: "string", enum: ["True", "False", "Unknown"] },
        type: {
          type: "string",
          maxLength: 316,
          pattern:
            "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
      },
    },
  };
}

/**
 * Prints definitions for `pintle crds`.
 * @param {object[]} definitions
 */
export function print(...definitions) {
  for (const one of definitions) {
    process.stdout.write(`---\n${JSON.stringify(one, null, 2)}\n`);
  }
}
