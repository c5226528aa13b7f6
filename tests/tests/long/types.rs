//! What `pintle types` writes is accepted by the compilers and type checkers of the languages, fits their SDKs, and loses nothing: of a
//! definition with every feature, of a kind of Kubernetes, and of CustomResourceDefinition itself, whose schemas contain themselves.
//!
//! The samples are in `tests/types`, the definition in `host/types/tests/team.yaml`. Each program reads an object with its type and
//! writes it again; in languages whose objects stay what they are, the type checker judges the sample as a literal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pintle_build::process;
use pintle_tests::pintle::{self, Answer};
use pintle_tests::{target_dir, workspace_dir};
use serde_json::Value;
use tempfile::TempDir;

const PAGE: &str = "sdk/docs/custom-resources.md";

/// Samples, and their types in languages with such names.
const SAMPLES: [(&str, &str); 3] =
    [("team", "Team"), ("deployment", "Deployment"), ("definition", "CustomResourceDefinition")];

fn sample(name: &str) -> Result<Value> {
    let path = workspace_dir().join("tests/types").join(format!("{name}.json"));
    Ok(serde_json::from_str(&fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?)?)
}

/// Writes the types of the samples in a language to a file.
fn generate(language: &str, file: &Path) -> Result<()> {
    let openapi = xtask::controlplane::sources(pintle_core::kubernetes::VERSION)?.join("api/openapi-spec/v3");
    let mut types = pintle::command(["types", "--lang", language, "-o"])?;
    types.arg(file).arg(workspace_dir().join("host/types/tests/team.yaml"));
    for document in ["apis__apps__v1_openapi.json", "apis__apiextensions.k8s.io__v1_openapi.json"] {
        types.arg(openapi.join(document));
    }
    types.args(["--kind", "Team", "--kind", "Option", "--kind", "apps/v1/Deployment"]);
    Answer::of(types.args(["--kind", "apiextensions.k8s.io/v1/CustomResourceDefinition"]))?.success()?;
    Ok(())
}

/// Writes the types of the definition of the page, and returns the code of the page in this file.
fn example(language: &str, types: &str, code: &str, folder: &Path) -> Result<String> {
    let page = fs::read_to_string(workspace_dir().join(PAGE)).context(PAGE)?;
    let block = |mark: &str| {
        let (_, rest) = page.split_once(&format!(" {mark}\n")).with_context(|| format!("{PAGE} has no {mark}"))?;
        Ok::<_, anyhow::Error>(rest.split("```").next().unwrap_or_default())
    };
    let definition = folder.join("definition.yaml");
    fs::write(&definition, block("types=teams.yaml")?)?;
    let mut command =
        pintle::command(["types".as_ref(), definition.as_os_str(), "--lang".as_ref(), language.as_ref()])?;
    Answer::of(command.arg("-o").arg(folder.join(types)))?.success()?;
    Ok(block(&format!("types={code}"))?.to_owned())
}

/// A folder for a program. Tools look for libraries in the folders above a source, so it may have to lie in an SDK.
fn folder(parent: &Path) -> Result<TempDir> {
    fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    tempfile::Builder::new().prefix("types-").tempdir_in(parent).context("make a folder")
}

fn write(folder: &Path, file: &str, text: &str) -> Result<()> {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().context("no folder")?)?;
    fs::write(&path, text).with_context(|| path.display().to_string())
}

fn sdk(language: &str) -> PathBuf {
    workspace_dir().join("sdk").join(language)
}

/// A value with numbers in one form, and without members that are null: they are the same as absent ones.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => number
            .as_i64()
            .or(number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e15).map(|n| n as i64))
            .map_or_else(|| value.clone(), Value::from),
        Value::Object(members) => {
            let members = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(members.map(|(name, member)| (name.clone(), plain(member))).collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        _ => value.clone(),
    }
}

