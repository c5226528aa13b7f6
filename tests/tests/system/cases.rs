//! `pintle test` through the binary: the cases of the built-in plugins, and what it finds wrong.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use jsonschema::Validator;
use pintle_build::Language;
use pintle_tests::pintle::{self, Answer};
use pintle_tests::{components, workspace_dir};
use serde_json::{Value, json};
use xtask::guests::{self, Set};

fn run(arguments: &[&str]) -> Result<Answer> {
    Answer::of(pintle::command(["test"])?.args(arguments))
}

/// A folder with the component of a test guest and with cases: name of the key's object -> expected outcome.
struct Folder {
    folder: tempfile::TempDir,
    component: String,
    cases: String,
}

impl Folder {
    fn new(guest: &str, kind: &str, cases: &[(&str, &str)]) -> Result<Folder> {
        Folder::of(&components::guest(guest)?, kind, cases)
    }

    fn of(guest: &[u8], kind: &str, cases: &[(&str, &str)]) -> Result<Folder> {
        let folder = tempfile::tempdir()?;
        let component = folder.path().join("guest.wasm");
        std::fs::write(&component, guest)?;
        let all = folder.path().join("cases");
        std::fs::create_dir_all(&all)?;
        for (name, expected) in cases {
            let case = format!("key: {{kind: {kind}, namespace: ns, name: {name}}}\n---\n{expected}");
            std::fs::write(all.join(format!("{name}.yaml")), case)?;
        }
        let shown = |path: &Path| path.display().to_string();
        Ok(Folder { component: shown(&component), cases: shown(&all), folder })
    }

    fn test(&self, more: &[&str]) -> Result<(bool, String)> {
        let mut arguments = vec![self.component.as_str(), "--cases", &self.cases];
        arguments.extend(more);
        let answer = run(&arguments)?;
        Ok((answer.is_good(), answer.text().replace(&self.folder.path().display().to_string(), "DIR")))
    }
}

const WIDGET: &str = "example.com/v1/Widget";

/// Folders of `cases/` with the component, of the built-in plugins.
fn builtins() -> Result<Vec<(PathBuf, PathBuf)>> {
    let built = guests::build(Set::Plugins)?;
    let mut all = Vec::new();
    for entry in std::fs::read_dir(workspace_dir().join("plugins"))? {
        let folder = entry?.path();
        if folder.join("cases").exists() {
            let (_, name) = pintle_build::manifest_json(&folder.join("manifest.yaml"))?;
            let of_name = built.iter().find(|built| built.path.file_stem().is_some_and(|stem| *stem == *name));
            let component = of_name.with_context(|| format!("no component of {name}"))?;
            all.push((folder.join("cases"), component.path.clone()));
        }
    }
    assert_eq!(all.len(), built.len(), "a plugin without cases");
    Ok(all)
}

#[test]
fn every_case_of_the_built_in_plugins_gives_the_expected_outcome() -> Result<()> {
    let mut n_cases = 0;
    for (cases, component) in builtins()? {
        let [cases_text, component] = [&cases, &component].map(|path| path.display().to_string());
        let report =
            run(&[&component, "--cases", &cases_text, "-o", "json"])?.json().with_context(|| component.clone())?;
        let ran = report["cases"].as_array().context("no cases")?;
        n_cases += ran.len();
    }
    println!("{n_cases} cases");
    assert!(n_cases > 1_900, "{n_cases}");
    Ok(())
}

