//! Custom objects against their `openAPIV3Schema`.
//!
//! *Not here*: patterns, formats, combinators and CEL rules; a definition may have them, and they are not checked.
//! *Source*: the messages of `k8s.io/kube-openapi/pkg/validation`.

use serde_json::Value;

use crate::cause::Cause;
use crate::schema::type_name;

/// What is wrong with an object.
pub(crate) fn causes(schema: &Value, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in
            properties.iter().filter(|(name, _)| !matches!(name.as_str(), "metadata" | "apiVersion" | "kind"))
        {
            if let Some(value) = object.get(name) {
                check(property, value, name, &mut causes);
            }
        }
    }
    required(schema, object, "", &mut causes);
    causes
}

fn required(schema: &Value, object: &Value, path: &str, causes: &mut Vec<Cause>) {
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if object.get(name).is_none() {
            let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            causes.push(Cause::required(field));
        }
    }
}

fn check(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    let found = type_name(value);
    let int_or_string = schema["x-kubernetes-int-or-string"] == true;
    if let Some(wanted) = schema["type"].as_str().filter(|_| !int_or_string)
        && wanted != found
        && !(wanted == "number" && found == "integer")
    {
        let message = format!("Invalid value: {found:?}: {path} in body must be of type {wanted}: {found:?}");
        causes.push(Cause::new("FieldValueTypeInvalid", path, message));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let list = allowed.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {value}: supported values: {list}");
        causes.push(Cause::new("FieldValueNotSupported", path, message));
    }
    let mut bound = |name: &str, broken: &dyn Fn(f64) -> bool, text: &str| {
        if let Some(limit) = schema.get(name).and_then(Value::as_f64)
            && broken(limit)
        {
            let limit = &schema[name];
            causes.push(Cause::invalid(path, value, &format!("{path} in body should {text} {limit}")));
        }
    };
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(0.0);
            bound("minimum", &|limit| number < limit, "be greater than or equal to");
            bound("maximum", &|limit| number > limit, "be less than or equal to");
        }
        Value::String(text) => {
            let length = text.chars().count() as f64;
            bound("minLength", &|limit| length < limit, "be at least this many chars long:");
            if let Some(limit) = schema["maxLength"].as_u64().filter(|limit| length > *limit as f64) {
                let message = format!("Too long: may not be more than {limit} bytes");
                causes.push(Cause::new("FieldValueTooLong", path, message));
            }
        }
        Value::Array(items) => {
            let count = items.len() as f64;
            bound("minItems", &|limit| count < limit, "have at least this many items:");
            if let Some(limit) = schema["maxItems"].as_u64().filter(|limit| count > *limit as f64) {
                let message = format!("Too many: {}: must have at most {limit} items", items.len());
                causes.push(Cause::new("FieldValueTooMany", path, message));
            }
            if let Some(every) = schema.get("items") {
                for (n, item) in items.iter().enumerate() {
                    check(every, item, &format!("{path}[{n}]"), causes);
                }
            }
        }
        Value::Object(fields) => {
            required(schema, value, path, causes);
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, field) in fields {
                let inner = properties
                    .and_then(|properties| properties.get(name))
                    .or_else(|| schema.get("additionalProperties"));
                if let Some(inner) = inner.filter(|inner| inner.is_object()) {
                    check(inner, field, &format!("{path}.{name}"), causes);
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}