/// Compares what a program wrote, a line for each sample, with the samples.
fn compare(written: &str, change: impl Fn(&mut Value)) -> Result<()> {
    let lines: Vec<&str> = written.lines().collect();
    ensure!(lines.len() == SAMPLES.len(), "expected {} lines, got {written}", SAMPLES.len());
    for ((name, _), line) in SAMPLES.into_iter().zip(lines) {
        let mut expected = sample(name)?;
        change(&mut expected);
        let got: Value = serde_json::from_str(line).with_context(|| format!("{name}: {line}"))?;
        let text = |value: &Value| serde_json::to_string_pretty(&plain(value));
        similar(&text(&expected)?, &text(&got)?).with_context(|| format!("{name} has changed"))?;
    }
    Ok(())
}

fn similar(expected: &str, got: &str) -> Result<()> {
    let sorted = |text: &str| serde_json::from_str::<Value>(text);
    if sorted(expected)? == sorted(got)? {
        return Ok(());
    }
    let diff = similar::TextDiff::from_lines(expected, got);
    anyhow::bail!("{}", diff.unified_diff())
}

/// A module of Go beside the SDK, as the example has it.
fn go_module(folder: &Path) -> Result<()> {
    let example = sdk("go").join("examples/webapp");
    let module = fs::read_to_string(example.join("go.mod"))?;
    let replace = "replace pintle.dev/sdk => ../..";
    ensure!(module.contains(replace), "go.mod of the example says {module}");
    write(folder, "go.mod", &module.replace(replace, &format!("replace pintle.dev/sdk => {}", sdk("go").display())))?;
    write(folder, "go.sum", &fs::read_to_string(example.join("go.sum"))?)
}

#[test]
fn types_in_go_compile_and_lose_nothing() -> Result<()> {
    let folder = folder(&target_dir())?;
    let folder = folder.path();
    go_module(folder)?;
    generate("go", &folder.join("types.go"))?;
    let mut program = String::from("package main\n\nimport (\n\t\"encoding/json\"\n\t\"fmt\"\n)\n\nfunc main() {\n");
    for (name, of) in SAMPLES {
        program += &format!("\tshow[{of}](`{}`)\n", sample(name)?.to_string().replace('`', "` + \"`\" + `"));
    }
    program += "}\n\nfunc show[T any](text string) {\n\tvar object T\n\tif err := json.Unmarshal([]byte(text), &object); err != nil {\n\
                \t\tpanic(err)\n\t}\n\twritten, err := json.Marshal(object)\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\
                \tfmt.Println(string(written))\n}\n";
    write(folder, "main.go", &program)?;
    let unformatted = process::output(Command::new("gofmt").args(["-l", "types.go"]).current_dir(folder))?;
    ensure!(unformatted.is_empty(), "gofmt would change {unformatted}");
    let go = |arguments: &[&str]| {
        let mut go = Command::new("go");
        go.current_dir(folder).args(arguments).env_remove("GOFLAGS");
        go
    };
    process::run(&mut go(&["vet", "."]))?;
    let written = process::output(&mut go(&["run", "."]))?;
    // The file says that a tag cannot name it.
    compare(&written, |sample| {
        if let Some(spec) = sample["spec"].as_object_mut() {
            spec.remove("quote\"d`");
        }
    })
}

#[test]
fn the_example_in_go_compiles() -> Result<()> {
    let folder = folder(&target_dir())?;
    go_module(folder.path())?;
    let code = example("go", "team.go", "reconcile.go", folder.path())?;
    let head = "package main\n\nimport pintle \"pintle.dev/sdk\"\n\nfunc init() { pintle.Export(reconcile) }\n\nfunc main() {}\n\n";
    write(folder.path(), "main.go", &format!("{head}{code}"))?;
    process::run(Command::new("go").current_dir(folder.path()).args(["vet", "."]).env_remove("GOFLAGS"))
}