#[test]
fn definitions_beside_a_component_are_honoured() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("cases"))?;
    std::fs::create_dir_all(at("crds"))?;
    std::fs::create_dir_all(at("other"))?;
    std::fs::write(at("cases/gone.yaml"), "key: {kind: x.org/v1/Foo, name: a}\n---\nsteps: []\n")?;
    // A built-in plugin that watches a custom kind instead: the name has the same length, so the component stays whole.
    let built = guests::build(Set::Plugins)?;
    let of_name = built.iter().find(|built| built.path.ends_with("serviceaccount-controller.wasm"));
    let mut component = std::fs::read(&of_name.context("no component")?.path)?;
    let (from, to) = (b"\"v1/Namespace\"", b"\"x.org/v1/Foo\"");
    while let Some(i) = component.windows(from.len()).position(|text| text == from) {
        component[i..i + from.len()].copy_from_slice(to);
    }
    std::fs::write(at("foo.wasm"), component)?;
    let definition = |status: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  group: x.org\n  names: {{kind: Foo}}\n  \
             versions: [{{name: v1, schema: {{openAPIV3Schema: {{type: object, properties: {{status: {status}}}}}}}}}]\n"
        )
    };
    let paths = [at("foo.wasm"), at("cases"), at("other")].map(|path| path.display().to_string());
    let [file, cases, other] = paths.each_ref().map(String::as_str);
    let good = "{type: object, properties: {phase: {type: string}}}";

    std::fs::write(at("crds/foo.yaml"), definition(&good.replace("phase", "phrase")))?;
    let answer = run(&[file, "--cases", cases])?;
    let told = answer.text();
    assert!(!answer.is_good(), "{told}");
    for part in ["status.phase: x.org/v1/Foo has no such field; did you mean status.phrase?", "with the definitions in"]
    {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    // Another folder instead of the one beside the component.
    std::fs::write(at("other/foo.yaml"), definition(good))?;
    // The case is run, and fails because the code reads another kind than the manifest says.
    let runs = |told: &str| told.contains("FAILED   gone") && told.contains("grant: kind v1/Namespace is not watched");
    let told = run(&[file, "--cases", cases, "--crds", other])?.text();
    assert!(runs(&told), "{told}");
    let told = run(&[file, "--cases", cases, "--crds", &format!("{other}s")])?.text();
    assert!(told.contains("is not a directory: name the folder of the definitions"), "{told}");
    std::fs::write(at("crds/foo.yaml"), definition(good))?;
    let told = run(&[file, "--cases", cases])?.text();
    assert!(runs(&told), "{told}");
    Ok(())
}

#[test]
fn a_difference_is_shown_and_can_be_taken_over() -> Result<()> {
    let folder = Folder::new("faulty", WIDGET, &[("most-mutations", "steps: []\n")])?;
    let (is_good, told) = folder.test(&[])?;
    assert!(!is_good);
    for part in [
        "FAILED   most-mutations",
        "the outcome is not the expected one",
        "-steps: []",
        "+  - create: ",
        "pintle: 1 of 1 cases failed",
    ] {
        assert!(told.contains(part), "no {part:?} in:\n{told}");
    }
    let (is_good, told) = folder.test(&["--update"])?;
    assert!(is_good && told.contains("updated  most-mutations"), "{told}");
    let (is_good, told) = folder.test(&[])?;
    assert!(is_good && told.contains("1 of 1 cases passed"), "{told}");
    Ok(())
}

#[test]
fn rows_of_a_table_differ_and_are_updated() -> Result<()> {
    let folder = Folder::new("faulty", WIDGET, &[])?;
    let file = Path::new(&folder.cases).join("widgets.yaml");
    let table = |first: &str, second: &str| {
        format!(
            "# Widgets.\nbase:\n  key: {{kind: {WIDGET}, namespace: ns, name: big-output}}\nrows:\n  - name: big # it is\n{first}  \
             - name: many\n    key: {{name: most-mutations}}\n{second}"
        )
    };
    std::fs::write(&file, table("    expect: nothing\n", "    expect: nothing\n"))?;
    let (is_good, told) = folder.test(&[])?;
    assert!(!is_good);
    // The state is not shown.
    for part in [
        "ok       widgets/big\n",
        "FAILED   widgets/many: ",
        "the outcome is not the expected one",
        "-nothing",
        "+create v1/Pod a x10: {}",
        "pintle: 1 of 2 cases failed",
    ] {
        assert!(told.contains(part), "no {part:?} in:\n{told}");
    }
    let (is_good, told) = folder.test(&["--update", "--filter", "widgets/many"])?;
    assert!(is_good && told.contains("updated  widgets/many"), "{told}");
    let text = std::fs::read_to_string(&file)?;
    let kept = table("    expect: nothing\n", "    expect: |\n");
    assert!(text.starts_with(&kept), "{text}");
    std::fs::write(&file, text.replace("    expect: nothing\n", ""))?;
    let (is_good, told) = folder.test(&[])?;
    assert!(!is_good && told.contains("the row has no `expect`; --update writes it"), "{told}");
    let (is_good, told) = folder.test(&["--update"])?;
    assert!(is_good && told.contains("updated  widgets/big") && told.contains("ok       widgets/many"), "{told}");
    assert_eq!(std::fs::read_to_string(&file)?, text);
    Ok(())
}

