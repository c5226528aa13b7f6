//! An author with a kind of their own, in every language: `pintle new --kind`, the steps that it prints, `pintle dev`, kubectl.
//!
//! The definition that the types give is accepted by the real API server and by the embedded one, which both refuse the same objects.
//! The languages share nothing.

mod accounts;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_build::{CustomKind, Language, Scaffold};
use pintle_tests::kubectl::kubectl;
use pintle_tests::pintle::{self, Answer};
use pintle_tests::process::Guarded;
use pintle_tests::{ApiClient, TestCluster, eventually, target_dir, workspace_dir};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A first build with all libraries on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A project that `pintle new` has written.
struct Project {
    language: Language,
    kind: Option<CustomKind>,
    example: bool,
    folder: PathBuf,
    _root: TempDir,
}

impl Project {
    fn new(language: Language, more: &[&str]) -> Result<Project> {
        Project::of(language, Some("example.org/v1/Team"), more)
    }

    fn of(language: Language, kind: Option<&str>, more: &[&str]) -> Result<Project> {
        let parent = target_dir().join("kinds");
        std::fs::create_dir_all(&parent)?;
        let root = tempfile::Builder::new().prefix(language.word()).tempdir_in(parent)?;
        let folder = root.path().join("teams");
        let mut new = pintle::command(["new", "teams", "--lang", language.word()])?;
        new.args(kind.iter().flat_map(|kind| ["--kind", kind])).args(more);
        Answer::of(new.arg("--dir").arg(&folder))?.success()?;
        let kind = kind.map(|kind| CustomKind::parse(kind, None, false)).transpose()?;
        Ok(Project { language, kind, example: more.contains(&"--example"), folder, _root: root })
    }

    /// A command in the folder, which finds this `pintle`.
    fn command(&self, program: &str) -> Result<Command> {
        let mut command = Command::new(program);
        let binary = pintle::binary()?;
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = binary.parent().context("no folder")?.display();
        command.current_dir(&self.folder).env("PATH", format!("{folder}:{path}"));
        // Packages in Rust share what they have in common; a project in Python has its own environment.
        command.env("CARGO_TARGET_DIR", workspace_dir().join("target/wasm")).env_remove("VIRTUAL_ENV");
        for name in ["RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "GOFLAGS"] {
            command.env_remove(name);
        }
        Ok(command)
    }

    fn pintle(&self, arguments: &[&str]) -> Result<Answer> {
        Answer::of(self.command("pintle")?.args(arguments))
    }

    /// What `pintle new` says to type, except the last step, which does not end.
    fn steps(&self) -> Result<()> {
        let scaffold = Scaffold {
            name: "teams",
            language: self.language,
            folder: &self.folder,
            kind: self.kind.as_ref(),
            example: self.example,
            schemas: &[],
        };
        let steps = scaffold.next_steps();
        let (last, steps) = steps.split_last().context("no steps")?;
        ensure!(last.starts_with("pintle dev --plugin ."), "{last}");
        for step in steps {
            let answer = Answer::of(self.command("bash")?.args(["-c", step]))?;
            ensure!(answer.is_good(), "{}: {step}\n{}", self.language, answer.text());
        }
        Ok(())
    }

