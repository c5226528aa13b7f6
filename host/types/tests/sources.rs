//! Sources of every form, selected kinds, and errors, each with its location.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test by panicking")]

use pintle_types::{Input, Options, Target, TypesError, generate};

fn typescript(texts: &[(&str, &str)], kinds: &[&str], version: Option<&str>) -> Result<String, TypesError> {
    generated(texts, kinds, version, Target::TypeScript)
}

fn generated(
    texts: &[(&str, &str)],
    kinds: &[&str],
    version: Option<&str>,
    target: Target,
) -> Result<String, TypesError> {
    let inputs: Vec<Input<'_>> =
        texts.iter().map(|&(name, text)| Input { name, text, must_define: !name.contains("maybe") }).collect();
    let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    generate(&inputs, &Options { kinds: &kinds, version, target })
}

/// The names of the types, in order.
fn names(texts: &[(&str, &str)], kinds: &[&str], version: Option<&str>) -> Vec<String> {
    let text = typescript(texts, kinds, version).unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("export interface ")?.strip_suffix(" {"));
    types.map(str::to_owned).collect()
}

fn error(texts: &[(&str, &str)], kinds: &[&str], version: Option<&str>) -> String {
    typescript(texts, kinds, version).unwrap_err().to_string()
}

/// A definition with these versions, each with a spec.
fn definition(versions: &[(&str, bool)]) -> String {
    let versions: Vec<String> = versions
        .iter()
        .map(|(name, served)| {
            format!(
                "{{name: {name}, served: {served}, schema: {{openAPIV3Schema: {{type: object, properties: \
                 {{spec: {{type: object, properties: {{of_{name}: {{type: string}}}}}}}}}}}}}}"
            )
        })
        .collect();
    format!(
        "kind: CustomResourceDefinition\nmetadata: {{name: teams.example.org}}\nspec: {{group: example.org, names: {{kind: Team}}, \
         versions: [{}]}}\n",
        versions.join(", ")
    )
}

/// A definition whose spec is this schema.
fn with_spec(spec: &str) -> String {
    format!(
        "kind: CustomResourceDefinition\nspec: {{group: example.org, names: {{kind: Team}}, versions: [{{name: v1, schema: \
         {{openAPIV3Schema: {{type: object, properties: {{spec: {spec}}}}}}}}}]}}\n"
    )
}

/// An OpenAPI document of version 3, or 2, with these schemas.
fn openapi(version: u8, schemas: &str) -> String {
    if version == 3 {
        format!(
            "{{\"openapi\": \"3.0.0\", \"info\": {{\"title\": \"K\", \"version\": \"v1\"}}, \"components\": {{\"schemas\": {schemas}}}}}"
        )
    } else {
        let schemas = schemas.replace("#/components/schemas/", "#/definitions/");
        format!("{{\"swagger\": \"2.0\", \"definitions\": {schemas}}}")
    }
}