#[test]
fn a_case_without_an_expected_outcome_says_how_to_write_it() -> Result<()> {
    let folder = Folder::new("faulty", WIDGET, &[("most-mutations", "")])?;
    let (is_good, told) = folder.test(&[])?;
    assert!(!is_good && told.contains("the case has no expected outcome; --update writes this one"), "{told}");
    let (is_good, told) = folder.test(&["--update"])?;
    assert!(is_good, "{told}");
    let (is_good, told) = folder.test(&[])?;
    assert!(is_good, "{told}");
    Ok(())
}

#[test]
fn what_is_kept_from_run_to_run_is_found() -> Result<()> {
    let folder = Folder::new("faulty", WIDGET, &[("calls", "steps: []\nrequeueAfter: 1ms\n")])?;
    let (is_good, told) = folder.test(&[])?;
    assert!(!is_good);
    assert!(told.contains("the outcome depends on earlier runs of the instance"), "{told}");
    // To take over what was seen does not help here.
    let (is_good, _) = folder.test(&["--update"])?;
    assert!(!is_good);
    Ok(())
}

#[test]
fn faults_are_told_with_their_kind_and_what_the_host_says_of_them() -> Result<()> {
    let cases = [
        ("panic", "trap: "),
        ("grow", "memory: "),
        ("too-many-mutations", "output: "),
        ("not-watched", "kind v1/Secret is not watched by this plugin; its manifest watches example.com/v1/Widget"),
        ("host-calls", "host_call: "),
    ];
    let faulty = components::guest("faulty")?;
    let hurried = components::with_manifest(&faulty, |manifest| manifest["limits"]["deadlineMs"] = 100.into())?;
    for (guest, cases) in [(&faulty, &cases[..]), (&hurried, &[("loop", "deadline: ")])] {
        let expected: Vec<_> = cases.iter().map(|(name, _)| (*name, "steps: []\n")).collect();
        let (is_good, told) = Folder::of(guest, WIDGET, &expected)?.test(&[])?;
        assert!(!is_good);
        for (name, part) in cases {
            let is_it = |text: &&str| text.starts_with(&format!("{name}: {WIDGET} ns/{name}\n"));
            let of_case =
                told.split("FAILED   ").find(is_it).with_context(|| format!("nothing of {name} in:\n{told}"))?;
            assert!(of_case.contains("the run ended with a fault: ") && of_case.contains(part), "{of_case}");
        }
    }
    Ok(())
}

#[test]
fn many_runs_on_one_instance_tell_how_it_grows() -> Result<()> {
    let folder = Folder::new("faulty", WIDGET, &[("most-mutations", "")])?;
    let (is_good, told) = folder.test(&["--update", "--runs", "2000"])?;
    assert!(is_good && told.contains("2000 runs on one instance: "), "{told}");
    let folder = Folder::new("faulty", WIDGET, &[("leak", "steps: []\n")])?;
    let (is_good, told) = folder.test(&["--runs", "2000"])?;
    assert!(!is_good && told.contains("on one instance"), "{told}");
    Ok(())
}