    fn file(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    fn replace(&self, file: &str, from: &str, to: &str) -> Result<()> {
        let text = std::fs::read_to_string(self.file(file))?;
        ensure!(text.contains(from), "{file} has no {from:?}:\n{text}");
        Ok(std::fs::write(self.file(file), text.replacen(from, to, 1))?)
    }
}

/// The definition of a project.
fn definition(project: &Project) -> Result<Value> {
    let text = std::fs::read_to_string(project.file("crds/example.org_teams.yaml"))?;
    serde_norway::from_str(&text).context("the definition")
}

/// What the definition of every language says.
fn check_definition(definition: &Value, scope: &str) {
    let spec = &definition["spec"];
    assert_eq!(spec["scope"], scope);
    assert_eq!(spec["names"]["categories"], json!(["all"]));
    let version = &spec["versions"][0];
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns = version["additionalPrinterColumns"].as_array().map_or(0, Vec::len);
    assert_eq!(columns, 3, "{version}");
    let root = &version["schema"]["openAPIV3Schema"];
    assert_eq!(root["required"], json!(["spec"]));
    let spec = &root["properties"]["spec"];
    assert_eq!(spec["required"], json!(["members"]), "{spec}");
    let properties = &spec["properties"];
    let members = &properties["members"];
    assert_eq!((&members["minItems"], &members["x-kubernetes-list-type"]), (&json!(1), &json!("set")), "{members}");
    let item = &members["items"];
    assert_eq!((&item["maxLength"], &item["pattern"]), (&json!(63), &json!("^[a-z]([-a-z0-9]*[a-z0-9])?$")), "{item}");
    let format = &properties["format"];
    assert_eq!((&format["default"], &format["enum"]), (&json!("Lines"), &json!(["Lines", "Commas"])), "{format}");
    let status = &root["properties"]["status"]["properties"];
    assert_eq!(status["observedGeneration"]["format"], "int64");
    let conditions = &status["conditions"];
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]), "{conditions}");
    assert!(conditions["items"]["required"].as_array().is_some_and(|names| names.len() == 5), "{conditions}");
    for text in [&root["description"], &spec["description"], &members["description"], &conditions["description"]] {
        assert!(text.is_string(), "{root}");
    }
}

/// The definition on an API server: the sample is accepted and gets its default, and what the types forbid is refused.
async fn check_server(client: &ApiClient, definition: &Value, sample: &Value) -> Result<()> {
    let name = definition["metadata"]["name"].as_str().context("no name")?;
    client.create(DEFINITIONS, definition).await?;
    eventually(PATIENCE, "the definition is established", async || {
        let found = client.get(&format!("{DEFINITIONS}/{name}")).await?;
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is = |kind: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == "True");
        ensure!(!is("NonStructuralSchema"), "{found}");
        Ok(is("Established").then_some(()))
    })
    .await?;
    let is_namespaced = definition["spec"]["scope"] == "Namespaced";
    let path = format!("/apis/example.org/v1/{}teams", if is_namespaced { "namespaces/default/" } else { "" });
    // A real server serves a kind a moment after it is established.
    let made = eventually(PATIENCE, "the kind is served", async || match client.create(&path, sample).await {
        Ok(made) => Ok(Some(made)),
        Err(error) if error.to_string().contains("404") => Ok(None),
        Err(error) => Err(error),
    })
    .await?;
    assert_eq!(made["spec"]["format"], "Lines", "the default");
    for (field, value) in [
        ("format", json!("Boxes")),
        ("members", json!([])),
        ("members", json!(["Ann"])),
        ("members", json!(["ann", "ann"])),
        ("members", json!(null)),
        ("lead", json!(7)),
    ] {
        let mut wrong = sample.clone();
        wrong["metadata"]["name"] = json!("wrong");
        wrong["spec"][field] = value.clone();
        let answer = client.create(&path, &wrong).await;
        ensure!(answer.is_err(), "{field}: {value} is accepted");
    }
    Ok(())
}

