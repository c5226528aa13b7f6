//! The first value of an object that does not fit its Go type.

use serde_json::Value;

use super::name;
use crate::schema::{Node, Scalar, Shape, TypeRef, builtin};

/// What Go's decoder says of an object of a built-in kind, none when it decodes.
///
/// A field whose Go type is a text with a name of its own (`v1.RestartPolicy`) is called a `string`: the schema does not know
/// such names.
pub fn type_error(schema: &TypeRef, object: &Value) -> Option<String> {
    let mut walk = Walk { first: None, fields: Vec::new() };
    // An error of a type that decodes itself ends the decoding; any other lets it go on, and the first one is told.
    let ended = walk.visit(Node::Struct(schema), object, &schema.name).err();
    walk.first.or(ended)
}

struct Walk {
    first: Option<String>,
    fields: Vec<String>,
}

/// The end of a type's short name, as reflection shows it: `v1.PodSpec` of `core.v1.PodSpec`.
fn go_struct(short: &str) -> String {
    let mut parts: Vec<&str> = short.rsplit('.').take(2).collect();
    parts.reverse();
    parts.join(".")
}

fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::Scalar(scalar) => match scalar {
            Scalar::String => "string",
            Scalar::Time => "v1.Time",
            Scalar::MicroTime => "v1.MicroTime",
            Scalar::Bytes => "[]uint8",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Number => "float64",
            Scalar::Bool => "bool",
            Scalar::IntOrString => "intstr.IntOrString",
            Scalar::Quantity => "resource.Quantity",
        }
        .to_owned(),
        Shape::Any => "interface {}".to_owned(),
        Shape::Builtin(index) => go_struct(&builtin().types[*index].name),
        Shape::Struct(schema) => go_struct(&schema.name),
        Shape::Map { value, .. } => format!("map[string]{}", go_type(value)),
        Shape::List { item, .. } => format!("[]{}", go_type(item)),
    }
}

impl Walk {
    /// The place in the words of the decoder: the innermost struct and the fields from the root.
    fn place(&self, owner: &str) -> String {
        if self.fields.is_empty() {
            return "Go value".to_owned();
        }
        let owner = owner.rsplit('.').next().unwrap_or(owner);
        format!("Go struct field {owner}.{}", self.fields.join("."))
    }

    fn mismatch(&mut self, value: &str, owner: &str, wanted: &str) {
        if self.first.is_none() {
            self.first = Some(format!("json: cannot unmarshal {value} into {} of type {wanted}", self.place(owner)));
        }
    }

    /// `owner` is the innermost struct. The error is what a type that decodes itself says.
    fn visit(&mut self, node: Node<'_>, value: &Value, owner: &str) -> Result<(), String> {
        match (node, value) {
            (_, Value::Null) | (Node::Unknown | Node::Shape(Shape::Any), _) => Ok(()),
            (Node::Struct(schema), Value::Object(map)) => {
                for (field, child) in map {
                    let Some(declared) = schema.fields.get(field) else { continue };
                    self.fields.push(field.clone());
                    let done = self.visit_shape(&declared.shape, child, &schema.name);
                    self.fields.pop();
                    done?;
                }
                Ok(())
            }
            (Node::Shape(Shape::Map { value: shape, .. }), Value::Object(map)) => {
                map.values().try_for_each(|child| self.visit_shape(shape, child, owner))
            }
            (Node::Shape(Shape::List { item, .. }), Value::Array(items)) => {
                items.iter().try_for_each(|child| self.visit_shape(item, child, owner))
            }
            (Node::Struct(schema), other) => {
                self.mismatch(name(other), owner, &go_struct(&schema.name));
                Ok(())
            }
            (Node::Shape(Shape::Scalar(scalar)), value) => self.scalar(*scalar, value, owner),
            (Node::Shape(shape), other) => {
                self.mismatch(name(other), owner, &go_type(shape));
                Ok(())
            }
        }
    }