/// A package of Rust beside the SDK, as the example has it.
fn rust_package(folder: &Path) -> Result<()> {
    let example = sdk("rust").join("examples/webapp");
    let package = fs::read_to_string(example.join("Cargo.toml"))?;
    let dependency = "pintle-sdk = { path = \"../..\" }";
    ensure!(package.contains(dependency), "Cargo.toml of the example says {package}");
    let package = package
        .replace(dependency, &format!("pintle-sdk = {{ path = {:?} }}", sdk("rust")))
        .replace("crate-type = [\"cdylib\", \"rlib\"]", "");
    write(folder, "Cargo.toml", &package)?;
    write(folder, "Cargo.lock", &fs::read_to_string(example.join("Cargo.lock"))?)
}

fn cargo(folder: &Path, command: &str) -> Command {
    let mut cargo = process::cargo(folder);
    // The compiler of the tests, and not what lints them.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env("RUSTFLAGS", "-D warnings");
    cargo.args([command, "--quiet", "--target-dir"]).arg(workspace_dir().join("target/native"));
    cargo
}

#[test]
fn types_in_rust_compile_and_lose_nothing() -> Result<()> {
    let folder = folder(&target_dir())?;
    let folder = folder.path();
    rust_package(folder)?;
    generate("rust", &folder.join("types.rs"))?;
    write(folder, "src/types.rs", &fs::read_to_string(folder.join("types.rs"))?)?;
    write(folder, "src/lib.rs", "//! Types.\npub mod types;\n")?;
    let mut program = String::from("//! Shows the samples.\nuse webapp_rust::types;\n\nfn main() {\n");
    for (name, of) in SAMPLES {
        let text = sample(name)?.to_string();
        program += &format!(
            "    let object: types::{of} = serde_json::from_str({text:?}).unwrap();\n    \
             println!(\"{{}}\", serde_json::to_string(&object).unwrap());\n"
        );
    }
    // A value that the schema does not list is kept.
    program += "    let newer: types::TeamSpecMode = serde_json::from_str(\"\\\"newer\\\"\").unwrap();\n    \
                assert_eq!(newer, types::TeamSpecMode::NotListed(\"newer\".into()));\n}\n";
    write(folder, "src/main.rs", &program)?;
    compare(&process::output(&mut cargo(folder, "run"))?, |_| ())
}

#[test]
fn the_example_in_rust_compiles() -> Result<()> {
    let folder = folder(&target_dir())?;
    rust_package(folder.path())?;
    let code = example("rust", "team.rs", "lib.rs", folder.path())?;
    write(folder.path(), "src/team.rs", &fs::read_to_string(folder.path().join("team.rs"))?)?;
    write(folder.path(), "src/lib.rs", &format!("#![allow(missing_docs)]\n{code}"))?;
    process::run(&mut cargo(folder.path(), "check"))
}

fn tsc(folder: &Path) -> Result<()> {
    let settings = r#"{
        "extends": "../../../tsconfig.base.json",
        "compilerOptions": {"allowJs": true, "checkJs": true, "strict": true, "exactOptionalPropertyTypes": true},
        "include": ["*.js", "*.ts"]
    }"#;
    write(folder, "tsconfig.json", settings)?;
    let mut tsc = Command::new(sdk("js").join("node_modules/.bin/tsc"));
    process::run(tsc.current_dir(folder)).context("npm install in sdk/js brings tsc")
}