/// `pintle dev` in the project, with kubectl: the sample's status, a spec that only the controller can judge, and the ConfigMap.
/// Then a change of the types in `file` that the definition does not follow.
async fn develop(project: &Project, (file, from, to): (&str, &str, &str)) -> Result<()> {
    // Not in the project, whose changes are built.
    let log = project.folder.with_file_name("dev.log");
    let mut command = project.command("pintle")?;
    command.args(["dev", "--plugin", ".", "--admin-socket=off", "--kubeconfig=../dev.kubeconfig"]);
    command.env("PINTLE_CACHE_DIR", target_dir().join("host-code"));
    let mut process = Guarded::tied("pintle dev", &mut command, &log)?;
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually(PATIENCE, "the plugin is loaded", async || {
        ensure!(process.exited().is_none(), "{}", process.log_tail());
        ensure!(!read().contains("no version runs yet"), "{}", read());
        Ok(read().contains(", loaded in ").then_some(()))
    })
    .await?;
    let told = read();
    ensure!(told.contains("crds/example.org_teams.yaml: applied teams.example.org"), "{told}");
    ensure!(told.contains("samples has sample objects"), "{told}");

    let kubeconfig = project.folder.with_file_name("dev.kubeconfig");
    let samples = project.file("samples").display().to_string();
    kubectl(&kubeconfig, &["apply", "-f", &samples]).await?;
    let row = |status: &'static str| {
        let kubeconfig = kubeconfig.clone();
        async move {
            eventually(PATIENCE, format!("a row with {status}"), async || {
                let printed = kubectl(&kubeconfig, &["get", "teams", "blue"]).await?;
                let words: Vec<&str> = printed.lines().nth(1).unwrap_or_default().split_whitespace().collect();
                Ok((words.len() == 4 && words[..3] == ["blue", "2", status]).then_some(()))
            })
            .await
        }
    };
    row("True").await?;
    let data = kubectl(&kubeconfig, &["get", "configmap", "blue-members", "-o", "jsonpath={.data}"]).await?;
    let data: Value = serde_json::from_str(&data)?;
    assert_eq!(data, json!({"members": "ann\nbob", "lead": "ann"}));

    let patch = |spec: &'static str| ["patch", "team", "blue", "--type=merge", "-p", spec];
    kubectl(&kubeconfig, &patch(r#"{"spec": {"lead": "eve"}}"#)).await?;
    row("False").await?;
    let message = r#"jsonpath={.status.conditions[?(@.type=="Ready")].message}"#;
    let told = kubectl(&kubeconfig, &["get", "team", "blue", "-o", message]).await?;
    assert_eq!(told.trim(), "spec.lead eve is not in spec.members");
    let refused = kubectl(&kubeconfig, &patch(r#"{"spec": {"format": "Boxes"}}"#)).await;
    ensure!(refused.is_err_and(|error| format!("{error:#}").contains("Unsupported value")), "an enumeration");
    let differs = format!("crds/example.org_teams.yaml: differs from the types in {file} at ");
    ensure!(!read().contains(&differs), "{}", read());
    project.replace(file, from, to)?;
    let mut come = async |text: &str| {
        eventually(PATIENCE, text, async || {
            ensure!(process.exited().is_none(), "{}", process.log_tail());
            Ok(read().contains(text).then_some(()))
        })
        .await
    };
    come(&differs).await?;
    project.replace(file, to, from)?;
    come("the definitions in crds match the types again").await?;
    ensure!(process.stop(PATIENCE).await, "{}", process.log_tail());
    Ok(())
}

/// A change of the types: the drift is found, and repaired by one command.
fn drift(project: &Project, file: &str, from: &str, to: &str) -> Result<()> {
    project.replace(file, from, to)?;
    for arguments in [&["test"][..], &["package", "-o", "teams.wasm"], &["crds", "--check"]] {
        let answer = project.pintle(arguments)?;
        let told = answer.text();
        ensure!(!answer.is_good(), "{arguments:?} finds no drift: {told}");
        let place = format!(
            "crds/example.org_teams.yaml: differs from the types in {file} at \
             spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.members.minItems: the file has 1, the types give 2; \
             run `pintle crds`"
        );
        ensure!(told.contains(&place), "{arguments:?}: {told}");
        ensure!(told.contains("-                minItems: 1\n+                minItems: 2\n"), "{told}");
    }
    ensure!(!project.file("teams.wasm").exists(), "packaged in spite of the difference");
    let told = project.pintle(&["crds"])?.success()?;
    ensure!(told.contains("crds/example.org_teams.yaml: written"), "{told}");
    project.pintle(&["crds", "--check"])?.success()?;
    Ok(())
}

/// Everything, in a language. `types`: their file, and the bound of the list of members in it, 1 and 2.
async fn follow(language: Language, types: (&str, &str, &str)) -> Result<()> {
    Project::new(language, &[])?.steps().context("the smallest kind")?;
    let project = Project::new(language, &["--example"])?;
    project.steps()?;
    let definition = definition(&project)?;
    check_definition(&definition, "Namespaced");
    let sample: Value = serde_norway::from_str(&std::fs::read_to_string(project.file("samples/team.yaml"))?)?;
    let real = TestCluster::real().await?;
    check_server(&real.client, &definition, &sample).await?;
    real.stop().await;
    check_server(&TestCluster::embedded().await?.client, &definition, &sample).await?;
    develop(&project, types).await?;
    let (file, from, to) = types;
    drift(&project, file, from, to)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_in_go_works_by_its_own_account() -> Result<()> {
    accounts::follow(Language::Go).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_in_go_has_a_kind() -> Result<()> {
    follow(Language::Go, ("api/team.go", "MinItems=1", "MinItems=2")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_in_rust_works_by_its_own_account() -> Result<()> {
    accounts::follow(Language::Rust).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_in_rust_has_a_kind() -> Result<()> {
    follow(Language::Rust, ("src/api.rs", "length(min = 1)", "length(min = 2)")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_in_typescript_works_by_its_own_account() -> Result<()> {
    accounts::follow(Language::TypeScript).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_in_typescript_has_a_kind() -> Result<()> {
    follow(Language::TypeScript, ("api.ts", "minItems: 1", "minItems: 2")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_in_javascript_works_by_its_own_account() -> Result<()> {
    accounts::follow(Language::JavaScript).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_in_javascript_has_a_kind() -> Result<()> {
    follow(Language::JavaScript, ("api.js", "minItems: 1", "minItems: 2")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_in_python_works_by_its_own_account() -> Result<()> {
    accounts::follow(Language::Python).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_in_python_has_a_kind() -> Result<()> {
    follow(Language::Python, ("api.py", "minItems=1", "minItems=2")).await
}

/// The cases of the templates are right for objects in no namespace, too, and the definition is what the page shows.
#[test]
fn a_kind_without_namespaces_works_and_the_page_shows_the_definition() -> Result<()> {
    Project::new(Language::Go, &["--cluster-scoped"])?.steps().context("the smallest kind")?;
    let project = Project::new(Language::Go, &["--cluster-scoped", "--example"])?;
    project.steps()?;
    check_definition(&definition(&project)?, "Cluster");
    let project = Project::new(Language::Go, &["--example"])?;
    project.pintle(&["crds"])?.success()?;
    let page = std::fs::read_to_string(workspace_dir().join("sdk/docs/custom-resources.md"))?;
    let text = std::fs::read_to_string(project.file("crds/example.org_teams.yaml"))?;
    ensure!(page.contains(&text), "sdk/docs/custom-resources.md does not show\n{text}");
    Ok(())
}

/// A toolchain that is missing is an error with the next step, not a silent success.
#[test]
fn without_its_tools_a_language_says_what_to_install() -> Result<()> {
    for (language, expected) in [
        (Language::Go, "there is no Go compiler: install Go"),
        (Language::Rust, "there is no cargo: install Rust"),
        (Language::JavaScript, "there is no Node.js: install version 20"),
        (Language::Python, "there is no Python: install version 3.11"),
    ] {
        let project = Project::new(language, &[])?;
        let empty = project.file("empty");
        std::fs::create_dir(&empty)?;
        for arguments in [&["crds"][..], &["test"], &["crds", "--check"]] {
            let mut command = project.command(&pintle::binary()?.display().to_string())?;
            let answer = Answer::of(command.args(arguments).env("PATH", &empty))?;
            ensure!(
                !answer.is_good() && answer.text().contains(expected),
                "{language} {arguments:?}: {}",
                answer.text()
            );
        }
    }
    // The tool is there, and a library is not.
    for (language, expected) in [
        (Language::TypeScript, "if it is one of a library, run `npm install`\n"),
        (Language::Python, ".venv/bin/pip install -r requirements.txt`\n"),
    ] {
        let answer = Project::new(language, &[])?.pintle(&["crds"])?;
        let told = answer.text();
        ensure!(!answer.is_good() && told.ends_with(expected) && told.lines().count() == 1, "{language}: {told}");
    }
    Ok(())
}

/// TypeBox needs what a component does not have, so that one that contains it is not built.
#[test]
fn a_component_has_nothing_of_the_library_that_describes_types() -> Result<()> {
    let project = Project::new(Language::JavaScript, &[])?;
    let installed = Answer::of(project.command("npm")?.args(["install", "--no-audit", "--no-fund"]))?;
    ensure!(installed.is_good(), "{}", installed.text());
    project.pintle(&["build"])?.success()?;
    // A value of the file, instead of its types.
    project.replace(
        "controller.js",
        "const KIND",
        "import { TeamSpec } from \"./api.js\";\nexport const spec = TeamSpec;\nconst KIND",
    )?;
    let answer = project.pintle(&["build"])?;
    ensure!(!answer.is_good() && answer.text().contains("TextEncoder is not defined"), "{}", answer.text());
    Ok(())
}
