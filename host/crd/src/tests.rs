//! Objects rejected by a schema, with the messages of kube-apiserver. `tests/src/kubectl/script.txt` has the same on
//! the real one.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn check(schema: Value, object: Value, expected: Expect) {
    changed(schema, None, object, expected);
}

/// The problems of `spec` under a schema for it.
fn changed(schema: Value, old: Option<Value>, object: Value, expected: Expect) {
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    let whole =
        |spec: Value| json!({"apiVersion": "example.org/v1", "kind": "Team", "metadata": {"name": "a"}, "spec": spec});
    let problems = Schema::compile(&schema).unwrap().check(&whole(object), old.map(whole).as_ref());
    let lines = problems.iter().map(|one| format!("{} {}: {}", one.reason, one.field, one.message));
    expected.assert_eq(&lines.collect::<Vec<_>>().join("\n"));
}

fn properties(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[test]
fn what_fits_is_accepted() {
    let schema = json!({
        "type": "object", "required": ["name"], "maxProperties": 5,
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "port": {"x-kubernetes-int-or-string": true},
            "mode": {"type": "string", "enum": ["a", "b"], "nullable": true},
            "cidr": {"type": "string", "format": "cidr"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    });
    for port in [json!(80), json!("http")] {
        let object = json!({"name": "abc", "port": port, "mode": null, "cidr": "10.0.0.0/8", "labels": {"0": "a"}});
        check(schema.clone(), object, expect![""]);
    }
}

#[test]
fn each_keyword_is_checked() {
    let one = |schema: Value, value: Value, expected: Expect| {
        check(properties(json!({"a": schema})), json!({"a": value}), expected)
    };
    one(
        json!({"type": "string", "pattern": "^[a-z]+$"}),
        json!("UPPER"),
        expect![[r#"FieldValueInvalid spec.a: Invalid value: "UPPER": spec.a in body should match '^[a-z]+$'"#]],
    );
    one(
        json!({"type": "integer"}),
        json!("1"),
        expect![[
            r#"FieldValueTypeInvalid spec.a: Invalid value: "string": spec.a in body must be of type integer: "string""#
        ]],
    );
    one(
        json!({"x-kubernetes-int-or-string": true}),
        json!(true),
        expect![[
            r#"FieldValueTypeInvalid spec.a: Invalid value: "boolean": spec.a in body must be of type integer,string: "boolean""#
        ]],
    );
    one(
        json!({"type": "string"}),
        Value::Null,
        expect![[
            r#"FieldValueTypeInvalid spec.a: Invalid value: "null": spec.a in body must be of type string: "null""#
        ]],
    );
    one(
        json!({"type": "string", "enum": ["x", "y"], "nullable": true}),
        json!("z"),
        expect![[r#"FieldValueNotSupported spec.a: Unsupported value: "z": supported values: "x", "y""#]],
    );
    one(
        json!({"type": "string", "minLength": 2}),
        json!("ä"),
        expect![[r#"FieldValueInvalid spec.a: Invalid value: "ä": spec.a in body should be at least 2 chars long"#]],
    );
    one(
        json!({"type": "string", "maxLength": 1}),
        json!("xy"),
        expect!["FieldValueTooLong spec.a: Too long: may not be more than 1 byte"],
    );
    one(
        json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
        json!(1),
        expect!["FieldValueInvalid spec.a: Invalid value: 1: spec.a in body should be greater than 1"],
    );
    one(
        json!({"type": "number", "maximum": 2.5}),
        json!(3),
        expect!["FieldValueInvalid spec.a: Invalid value: 3: spec.a in body should be less than or equal to 2.5"],
    );
    one(
        json!({"type": "integer", "multipleOf": 5}),
        json!(7),
        expect!["FieldValueInvalid spec.a: Invalid value: 7: spec.a in body should be a multiple of 5"],
    );
    one(
        json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
        json!(["x", "y"]),
        expect!["FieldValueTooMany spec.a: Too many: 2: must have at most 1 item"],
    );
    one(
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        json!([]),
        expect!["FieldValueInvalid spec.a: Invalid value: 0: spec.a in body should have at least 1 items"],
    );
    one(
        json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1}),
        json!({"x": "", "y": ""}),
        expect!["FieldValueTooMany spec.a: Too many: 2: must have at most 1 item"],
    );
    one(
        json!({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1}),
        json!({}),
        expect!["FieldValueInvalid spec.a: Invalid value: 0: spec.a in body should have at least 1 properties"],
    );
    one(
        json!({"type": "object", "required": ["b"]}),
        json!({}),
        expect!["FieldValueRequired spec.a.b: Required value"],
    );
    one(
        json!({"type": "string", "format": "date-time"}),
        json!("now"),
        expect![[
            r#"FieldValueTypeInvalid spec.a: Invalid value: "now": spec.a in body must be of type date-time: "now""#
        ]],
    );
    one(
        json!({"type": "string", "format": "cidr"}),
        json!("10.0.0.0"),
        expect![[
            r#"FieldValueTypeInvalid spec.a: Invalid value: "10.0.0.0": spec.a in body must be of type cidr: "10.0.0.0""#
        ]],
    );
    one(json!({"type": "string", "format": "nobodys"}), json!("x"), expect![""]);
    one(
        json!({"type": "string", "not": {"enum": ["x"]}}),
        json!("x"),
        expect![[r#"FieldValueInvalid <nil>: Invalid value: "": "spec.a" must not validate the schema (not)"#]],
    );
}

#[test]
fn combinations_report_the_closest_alternative() {
    let schema = |keyword: &str| {
        let alternatives = json!([{"required": ["x"]}, {"required": ["y"], "properties": {"y": {"minimum": 5}}}]);
        let properties = json!({"x": {"type": "integer"}, "y": {"type": "integer"}});
        json!({"type": "object", "properties": properties, keyword: alternatives})
    };
    check(
        schema("anyOf"),
        json!({}),
        expect![[r#"
            FieldValueInvalid <nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)
            FieldValueRequired spec.x: Required value"#]],
    );
    check(
        schema("oneOf"),
        json!({"x": 1, "y": 9}),
        expect![[
            r#"FieldValueInvalid <nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]],
    );
    check(
        schema("oneOf"),
        json!({}),
        expect![[r#"
            FieldValueInvalid <nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid
            FieldValueRequired spec.x: Required value"#]],
    );
}

#[test]
fn items_and_values_are_named_by_their_place() {
    let item = json!({"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}});
    let schema = properties(
        json!({"list": {"type": "array", "items": item}, "map": {"type": "object", "additionalProperties": item}}),
    );
    let object = json!({"list": [{"name": "a"}, {"name": "b"}], "map": {"0": {"name": "b"}, "x/y": {"name": "c"}}});
    check(
        schema,
        object,
        expect![[r#"
        FieldValueInvalid spec.list[1].name: Invalid value: "b": spec.list[1].name in body should match '^a'
        FieldValueInvalid spec.map.0.name: Invalid value: "b": spec.map.0.name in body should match '^a'
        FieldValueInvalid spec.map.x/y.name: Invalid value: "c": spec.map.x/y.name in body should match '^a'"#]],
    );
}

#[test]
fn lists_of_sets_and_maps_have_no_duplicates() {
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}}});
    let schema = properties(json!({
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]},
        "any": {"type": "array", "items": {"type": "string"}},
    }));
    let object = json!({
        "set": ["a", "b", "a"], "any": ["a", "a"],
        "map": [{"name": "a"}, {"name": "a", "port": 81}, {"name": "a", "port": 80}],
    });
    check(
        schema.clone(),
        object.clone(),
        expect![[r#"
        FieldValueDuplicate spec.set[2]: Duplicate value: "a"
        FieldValueDuplicate spec.map[2]: Duplicate value: {"name":"a","port":80}"#]],
    );
    // Existing duplicates may stay.
    changed(schema, Some(object.clone()), object, expect![""]);
}

#[test]
fn rules_hold_once_the_structure_is_right() {
    let rules = json!([
        {"rule": "self.min <= self.max", "message": "min exceeds max"},
        {"rule": "self.max < 100", "messageExpression": "'max is ' + string(self.max)", "reason": "FieldValueForbidden", "fieldPath": ".max"},
        {"rule": "!has(self.name) || self.name.startsWith('team-')"},
    ]);
    let name =
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]});
    let mut schema = properties(json!({"min": {"type": "integer"}, "max": {"type": "integer"}, "name": name}));
    schema["x-kubernetes-validations"] = rules;
    schema["required"] = json!(["min", "max"]);
    let check = |object: Value, expected: Expect| check(schema.clone(), object, expected);
    check(json!({"min": 1, "max": 2, "name": "team-a"}), expect![""]);
    check(
        json!({"min": 200, "max": 150, "name": "a"}),
        expect![[r#"
        FieldValueInvalid spec: Invalid value: min exceeds max
        FieldValueForbidden spec.max: Forbidden: max is 150
        FieldValueInvalid spec: Invalid value: failed rule: !has(self.name) || self.name.startsWith('team-')"#]],
    );
    check(
        json!({"min": 5}),
        expect![[r#"
        FieldValueRequired spec.max: Required value
        FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"#]],
    );
    let old = json!({"min": 3, "max": 2, "name": "team-a"});
    changed(
        schema.clone(),
        Some(old.clone()),
        json!({"min": 3, "max": 2, "name": "team-b"}),
        expect![[r#"
        FieldValueInvalid spec: Invalid value: min exceeds max
        FieldValueInvalid spec.name: Invalid value: "team-b": is immutable"#]],
    );
    changed(schema.clone(), Some(old.clone()), old, expect![""]);
}

#[test]
fn what_was_wrong_may_stay_as_it_is() {
    let text = json!({"type": "string", "pattern": "^x"});
    let schema = properties(json!({"a": text, "b": text, "c": {"type": "string", "not": text}}));
    let old = json!({"a": "y", "b": "y", "c": "x"});
    changed(
        schema,
        Some(old),
        json!({"a": "y", "b": "z", "c": "x"}),
        expect![[r#"FieldValueInvalid spec.b: Invalid value: "z": spec.b in body should match '^x'"#]],
    );
}

#[test]
fn schemas_that_cannot_be_checked_are_refused() {
    let why = |spec: Value| {
        let problems = Schema::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap_err();
        problems.iter().map(|one| format!("{}: {}", one.field, one.message)).collect::<Vec<_>>().join("\n")
    };
    expect![[r#"properties[spec].pattern: Invalid value: "[": "[" is not a "regex""#]]
        .assert_eq(&why(json!({"type": "string", "pattern": "["})));
    expect![[r#"
        properties[spec].x-kubernetes-validations: Invalid value: compilation failed: failed to compile CEL rule "self ==": ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
        | self ==
        | .......^"#]].assert_eq(&why(json!({"type": "string", "x-kubernetes-validations": [{"rule": "self =="}]})));
    expect![": Invalid value: null: Resource 'https://example.org/schema.json' is not present in a registry and retrieving it failed: `resolve-http` feature or a custom resolver is required to resolve external schemas via HTTP"].assert_eq(&why(json!({"$ref": "https://example.org/schema.json"})));
}
