// Label selectors, as the host matches them.

/**
 * @typedef {object} Requirement
 * @property {string} key
 * @property {"In" | "NotIn" | "Exists" | "DoesNotExist"} operator
 * @property {string[]} values
 */

/**
 * Parses kubectl's syntax: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
 * @param {string} text
 * @returns {Requirement[]}
 * @throws {Error} If it does not parse.
 */
export function parseSelector(text) {
  // A comma inside parentheses separates values, not requirements.
  const parts = text.trim() === "" ? [] : text.split(/,(?![^(]*\))/);
  return parts.map((part) => {
    const requirement = parseRequirement(part.trim());
    if (requirement === undefined || !/^[^\s()!=,<>]+$/.test(requirement.key)) {
      throw new Error(`label selector ${JSON.stringify(text)} does not parse`);
    }
    return requirement;
  });
}

/**
 * @param {string} text
 * @returns {Requirement | undefined}
 */
function parseRequirement(text) {
  if (text.startsWith("!")) {
    return { key: text.slice(1).trim(), operator: "DoesNotExist", values: [] };
  }
  const set = /^(.*?)\s+(in|notin)\s*\(([^()]*)\)$/.exec(text);
  if (set) {
    const [, key = "", operator, values = ""] = set;
    return { key: key.trim(), operator: operator === "in" ? "In" : "NotIn", values: values.split(",").map((value) => value.trim()) };
  }
  const [, key = "", sign, value = ""] = /^([^=!]*)(!=|==|=)?(.*)$/s.exec(text) ?? [];
  if (sign === undefined) {
    return value === "" ? { key: key.trim(), operator: "Exists", values: [] } : undefined;
  }
  return { key: key.trim(), operator: sign === "!=" ? "NotIn" : "In", values: [value.trim()] };
}

/**
 * The selector of an object's spec (`matchLabels`, `matchExpressions`); `undefined` if an expression makes no sense.
 * @param {any} selector
 * @returns {Requirement[] | undefined}
 */
export function fromLabelSelector({ matchLabels, matchExpressions }) {
  const requirements = fromMap(matchLabels ?? {});
  for (const { key, operator, values = [] } of matchExpressions ?? []) {
    const takesValues = operator === "In" || operator === "NotIn";
    if ((!takesValues && operator !== "Exists" && operator !== "DoesNotExist") || takesValues === (values.length === 0)) {
      return undefined;
    }
    requirements.push({ key, operator, values });
  }
  return requirements;
}

/**
 * @param {Record<string, string>} labels
 * @returns {Requirement[]}
 */
export function fromMap(labels) {
  return Object.entries(labels).map(([key, value]) => ({ key, operator: "In", values: [value] }));
}

/**
 * @param {readonly Requirement[]} requirements
 * @param {Record<string, string>} labels
 * @returns {boolean}
 */
export function selects(requirements, labels) {
  return requirements.every(({ key, operator, values }) => {
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
    switch (operator) {
      case "In":
        return value !== undefined && values.includes(value);
      case "NotIn":
        return value === undefined || !values.includes(value);
      case "Exists":
        return value !== undefined;
      default:
        return value === undefined;
    }
  });
}