    fn visit_shape(&mut self, shape: &Shape, value: &Value, owner: &str) -> Result<(), String> {
        self.visit(Node::of(shape), value, owner)
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value, owner: &str) -> Result<(), String> {
        // These types decode themselves from a text or a number.
        let own = |walk: &Self, wanted: &str| {
            Err(format!("json: cannot unmarshal {} into {} of type {wanted}", name(value), walk.place(owner)))
        };
        let fits = match scalar {
            Scalar::String | Scalar::Bytes => value.is_string(),
            Scalar::Bool => value.is_boolean(),
            Scalar::Number => value.is_number(),
            Scalar::Int32 | Scalar::Int64 => {
                let number = value.as_i64();
                let fits = number.is_some_and(|n| scalar == Scalar::Int64 || i32::try_from(n).is_ok());
                if value.is_number() && !fits {
                    self.mismatch(&format!("number {value}"), owner, &go_type(&Shape::Scalar(scalar)));
                    return Ok(());
                }
                fits
            }
            Scalar::Time | Scalar::MicroTime => {
                let Some(text) = value.as_str() else { return own(self, "string") };
                let layout = match scalar {
                    Scalar::Time => "2006-01-02T15:04:05Z07:00",
                    _ => "2006-01-02T15:04:05.000000Z07:00",
                };
                return time_error(text, layout).map_or(Ok(()), Err);
            }
            Scalar::IntOrString => {
                let integer = value.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
                return match value {
                    Value::String(_) => Ok(()),
                    _ if integer => Ok(()),
                    Value::Number(_) => {
                        Err(format!("json: cannot unmarshal number {value} into {} of type int32", self.place(owner)))
                    }
                    _ => own(self, "int32"),
                };
            }
            Scalar::Quantity => {
                return if is_quantity(value) { Ok(()) } else { Err(QUANTITY.to_owned()) };
            }
        };
        if !fits {
            self.mismatch(name(value), owner, &go_type(&Shape::Scalar(scalar)));
        }
        Ok(())
    }
}

/// What is said of a text that is no quantity.
pub(super) const QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

pub(super) fn is_quantity(value: &Value) -> bool {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return false,
    };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let n_digits = digits.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(n_digits);
    let exponent = |rest: &str| {
        let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
    };
    let known = matches!(
        suffix,
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"
    );
    let plain = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() <= 1;
    plain && (known || suffix.strip_prefix(['e', 'E']).is_some_and(exponent))
}

/// What Go's parser says of a text that is no time.
pub(super) fn time_error(text: &str, layout: &str) -> Option<String> {
    if text.parse::<jiff::Timestamp>().is_ok() {
        return None;
    }
    // The parser names the first part of the layout that the text does not have.
    let parts = [("2006", 4, "-"), ("01", 2, "-"), ("02", 2, "T"), ("15", 2, ":"), ("04", 2, ":"), ("05", 2, "")];
    let mut rest = text;
    for (part, length, after) in parts {
        let digits = rest.get(..length).filter(|found| found.bytes().all(|byte| byte.is_ascii_digit()));
        if digits.is_none() {
            return Some(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}"));
        }
        rest = &rest[length..];
        match rest.strip_prefix(after) {
            Some(behind) => rest = behind,
            None => return Some(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {after:?}")),
        }
    }
    Some(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as \"Z07:00\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::lookup;

    fn deployment(object: Value) -> Option<String> {
        type_error(&lookup("apps", "v1", "Deployment").unwrap(), &object)
    }

    #[test]
    fn the_first_mismatch_is_told_with_its_place() {
        for (object, wanted) in [
            (
                json!({"spec": {"replicas": "many", "paused": 1}}),
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"metadata": {"labels": []}}),
                "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
            ),
            (
                json!({"spec": 1}),
                "json: cannot unmarshal number into Go struct field Deployment.spec of type v1.DeploymentSpec",
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": {"name": "a"}}}}}),
                "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
            ),
            (
                json!({"spec": {"replicas": 1.5}}),
                "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                json!({"metadata": {"creationTimestamp": "yesterday"}}),
                r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
            ),
            (
                json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": true}}}}),
                "json: cannot unmarshal bool into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
            ),
        ] {
            assert_eq!(deployment(object).as_deref(), Some(wanted));
        }
        assert_eq!(
            deployment(json!({"spec": {"replicas": null, "strategy": {"rollingUpdate": {"maxSurge": "5%"}}}})),
            None
        );
    }

    #[test]
    fn quantities_are_numbers_with_a_suffix() {
        let pod = |cpu: Value| {
            let object = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": cpu}}}]}});
            type_error(&lookup("", "v1", "Pod").unwrap(), &object)
        };
        for fine in [json!("100m"), json!(2), json!("1.5Gi"), json!("1e3"), json!(0.5), json!("-1")] {
            assert_eq!(pod(fine), None);
        }
        for wrong in [json!("x"), json!(""), json!("1Zi"), json!(true), json!("1.2.3")] {
            assert_eq!(pod(wrong).as_deref(), Some(QUANTITY));
        }
    }
}
