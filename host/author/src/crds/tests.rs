use serde_json::json;

use super::*;

/// A definition with this schema.
fn team(schema: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "teams.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"kind": "Team", "plural": "teams"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn structural(schema: Value) -> Result<Value, String> {
    structural::definition(team(schema))
        .map(|definition| definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
}

#[test]
fn json_schema_becomes_a_structural_schema() {
    let text = json!({"type": "string"});
    for (name, schema, expected) in [
        (
            "annotations go",
            json!({"type": "string", "title": "A", "$id": "a", "examples": ["b"], "~kind": "String"}),
            text.clone(),
        ),
        ("const", json!({"const": "a"}), json!({"type": "string", "enum": ["a"]})),
        ("an enumeration gets its type", json!({"enum": [1, 2]}), json!({"type": "integer", "enum": [1, 2]})),
        (
            "constants are an enumeration",
            json!({"anyOf": [{"const": "a"}, {"const": "b", "description": "B"}], "default": "a"}),
            json!({"type": "string", "enum": ["a", "b"], "default": "a"}),
        ),
        ("null is a type", json!({"type": ["string", "null"]}), json!({"type": "string", "nullable": true})),
        ("null is a choice", json!({"anyOf": [text, {"type": "null"}]}), json!({"type": "string", "nullable": true})),
        ("null is a value", json!({"enum": ["a", null]}), json!({"type": "string", "enum": ["a"], "nullable": true})),
        (
            "an integer or a text",
            json!({"anyOf": [{"type": "integer"}, text]}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            "bounds",
            json!({"type": "integer", "exclusiveMinimum": 0}),
            json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true}),
        ),
        (
            "anything",
            json!({"description": "Any."}),
            json!({"description": "Any.", "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "closed objects",
            json!({"type": "object", "properties": {"a": text}, "required": [], "additionalProperties": false}),
            json!({"type": "object", "properties": {"a": text}}),
        ),
        (
            "open objects",
            json!({"type": "object", "additionalProperties": true}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "maps",
            json!({"type": "object", "patternProperties": {"^.*$": {"const": 1}}}),
            json!({"type": "object", "additionalProperties": {"type": "integer", "enum": [1]}}),
        ),
        (
            "references",
            json!({
                "type": "object", "properties": {"a": {"$ref": "#/$defs/A", "description": "Mine."}},
                "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/B"}, "description": "A."}, "B": {"type": "string"}},
            }),
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "description": "Mine."}}}),
        ),
        (
            "references of a part",
            json!({"type": "object", "properties": {"spec": {"$ref": "#/$defs/S", "$defs": {"S": {"type": "string"}}}}}),
            json!({"type": "object", "properties": {"spec": {"type": "string"}}}),
        ),
        (
            "restrictions and extensions stay",
            json!({
                "type": "object", "properties": {"a": text, "b": text}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                "x-kubernetes-validations": [{"rule": "true"}],
            }),
            json!({
                "type": "object", "properties": {"a": text, "b": text}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                "x-kubernetes-validations": [{"rule": "true"}],
            }),
        ),
    ] {
        assert_eq!(structural(schema), Ok(expected), "{name}");
    }
}

#[test]
fn what_a_definition_cannot_express_is_an_error_with_its_place() {
    let root = "spec.versions[0].schema.openAPIV3Schema";
    for (schema, expected) in [
        (json!(false), "false is not a schema that a definition can have"),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "object"}]}),
            "a definition needs one type here, and anyOf has several",
        ),
        (json!({"type": ["string", "boolean"]}), "a definition needs one type here"),
        (
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
            "use \"x-kubernetes-list-type\": \"set\"",
        ),
        (json!({"type": "array"}), "a list in a definition needs the type of its items"),
        (json!({"type": "array", "items": [{"type": "string"}]}), "a list in a definition has items of one type"),
        (
            json!({"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}}),
            "either named fields or a map",
        ),
        (json!({"type": "object", "patternProperties": {"^a": {}}}), "names of fields cannot have patterns"),
        (json!({"type": "string", "if": {}}), "a definition cannot have the keyword if"),
        (json!({"minLength": 1}), "a definition needs a type here"),
        (json!({"enum": [1, "a"]}), "the values of an enumeration have one type"),
        (json!({"$ref": "#/$defs/A"}), "there is no schema #/$defs/A"),
    ] {
        let problem = structural(schema.clone()).unwrap_err();
        assert!(problem.starts_with(root) && problem.contains(expected), "{schema}: {problem}");
    }
    let nested =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "array"}}}}});
    let place = format!("{root}.properties.spec.properties.a: ");
    assert!(structural(nested).unwrap_err().starts_with(&place));
    let endless =
        json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}}});
    assert!(structural(endless).unwrap_err().contains("the type contains itself"));
    let circle = json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}});
    assert!(structural(circle).unwrap_err().contains("the type contains itself"));
}