const SCHEMAS: &str = r##"{
    "io.k8s.api.apps.v1.Deployment": {
        "properties": {
            "metadata": {"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}], "default": {}},
            "spec": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.Spec"}], "description": "Outer."},
            "tree": {"$ref": "#/components/schemas/io.k8s.api.apps.v1.Tree"},
            "loop": {"$ref": "#/components/schemas/io.k8s.api.apps.v1.Loop"}
        },
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "apps", "kind": "Deployment", "version": "v1"}]
    },
    "io.k8s.api.apps.v1.DeploymentList": {
        "properties": {"metadata": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"}},
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "apps", "kind": "DeploymentList", "version": "v1"}]
    },
    "io.k8s.api.apps.v1.Spec": {
        "properties": {"template": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
                       "at": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"},
                       "other": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Spec"}},
        "type": "object"
    },
    "io.k8s.api.core.v1.Spec": {"properties": {"max": {"oneOf": [{"type": "integer"}, {"type": "string"}]}}, "type": "object"},
    "io.k8s.api.apps.v1.Tree": {
        "properties": {"children": {"items": {"$ref": "#/components/schemas/io.k8s.api.apps.v1.Tree"}, "type": "array"}},
        "type": "object"
    },
    "io.k8s.api.apps.v1.Loop": {"items": {"$ref": "#/components/schemas/io.k8s.api.apps.v1.Loop"}, "type": "array"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta": {"type": "object"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": {"format": "date-time", "type": "string"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"properties": {"name": {"type": "string"}}, "type": "object"}
}"##;

#[test]
fn every_version_that_is_served_has_types_unless_one_is_chosen() {
    let of = |versions: &[(&str, bool)], version| names(&[("a.yaml", &definition(versions))], &[], version);
    assert_eq!(of(&[("v1", true), ("v1beta1", false)], None), ["Team", "TeamSpec"]);
    assert_eq!(
        of(&[("v1", true), ("v1beta1", true)], None),
        ["V1Team", "V1TeamSpec", "V1beta1Team", "V1beta1TeamSpec"]
    );
    assert_eq!(of(&[("v1", true), ("v1beta1", false)], Some("v1beta1")), ["Team", "TeamSpec"]);
    let text = definition(&[("v1", true), ("v1beta1", false)]);
    assert!(typescript(&[("a.yaml", &text)], &[], Some("v1beta1")).unwrap().contains("of_v1beta1?: string"));
    // An explicit name selects it, too.
    assert_eq!(names(&[("a.yaml", &text)], &["example.org/v1beta1/Team"], None), ["Team", "TeamSpec"]);
    assert_eq!(names(&[("a.yaml", &text)], &["Team"], Some("v1")), ["Team", "TeamSpec"]);
}

#[test]
fn lists_and_old_definitions_are_read_and_other_files_of_a_folder_are_not() {
    let item = definition(&[("v1", true)]).replace('\n', "\n    ");
    let list = format!("kind: List\nitems:\n  - {item}");
    assert_eq!(
        names(&[("a.yaml", &list), ("maybe.yaml", "kind: ConfigMap\n---\n- 1\n---\n")], &[], None),
        ["Team", "TeamSpec"]
    );
    let list = list
        .replace("kind: List", "kind: CustomResourceDefinitionList")
        .replace("kind: CustomResourceDefinition\n    ", "");
    assert_eq!(names(&[("a.yaml", &list)], &[], None), ["Team", "TeamSpec"]);
    let old = "kind: CustomResourceDefinition\nspec: {group: a.b, version: v1, names: {kind: Old}, validation: {openAPIV3Schema: \
               {properties: {data: {type: string}}}}}";
    assert!(typescript(&[("a.yaml", old)], &[], None).unwrap().contains("data?: string"));
    assert_eq!(names(&[("\u{feff}a.yaml", &format!("\u{feff}{old}"))], &[], None), ["Old"]);
}

#[test]
fn openapi_documents_of_both_versions_give_the_same_types() {
    let of = |version| typescript(&[("openapi.json", &openapi(version, SCHEMAS))], &[], None).unwrap();
    let body = |text: &str| text.split_once("\n\n").unwrap().1.to_owned();
    assert_eq!(body(&of(3)), body(&of(2)));
    assert!(of(3).starts_with(
        "// Code generated by pintle types; DO NOT EDIT.\n// Source: openapi.json: OpenAPI of K v1, version v1\n"
    ));
    let text = of(3);
    for wanted in [
        // Neither the list nor a metadata type.
        "export interface Deployment {\n  apiVersion: \"apps/v1\";\n  kind: \"Deployment\";\n  metadata: ObjectMeta & ",
        "  /** Outer. */\n  spec?: AppsV1Spec;\n",
        "export interface CoreV1Spec {\n  max?: number | string;\n}",
        "export interface Tree {\n  children?: Tree[];\n}",
        "  loop?: any[];\n",
        "  template?: ObjectMeta;\n  at?: string;\n",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
    }
    assert!(!text.contains("DeploymentList") && !text.contains("interface ObjectMeta"), "{text}");
}

#[test]
fn a_type_without_a_description_is_described_only_by_what_its_name_does_not_tell() {
    let [document, definition] = [
        openapi(3, SCHEMAS),
        with_spec("{type: object, properties: {a: {type: object, properties: {b: {type: string}}}}}"),
    ];
    for (target, own, inner) in [
        (
            Target::Go { package: "main".into() },
            "\n\ntype Tree struct {",
            "// TeamSpecA is spec.a of Team.\ntype TeamSpecA struct {",
        ),
        (Target::Rust, "\n\n#[derive(", "/// `spec.a` of `Team`.\n#[derive("),
        (
            Target::TypeScript,
            "}\n\nexport interface Tree {",
            "/** `spec.a` of `Team`. */\nexport interface TeamSpecA {",
        ),
        (
            Target::Python,
            "class Tree(TypedDict):\n    children:",
            "class TeamSpecA(TypedDict):\n    \"\"\"`spec.a` of `Team`.\"\"\"\n",
        ),
    ] {
        for (text, wanted) in [(&document, own), (&definition, inner)] {
            let text = generated(&[("a.json", text)], &[], None, target.clone()).unwrap();
            assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        }
    }
}

#[test]
fn a_description_that_begins_with_the_name_of_the_type_does_not_repeat_it_in_go() {
    let tree = "\"io.k8s.api.apps.v1.Tree\": {";
    for (description, wanted) in [
        ("Tree is a plant.", "\n// Tree is a plant.\ntype Tree struct {"),
        ("Trees are plants.", "\n// Tree: Trees are plants.\ntype Tree struct {"),
    ] {
        let schemas = SCHEMAS.replace(tree, &format!("{tree} \"description\": \"{description}\","));
        let target = Target::Go { package: "main".into() };
        let text = generated(&[("a.json", &openapi(3, &schemas))], &[], None, target).unwrap();
        assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
    }
}

#[test]
fn the_scope_of_a_kind_is_read_from_the_paths() {
    let operation =
        r#"{"get": {"x-kubernetes-group-version-kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}}"#;
    let paths = |path: &str| {
        let document = openapi(3, SCHEMAS);
        format!(
            "{}, \"paths\": {{\"/apis/apps/v1/deployments\": {operation}, \"{path}\": {operation}}}}}",
            &document[..document.len() - 1]
        )
    };
    let of = |path: &str| typescript(&[("a.json", &paths(path))], &[], None).unwrap().contains("namespace: string");
    assert!(of("/apis/apps/v1/namespaces/{namespace}/deployments"));
    assert!(!of("/apis/apps/v1/deployments/{name}"));
}

#[test]
fn kinds_are_chosen_by_name_and_a_wrong_name_lists_what_there_is() {
    let (team, apps) = (definition(&[("v1", true)]), openapi(3, SCHEMAS));
    let both = [("a.yaml", team.as_str()), ("b.json", apps.as_str())];
    assert_eq!(names(&both, &["apps/v1/Deployment", "Team", "Team"], None)[0], "Deployment");
    assert_eq!(
        error(&both, &["apps/v1/Deploymnt"], None),
        "there is no kind apps/v1/Deploymnt; the sources define apps/v1/Deployment, example.org/v1/Team"
    );
    assert_eq!(
        error(&both, &["Team"], Some("v2")),
        "there is no kind Team in version v2; the sources define apps/v1/Deployment, example.org/v1/Team"
    );
    assert_eq!(
        error(&both, &[], Some("v2")),
        "there is no version v2; the sources define apps/v1/Deployment, example.org/v1/Team"
    );
    assert_eq!(
        error(&[("a.yaml", &definition(&[("v1", false)]))], &[], None),
        "there is no version that is served; the sources define example.org/v1/Team"
    );
}

#[test]
fn a_mistake_is_an_error_with_its_place() {
    let place = "a.yaml: spec.versions[0].schema.openAPIV3Schema.properties.spec";
    for (text, expected) in [
        ("a: [", "a.yaml: did not find expected node content"),
        ("{\"a\": ", "a.yaml: "),
        (
            "",
            "a.yaml: no kind is defined here; expected a CustomResourceDefinition or an OpenAPI document of Kubernetes",
        ),
        ("kind: ConfigMap", "a.yaml: no kind is defined here"),
        ("kind: CustomResourceDefinition", "a.yaml: spec: is not an object"),
        (
            "kind: CustomResourceDefinition\nspec: {group: 'a\nb'}",
            "a.yaml: spec.group: is not the name of an API group",
        ),
        (
            "kind: CustomResourceDefinition\nspec: {group: a.b, names: {kind: 'A\"'}}",
            "a.yaml: spec.names.kind: is not the name of a kind",
        ),
        (
            "kind: CustomResourceDefinition\nspec: {group: a.b, names: {kind: A}, versions: 1}",
            "a.yaml: spec.versions: is not a list",
        ),
        (
            "kind: CustomResourceDefinition\nspec: {group: a.b, names: {kind: A}, versions: [{}]}",
            "a.yaml: spec.versions[0]: has no name",
        ),
        ("openapi: 3.0.0", "a.yaml: definitions: is not an object"),
        (&with_spec("1"), &format!("{place}: is not a schema: expected an object")),
        (
            &with_spec("{type: strnig}"),
            &format!("{place}: type \"strnig\" is none of string, boolean, integer, number, array, object, null"),
        ),
        (&with_spec("{type: 1}"), &format!("{place}: type is not a text")),
        (&with_spec("{type: object, properties: []}"), &format!("{place}: properties is not an object")),
        (&with_spec("{type: object, required: x, properties: {a: {}}}"), &format!("{place}: required is not a list")),
        (
            &with_spec("{type: object, additionalProperties: 1}"),
            &format!("{place}: additionalProperties is neither a schema nor a boolean"),
        ),
        (&with_spec("{type: array, items: [1]}"), &format!("{place}.items: is not a schema: expected an object")),
        (
            &with_spec("{$ref: '#/definitions/X'}"),
            &format!("{place}: $ref leads to \"#/definitions/X\", which is not in the document"),
        ),
        (&with_spec("{$ref: 1}"), &format!("{place}: $ref is not a text")),
        (
            &format!("{}---\n{}", definition(&[("v1", true)]), definition(&[("v1", true)])),
            "example.org/v1/Team is defined twice: a.yaml: document 1: spec.versions[0]",
        ),
    ] {
        let error = error(&[("a.yaml", text)], &[], None);
        assert!(error.starts_with(expected), "{text}\nexpected {expected}\ngot      {error}");
    }
    let document = openapi(3, SCHEMAS);
    // Unused schemas may differ: lists and options of requests are in each document.
    let unused = document.replace("v1.ListMeta\": {\"type\": \"object\"}", "v1.ListMeta\": {\"type\": \"string\"}");
    assert_ne!(unused, document);
    assert_eq!(
        typescript(&[("a.json", &document), ("b.json", &unused)], &[], None),
        typescript(&[("a.json", &document)], &[], None)
    );
    let changed = document.replace("\"children\"", "\"kids\"");
    assert_eq!(
        error(&[("a.json", &document), ("b.json", &changed)], &[], None),
        "two schemas of the same name differ: a.json: components.schemas[\"io.k8s.api.apps.v1.Tree\"]; b.json: \
         components.schemas[\"io.k8s.api.apps.v1.Tree\"]; use documents of the same server, or one at a time"
    );
}

#[test]
fn nesting_is_limited_and_chains_of_schemas_are_not() {
    let nested =
        |n: usize| with_spec(&format!("{}{{type: string}}{}", "{type: array, items: ".repeat(n), "}".repeat(n)));
    assert!(typescript(&[("a.yaml", &nested(30))], &[], None).is_ok());
    let error = error(&[("a.yaml", &nested(62))], &[], None);
    assert!(error.contains("nested more than 60 levels deep"), "{error}");

    let mut schemas = SCHEMAS.trim_end().trim_end_matches('}').to_owned();
    for i in 0..2000 {
        let next = i + 1;
        schemas += &format!(
            ",\"chain.S{i}\": {{\"type\": \"object\", \"properties\": {{\"next\": {{\"$ref\": \"#/components/schemas/chain.S{next}\"}}}}}}"
        );
    }
    schemas += ",\"chain.S2000\": {\"type\": \"string\"}}";
    let schemas = schemas.replace(
        "\"tree\": {\"$ref\": \"#/components/schemas/io.k8s.api.apps.v1.Tree\"}",
        "\"tree\": {\"$ref\": \"#/components/schemas/chain.S0\"}",
    );
    let names = names(&[("a.json", &openapi(3, &schemas))], &[], None);
    assert!(names.contains(&"S1999".to_owned()), "{names:?}");
}