#[test]
fn a_case_is_exported_with_the_answers_to_its_reads() -> Result<()> {
    let folder = Folder::new("faulty", WIDGET, &[("panic", "steps: []\n"), ("leak", "steps: []\n")])?;
    let exported = folder.folder.path().join("exported");
    let (is_good, told) = folder.test(&["--export", &exported.display().to_string()])?;
    let mut lines = told.lines();
    assert_eq!((is_good, lines.next()), (true, Some("DIR/exported/leak.json")), "{told}");
    let fault = lines.next().context("no second case")?;
    assert!(fault.starts_with("DIR/exported/panic.json: the run ends with a fault: trap: "), "{told}");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(exported.join("panic.json"))?)?;
    assert_eq!(document["manifest"]["name"], "faulty");
    let key = json!({"kind": WIDGET, "namespace": "ns", "name": "panic"});
    assert_eq!((&document["input"]["key"], &document["expected"]), (&key, &json!({"steps": []})));
    assert_eq!(document["key"]["queue"], document["manifest"]["queues"][0]["name"]);
    assert_eq!((&document["now"], &document["attempt"]), (&json!("2026-01-01T00:00:00Z"), &json!(0)));
    Ok(())
}

#[test]
fn mistakes_say_what_to_do() -> Result<()> {
    let folder = Folder::new("faulty", WIDGET, &[("panic", "steps: []\n")])?;
    assert_eq!(
        run(&[&folder.component])?.errors,
        "pintle: a component file has no cases of its own: name their folder with --cases\n"
    );
    let (is_good, told) = folder.test(&["--filter", "zzz"])?;
    assert_eq!((is_good, &*told), (false, "pintle: no case in DIR/cases has \"zzz\" in its name\n"));
    let errors = run(&["DIR/missing"])?.errors;
    assert!(errors.starts_with("pintle: read DIR/missing: "), "{errors}");
    Ok(())
}

/// The schema that `pintle schema` prints, as text and as a check.
fn schema(document: &str) -> Result<(String, Validator)> {
    let text = Answer::of(pintle::command(["schema"])?.arg(document))?.success()?;
    let validator = jsonschema::validator_for(&serde_json::from_str(&text)?)?;
    Ok((text, validator))
}

/// The first document of a YAML text, as an editor reads it.
fn first_document(text: &str) -> Result<Value> {
    let document = serde_norway::Deserializer::from_str(text).next().context("no document")?;
    let mut value = <serde_norway::Value as serde::Deserialize>::deserialize(document)?;
    value.apply_merge()?;
    Ok(serde_json::to_value(value)?)
}

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "yaml"));
    Ok(files)
}

/// The schemas in a schema whose default they do not accept themselves, which editors would insert.
fn wrong_defaults(schema: &Value) -> Vec<Value> {
    let mut wrong = Vec::new();
    if let (Some(of_type), Some(default)) = (schema["type"].as_str(), schema.get("default")) {
        let fits = match of_type {
            "string" => default.is_string(),
            "boolean" => default.is_boolean(),
            "integer" => default.is_i64(),
            "number" => default.is_number(),
            "array" => default.is_array(),
            "object" => default.is_object(),
            _ => false,
        };
        if !fits {
            wrong.push(schema.clone());
        }
    }
    match schema {
        Value::Object(fields) => wrong.extend(fields.values().flat_map(wrong_defaults)),
        Value::Array(items) => wrong.extend(items.iter().flat_map(wrong_defaults)),
        _ => {}
    }
    wrong
}