/// The definitions of types, in a folder.
fn definitions(folder: &Path, objects: &[Value]) -> Definitions {
    let all = objects.iter().map(|object| Definition::new(object.clone()).unwrap()).collect();
    Definitions { folder: folder.join("crds"), sources: "api/team.go".to_owned(), all }
}

fn spec(max_length: u32) -> Value {
    let lead = json!({"type": "string", "maxLength": max_length});
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"lead": lead}}}})
}

#[test]
fn files_are_written_once_compared_and_removed_when_no_type_defines_them() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let shown = |lines: Vec<String>| lines.join("\n").replace(&format!("{}/", folder.display()), "");
    let error = |definitions: &Definitions| {
        format!("{:#}", definitions.check(4).unwrap_err()).replace(&format!("{}/", folder.display()), "")
    };
    let before = definitions(folder, &[team(spec(63))]);
    assert_eq!(
        error(&before).replace(&folder.display().to_string(), "$DIR"),
        "crds has no definition teams.example.org, which the types in api/team.go give; run `pintle crds`"
    );
    assert_eq!(shown(before.write().unwrap()), "crds/example.org_teams.yaml: written, teams.example.org");
    before.check(4).unwrap();
    assert_eq!(shown(before.write().unwrap()), "crds/example.org_teams.yaml: unchanged");
    let file = folder.join("crds/example.org_teams.yaml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with(
            "# Generated by `pintle crds` from api/team.go. Change the types instead of this file.\n---\napiVersion: "
        ),
        "{text}"
    );

    let after = definitions(folder, &[team(spec(64))]);
    let told = error(&after);
    assert!(
        told.starts_with(
            "crds/example.org_teams.yaml: differs from the types in api/team.go at \
             spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.lead.maxLength: the file has 63, the types give 64; \
             run `pintle crds`"
        ),
        "{told}"
    );
    let drift = after.check(4).unwrap_err().context("of a test");
    let diff = &drift.downcast_ref::<Drift>().unwrap().diff;
    assert!(diff.starts_with("--- the file\n+++ the types\n") && diff.ends_with("shows all)"), "{diff}");
    assert_eq!(diff.lines().count(), 5, "{diff}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text, "a check writes nothing");
    after.write().unwrap();
    after.check(4).unwrap();

    // The author's own file stays; one written by this command does not.
    fs::write(folder.join("crds/mine.yaml"), "kind: ConfigMap\nmetadata: {name: mine}\n").unwrap();
    let other =
        json!({"spec": {"names": {"kind": "Club", "plural": "clubs"}}, "metadata": {"name": "clubs.example.org"}});
    let mut club = team(spec(1));
    club["metadata"] = other["metadata"].clone();
    club["spec"]["names"] = other["spec"]["names"].clone();
    let renamed = definitions(folder, &[club]);
    renamed.write().unwrap();
    assert!(
        !file.exists() && folder.join("crds/mine.yaml").exists() && folder.join("crds/example.org_clubs.yaml").exists()
    );
    fs::write(&file, &text).unwrap();
    assert_eq!(
        error(&renamed),
        "crds/example.org_teams.yaml: no type in api/team.go defines teams.example.org; run `pintle crds`"
    );
}

#[test]
fn a_definition_in_a_file_of_another_name_is_the_same_definition() {
    let root = tempfile::tempdir().unwrap();
    let definitions = definitions(root.path(), &[team(spec(63))]);
    fs::create_dir(root.path().join("crds")).unwrap();
    let file = root.path().join("crds/team.yaml");
    fs::write(&file, serde_norway::to_string(&team(spec(63))).unwrap()).unwrap();
    definitions.check(4).unwrap();
    definitions.write().unwrap();
    assert_eq!(fs::read_dir(root.path().join("crds")).unwrap().count(), 1);
    assert!(fs::read_to_string(&file).unwrap().starts_with(MARK));
    // A file with several objects is not overwritten.
    let two =
        format!("{}---\nkind: ConfigMap\nmetadata: {{name: a}}\n", serde_norway::to_string(&team(spec(1))).unwrap());
    fs::write(&file, two).unwrap();
    let why = definitions.write().unwrap_err().to_string();
    assert!(why.ends_with("has 2 objects: move teams.example.org to its own file first"), "{why}");
}