#[test]
fn types_in_typescript_accept_what_is_right_and_nothing_else() -> Result<()> {
    let folder = folder(&sdk("js").join("node_modules/.pintle"))?;
    let folder = folder.path();
    generate("ts", &folder.join("types.ts"))?;
    generate("ts", &folder.join("declared.d.ts"))?;
    for module in ["types.ts", "declared.js"] {
        let mut program = format!("import type * as types from \"./{module}\";\n");
        for (name, of) in SAMPLES {
            // Members that are not declared are errors in a literal.
            program += &format!("export const {name}: types.{of} = {};\n", sample(name)?);
        }
        program += "// @ts-expect-error: not one of the values\nexport const mode: types.TeamSpec[\"mode\"] = \"slow\";\n\
                    // @ts-expect-error: the amount is missing\nexport const budget: types.TeamSpecBudgetsValue = {};\n\
                    // @ts-expect-error: not a number\nexport const size: types.TeamSpec[\"size\"] = \"1\";\n\
                    // @ts-expect-error: not nullable\nexport const level: types.TeamSpec[\"level\"] = null;\n";
        write(folder, &format!("uses_{}.ts", module.replace('.', "_")), &program)?;
    }
    write(
        folder,
        "constants.ts",
        "import { TEAM } from \"./types.ts\";\nexport const team: \"example.org/v1/Team\" = TEAM;\n",
    )?;
    let code = example("ts", "team.ts", "controller.ts", folder)?;
    write(folder, "controller.ts", &code)?;
    tsc(folder)
}

#[test]
fn types_in_javascript_accept_what_is_right_and_nothing_else() -> Result<()> {
    let folder = folder(&sdk("js").join("node_modules/.pintle"))?;
    let folder = folder.path();
    generate("js", &folder.join("types.d.ts"))?;
    let mut program = String::from("// @ts-check\n");
    for (name, of) in SAMPLES {
        program += &format!("/** @type {{import(\"./types.js\").{of}}} */\nexport const {name} = {};\n", sample(name)?);
    }
    program += "// @ts-expect-error: not one of the values\n/** @type {import(\"./types.js\").TeamSpec[\"mode\"]} */ export const mode = \"slow\";\n\
                // @ts-expect-error: the amount is missing\n/** @type {import(\"./types.js\").TeamSpecBudgetsValue} */ export const budget = {};\n";
    write(folder, "uses.js", &program)?;
    tsc(folder)
}

/// JSON as a literal of Python.
fn python_literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(python_literal).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, member)| format!("{}: {}", Value::from(name.as_str()), python_literal(member)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

fn python(folder: &Path, program: &str, arguments: &[&str]) -> Command {
    let environment =
        std::env::var_os("VIRTUAL_ENV").map_or_else(|| workspace_dir().join("target/tools/python"), PathBuf::from);
    let mut python = Command::new(environment.join("bin").join(program));
    python.current_dir(folder).env("MYPYPATH", sdk("python")).env("PYTHONPATH", sdk("python")).args(arguments);
    python
}

#[test]
fn types_in_python_accept_what_is_right_and_nothing_else() -> Result<()> {
    let folder = folder(&target_dir())?;
    let folder = folder.path();
    generate("python", &folder.join("kinds.py"))?;
    let mut program = String::from("import kinds\nfrom pintle import Lister, patch_status\n\n");
    for (name, of) in SAMPLES {
        program += &format!("{name}: kinds.{of} = {}\n", python_literal(&sample(name)?));
    }
    program += "team[\"spec\"][\"mode\"] = \"slow\"  # type: ignore[typeddict-item]\n\
                budget: kinds.TeamSpecBudgetsValue = {}  # type: ignore[typeddict-item]\n\
                size: int = team[\"spec\"][\"optionalMode\"]  # type: ignore[assignment]\n\n\n\
                def read(lister: Lister) -> str:\n    found = kinds.get_team(lister, \"\", \"\")\n    \
                return found[\"spec\"][\"self\"] if found else \"\"\n\n\n\
                assert patch_status(kinds.TEAM, team, team[\"status\"]) is None\n\
                assert kinds.TeamSpec.__required_keys__ >= {\"members\", \"self\"}\n";
    write(folder, "app.py", &program)?;
    let code = example("python", "team.py", "app.py", folder)?;
    write(folder, "controller.py", &code)?;
    process::run(&mut python(folder, "mypy", &["--strict", "--cache-dir", "cache", "app.py", "controller.py"]))
        .context("`cargo xtask languages` installs mypy")?;
    process::run(&mut python(folder, "python", &["app.py"]))?;
    process::run(&mut python(folder, "python", &["-c", "import controller"]))
}