#[test]
fn manifests_and_cases_fit_the_schemas_that_editors_read() -> Result<()> {
    let (manifest_text, manifest) = schema("manifest")?;
    let (case_text, case) = schema("case")?;
    assert_eq!(Answer::of(&mut pintle::command(["schema"])?)?.success()?, manifest_text, "the default");
    let fits = |schema: &Validator, file: &Path| -> Result<()> {
        let document = first_document(&std::fs::read_to_string(file)?).with_context(|| file.display().to_string())?;
        let error = schema.iter_errors(&document).next().map(|error| format!("{}: {error}", error.instance_path()));
        ensure!(error.is_none(), "{}: {}", file.display(), error.unwrap_or_default());
        Ok(())
    };
    let root = workspace_dir();
    let mut projects: Vec<PathBuf> =
        std::fs::read_dir(root.join("plugins"))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    for language in Language::ALL {
        let examples = root.join("sdk").join(language.sdk()).join("examples");
        projects.extend(std::fs::read_dir(examples)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?);
    }
    let mut n_cases = 0;
    for project in projects.iter().filter(|project| project.join("manifest.yaml").exists()) {
        fits(&manifest, &project.join("manifest.yaml"))?;
        for file in yaml_files(&project.join("cases"))? {
            // Tables are for the built-in plugins, and have no schema.
            if !std::fs::read_to_string(&file)?.lines().any(|line| line == "rows:") {
                fits(&case, &file)?;
                n_cases += 1;
            }
        }
    }
    assert!(n_cases > 50, "{n_cases}");

    for language in Language::ALL {
        let kind = ["--kind", "example.org/v1/Team", "--example"];
        for (kind, n_least) in [(&[][..], 5), (&kind[..2], 2), (&kind, 6)] {
            let folder = tempfile::tempdir()?;
            let project = folder.path().join("teams");
            let mut new = pintle::command(["new", "teams", "--lang", language.word(), "--dir"])?;
            Answer::of(new.arg(&project).args(kind))?.success()?;
            let cases = yaml_files(&project.join("cases"))?;
            assert!(cases.len() >= n_least, "{cases:?}");
            let cases = cases.iter().map(|file| (file.clone(), &case, &case_text));
            let all = cases.chain([(project.join("manifest.yaml"), &manifest, &manifest_text)]);
            for (file, schema, text) in all {
                fits(schema, &file)?;
                let content = std::fs::read_to_string(&file)?;
                let named =
                    content.lines().next().and_then(|line| line.strip_prefix("# yaml-language-server: $schema="));
                let named = named.with_context(|| format!("{} names no schema", file.display()))?;
                let of_project = file.parent().context("no folder")?.join(named);
                let written: Value = serde_json::from_str(&std::fs::read_to_string(of_project)?)?;
                assert_eq!(written, serde_json::from_str::<Value>(text)?, "{}", file.display());
            }
        }
    }

    for (schema, mistakes) in [
        (
            &case,
            &[
                json!({}),
                json!({"key": {"kind": "v1/Pod"}}),
                json!({"key": {"kind": "Pod", "name": "x"}}),
                json!({"key": {"kind": "v1/Pod", "name": "x"}, "object": []}),
                json!({"key": {"kind": "v1/Pod", "name": "x"}, "objects": {}}),
                json!({"key": {"kind": "v1/Pod", "name": "x"}, "settle": {"run": 5}}),
                json!({"key": {"kind": "v1/Pod", "name": "x"}, "settle": {"within": 5}}),
                json!({"key": {"kind": "v1/Pod", "name": "x"}, "settle": {"then": [{"explode": {}}]}}),
                json!({"key": {"kind": "v1/Pod", "name": "x"}, "settle": {"then": [{"pods": "happy"}]}}),
            ][..],
        ),
        (
            &manifest,
            &[
                json!({"name": "x", "version": "1", "watches": [], "queues": [{"name": "x"}]}),
                json!({"name": "x", "version": "1", "contract": "0.2", "watch": [], "queues": [{"name": "x"}]}),
            ],
        ),
    ] {
        for mistake in mistakes {
            assert!(!schema.is_valid(mistake), "{mistake}");
        }
    }
    assert_eq!(wrong_defaults(&serde_json::from_str(&case_text)?), Vec::<Value>::new());
    assert_eq!(wrong_defaults(&serde_json::from_str(&manifest_text)?), Vec::<Value>::new());
    let right = json!({
        "key": {"kind": "v1/Pod", "name": "x"},
        "settle": {"runs": 3, "within": "5m", "then": [{"advance": "90s"}, {"pods": "ready"}]},
    });
    assert!(case.is_valid(&right));
    Ok(())
}