#[test]
fn words_that_are_values_in_old_yaml_stay_texts() {
    let values = [
        "Yes",
        "no",
        "On",
        "y",
        "True",
        "Null",
        "~",
        "1",
        "1e3",
        "0x1",
        "012",
        "1_000",
        "2026-01-01",
        "=",
        "<<",
        "1:30",
    ];
    let definition = Definition::new(team(json!({"type": "string", "enum": values}))).unwrap();
    let text = definition.text("a");
    let read = &crds::documents(&text).unwrap()[0];
    assert_eq!(read["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["enum"], json!(values));
    for value in ["Yes", "no", "On", "y", "012", "1:30", "1_000"] {
        assert!(
            text.contains(&format!("- '{value}'")) || text.contains(&format!("- \"{value}\"")),
            "{value} in {text}"
        );
    }
}

#[test]
fn a_line_of_a_description_that_looks_like_a_value_stays() {
    let description = "Limits:\n- 1_000\n- yes\n";
    let definition =
        Definition::new(team(json!({"type": "string", "description": description, "enum": ["1_000"]}))).unwrap();
    let read = &crds::documents(&definition.text("a")).unwrap()[0];
    assert_eq!(read["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"], description);
}

#[test]
fn a_definition_that_an_api_server_rejects_is_an_error() {
    let error = |object: Value| format!("{:#}", Definition::new(object).unwrap_err());
    let mut named = team(spec(1));
    named["metadata"]["name"] = json!("team.example.org");
    assert_eq!(
        error(named),
        "metadata.name is \"team.example.org\", and must be spec.names.plural and spec.group: \"teams.example.org\""
    );
    let pattern = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}});
    assert!(error(team(pattern)).starts_with("spec.versions[0].schema.openAPIV3Schema.properties[a].pattern: "));
    let mut path = team(spec(1));
    path["metadata"]["name"] = json!("../x.example.org");
    path["spec"]["names"]["plural"] = json!("../x");
    assert!(error(path).contains("is not a name"));
    assert_eq!(error(json!({"kind": "ConfigMap"})), "\"ConfigMap\" is not a CustomResourceDefinition of v1");
}

/// A plugin's folder with these files.
fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    const MANIFEST: &str = "name: web\nversion: 0.1.0\ncontract: \"0.2\"\nwatches: [{kind: v1/Pod, enqueue: [{to: self}]}]\nqueues: [{name: web}]\n";
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files.iter().chain(&[("manifest.yaml", MANIFEST)]) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn without_types_the_files_are_the_source_and_are_checked() {
    let definition = serde_norway::to_string(&team(spec(1))).unwrap();
    let wrong = definition.replace("name: teams.example.org", "name: team.example.org");
    let folder = project(&[("go.mod", ""), ("crds/team.yaml", &definition)]);
    let lines = run(folder.path(), true).unwrap();
    assert!(lines[0].ends_with("crds: 1 files, which are the source of the definitions"), "{lines:?}");
    fs::write(folder.path().join("crds/team.yaml"), &wrong).unwrap();
    let why = format!("{:#}", run(folder.path(), true).unwrap_err());
    assert!(why.contains("crds/team.yaml: metadata.name is \"team.example.org\", and must be"), "{why}");
}

#[test]
fn a_project_without_types_and_definitions_is_told_how_to_begin() {
    for (file, text, expected) in [
        ("go.mod", "", "it has no a package of types"),
        ("Cargo.toml", "", "it has no examples/crds.rs"),
        ("package.json", "{}", "it has no a script \"crds\" in package.json"),
        ("pyproject.toml", "", "it has no crds.py"),
    ] {
        let why = run(project(&[(file, text)]).path(), false).unwrap_err().to_string();
        assert!(why.contains(&expected.replace("no a ", "no ")) && why.contains("--kind GROUP/VERSION/KIND"), "{why}");
    }
    let why = run(tempfile::tempdir().unwrap().path(), false).unwrap_err().to_string();
    assert!(why.contains("has no manifest.yaml"), "{why}");
}
