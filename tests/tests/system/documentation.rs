//! The documentation is true where a program can tell: links, commands, the list of controllers, the example with a custom resource.
//!
//! *Not here*: the rendered site (`cargo xtask docs`), the tutorials and the guide for users of other frameworks (`tests/tests/long`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use pintle::cli::kubectl::KubectlCli;
use pintle_core::kubernetes;
use pintle_desk::cli::Cli;
use pintle_tests::pintle::{self as binary, Answer};
use pintle_tests::{TestCluster, controlplane, workspace_dir};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde_json::{Value, json};
use xtask::docs::links;
use xtask::process;
use xtask::upstream::Upstream;

/// Pages about the past, whose commands may have changed since.
const HISTORY: [&str; 2] = ["CHANGELOG.md", "host/DECISIONS.md"];

/// Templates, in which names are still missing.
const TEMPLATES: [&str; 2] = ["host/build/scaffold", "host/xtask/templates"];

#[test]
fn the_version_of_kubernetes_is_the_same_everywhere() -> Result<()> {
    const WORDS: [&str; 4] = ["Kubernetes", "kube-controller-manager", "kube-apiserver", "behaves as"];
    let files = process::output(Command::new("git").args(["ls-files"]).current_dir(workspace_dir()))?;
    let is_page = |file: &&str| {
        [".md", ".yaml", ".rs", ".txt"].iter().any(|end| file.ends_with(end))
            && !HISTORY.iter().chain(&["tests/MEASUREMENTS.md"]).any(|other| file == other)
    };
    let (mut n_found, mut other) = (0, Vec::new());
    for file in files.lines().filter(is_page) {
        // Deleted, but not committed yet.
        let Ok(text) = fs::read_to_string(workspace_dir().join(file)) else { continue };
        for (n, line) in text.lines().enumerate() {
            for named in WORDS.iter().flat_map(|word| line.split(word).skip(1)) {
                let named = named.trim_start().trim_start_matches('v');
                let end = named.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(named.len());
                let version = named[..end].trim_end_matches('.');
                // Two-digit minors: no other number after these words has one. Since when there is something does not change.
                let minor = version.strip_prefix("1.").and_then(|rest| rest.split('.').next());
                if minor.is_none_or(|minor| minor.len() != 2) || named[end..].starts_with(" and later") {
                    continue;
                }
                n_found += 1;
                if version != kubernetes::VERSION && version != kubernetes::minor() {
                    other.push(format!("{file}:{}: {version}", n + 1));
                }
            }
        }
    }
    ensure!(n_found > 10, "only {n_found} places found");
    ensure!(other.is_empty(), "plugins/kubernetes-version is {}:\n{}", kubernetes::VERSION, other.join("\n"));
    Ok(())
}

#[test]
fn every_link_between_pages_leads_to_a_file_and_a_heading() -> Result<()> {
    let root = workspace_dir();
    let pages = links::pages(&root)?;
    ensure!(pages.len() > 25, "only {} pages found", pages.len());
    let mut broken = Vec::new();
    for page in pages.iter().filter(|page| !is_in(page, &TEMPLATES)) {
        broken.extend(links::broken(&root, page)?);
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
    Ok(())
}

fn is_in(page: &Path, folders: &[&str]) -> bool {
    folders.iter().any(|folder| page.starts_with(folder))
}

/// Code of a page.
#[derive(Debug, Default, PartialEq)]
struct Code {
    /// Code blocks: info string and text.
    blocks: Vec<(String, String)>,
    /// Code spans.
    spans: Vec<String>,
}

fn code(page: &str) -> Code {
    let mut code = Code::default();
    let mut is_block = false;
    for event in Parser::new_ext(page, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let info = if let CodeBlockKind::Fenced(info) = kind { info.into_string() } else { String::new() };
                code.blocks.push((info, String::new()));
                is_block = true;
            }
            Event::End(TagEnd::CodeBlock) => is_block = false,
            Event::Text(text) if is_block => {
                code.blocks.iter_mut().last().into_iter().for_each(|block| block.1 += &text)
            }
            Event::Code(span) => code.spans.push(span.into_string()),
            _ => {}
        }
    }
    code
}

/// The command lines of a code block: all lines of a script, the lines after a prompt of a transcript, the programs of a unit.
fn lines(info: &str, text: &str) -> Vec<String> {
    let text = text.replace("\\\n> ", " ").replace("\\\n", " ");
    let prefix = match info.split(' ').next().unwrap_or_default() {
        "" | "sh" | "bash" => "",
        "console" => "$ ",
        "ini" => "ExecStart=",
        _ => return Vec::new(),
    };
    text.lines().filter_map(|line| line.trim_start().strip_prefix(prefix)).map(str::to_owned).collect()
}

/// The calls of `pintle` in a command line, each with its arguments, the program first. `Err`: the line is not one of a shell.
fn calls(line: &str) -> Result<Vec<Vec<String>>, String> {
    let Some(words) = shlex::split(line) else {
        // Pictures and output are not command lines.
        return if line.contains("pintle ") { Err("unbalanced quotes".to_owned()) } else { Ok(Vec::new()) };
    };
    let is_separator = |word: &String| ["|", "||", "&&", "&", ";"].contains(&&**word);
    let calls = words.split(is_separator).filter_map(|words| {
        let is_assignment = |word: &&String| word.contains('=') && !word.starts_with('-');
        let is_redirection = |word: &&String| ["<", ">", ">>", "2>"].contains(&&***word);
        let words = words.iter().skip_while(is_assignment).take_while(|word| !is_redirection(word));
        let words: Vec<String> = words.cloned().collect();
        // kubectl runs the file `kubectl-pintle`.
        let words = match words.split_first() {
            Some((kubectl, rest)) if kubectl == "kubectl" && rest.first().is_some_and(|word| word == "pintle") => {
                [&["kubectl-pintle".to_owned()], rest.get(1..).unwrap_or_default()].concat()
            }
            _ => words,
        };
        ["pintle", "kubectl-pintle"].contains(&words.first()?.rsplit('/').next()?).then_some(words)
    });
    Ok(calls.collect())
}

/// What is wrong with a call, in one line. `is_whole`: it has all of its arguments.
fn problem(call: &[String], is_whole: bool) -> Option<String> {
    // Digests that are left out are of the right length for the parser.
    let words = call.iter().map(|word| word.replace("sha256:...", &format!("sha256:{}", "0".repeat(64))));
    let words: Vec<String> = words.collect();
    let error = match words.first()?.as_str() {
        "kubectl-pintle" => KubectlCli::try_parse_from(words).err()?,
        _ => Cli::try_parse_from(words).err()?,
    };
    let is_accepted = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !is_whole,
        // A flag without its value.
        ErrorKind::InvalidValue => {
            !is_whole
                && matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty())
        }
        _ => false,
    };
    (!is_accepted).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// The calls of a page that the command line does not accept, and the number of those that were checked.
fn wrong_calls(name: &str, page: &str) -> (Vec<String>, usize) {
    let (mut wrong, mut n_calls) = (Vec::new(), 0);
    let code = code(page);
    let blocks = code.blocks.iter().flat_map(|(info, text)| lines(info, text)).map(|line| (line, true));
    // Spans name commands, often without their arguments. `...` is for more than one argument.
    let is_call = |span: &&String| ["pintle ", "kubectl pintle "].iter().any(|program| span.starts_with(program));
    let spans = code.spans.iter().filter(|span| is_call(span) && !span.contains("..."));
    for (line, is_whole) in blocks.chain(spans.map(|span| (span.clone(), false))) {
        match calls(&line) {
            Err(problem) => wrong.push(format!("{name}: {line}: {problem}")),
            Ok(calls) => {
                n_calls += calls.len();
                wrong.extend(
                    calls.iter().filter_map(|call| Some(format!("{name}: {line}: {}", problem(call, is_whole)?))),
                );
            }
        }
    }
    (wrong, n_calls)
}

#[test]
fn every_command_in_the_documentation_is_one_of_pintle() -> Result<()> {
    let root = workspace_dir();
    let (mut wrong, mut n_calls) = (Vec::new(), 0);
    for page in links::pages(&root)? {
        let name = page.display().to_string();
        if HISTORY.contains(&&*name) || is_in(&page, &TEMPLATES) {
            continue;
        }
        let text = fs::read_to_string(root.join(&page)).with_context(|| format!("read {name}"))?;
        let (more, n) = wrong_calls(&name, &text);
        wrong.extend(more);
        n_calls += n;
    }
    ensure!(n_calls > 200, "only {n_calls} calls found");
    assert!(wrong.is_empty(), "`pintle --help` lists what exists:\n{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn wrong_commands_are_found_where_readers_copy_them() {
    let page = "```sh\npintle rbac --controller=x | kubectl apply -f -   # pintle no comment\nA=b target/debug/pintle dev &\n\
                pintle plugin disable \\\n  web --why 'a b' --for 1m\npintle plugin describe\n\
                pintle inspect oci://x.example/y@sha256:... > out.txt\n```\n\
                ```console\n$ pintle run --cotext=x\npintle is output\n```\n```yaml\na: pintle gone\n```\n\
                ```ini\nExecStart=/usr/bin/pintle go\n```\n\
                Use `pintle plugin rollback`, `pintle plugin undo`, `pintle dev --plugin` and `pintle new ...`.\n\
                ```sh\nkubectl pintle top -n x --once\nkubectl pintle run\nkubectl get pods\n```\n";
    let (wrong, n_calls) = wrong_calls("a.md", page);
    let wrong: Vec<&str> = wrong.iter().map(|line| line.strip_prefix("a.md: ").unwrap_or_default()).collect();
    let begin = |line: &&str| line.split("error:").next().unwrap_or_default().to_owned();
    assert_eq!(
        wrong.iter().map(begin).collect::<Vec<_>>(),
        [
            "pintle rbac --controller=x | kubectl apply -f -   # pintle no comment: ",
            "pintle plugin disable    web --why 'a b' --for 1m: ",
            "pintle plugin describe: ",
            "pintle run --cotext=x: ",
            "/usr/bin/pintle go: ",
            "kubectl pintle run: ",
            "pintle plugin undo: ",
        ],
        "{wrong:#?}"
    );
    assert_eq!(n_calls, 12);
}

/// Whether a line of a code block is a command for a cluster.
fn is_for_cluster(line: &str) -> bool {
    let line = line
        .split_once('=')
        .filter(|(name, _)| !name.contains(' '))
        .map_or(line, |(_, rest)| rest.trim_start_matches("$("));
    let mut words = line.split_whitespace();
    match words.next() {
        Some("kubectl" | "helm") => true,
        Some("pintle" | "target/debug/pintle") => {
            words.next().is_some_and(|command| ["run", "dev", "plugin", "top", "rbac", "crd"].contains(&command))
        }
        _ => false,
    }
}

/// `tests/README.md` says under which account each of them runs, and in which test.
#[test]
fn every_page_with_commands_for_a_cluster_is_run_by_a_test() -> Result<()> {
    let root = workspace_dir();
    let list = fs::read_to_string(root.join("tests/README.md"))?;
    let (_, list) = list.split_once("\n## Pages\n").context("no list of pages")?;
    let list = list.split("\n## ").next().unwrap_or_default();
    let rows = list.lines().filter_map(|line| line.strip_prefix("| `")).map(|row| row.split(" | ").collect::<Vec<_>>());
    let mut listed = Vec::new();
    for row in rows {
        let [pages, _, tests, ..] = row[..] else { anyhow::bail!("a row without a test: {row:?}") };
        let names = |cell: &str| cell.split(", ").map(|name| name.trim_matches('`').to_owned()).collect::<Vec<_>>();
        listed.extend(names(pages));
        for test in names(tests) {
            let exists =
                ["system", "long"].iter().any(|tier| root.join(format!("tests/tests/{tier}/{test}.rs")).exists());
            ensure!(exists, "there is no test {test}, of {pages}");
        }
    }
    let is_listed = |name: &str| {
        listed.iter().any(|pattern| match pattern.split_once('*') {
            Some((start, end)) => name.starts_with(start) && name.ends_with(end),
            None => pattern == name,
        })
    };
    let mut missing = Vec::new();
    let mut n_found = 0;
    for page in links::pages(&root)? {
        let name = page.display().to_string();
        if HISTORY.contains(&&*name) || is_in(&page, &TEMPLATES) || name.starts_with("sdk/docs/tutorial/") {
            continue;
        }
        let text = fs::read_to_string(root.join(&page)).with_context(|| format!("read {name}"))?;
        let blocks = code(&text).blocks;
        let found = blocks.iter().flat_map(|(info, text)| lines(info, text)).find(|line| is_for_cluster(line));
        n_found += usize::from(found.is_some());
        if let Some(line) = found.filter(|_| !is_listed(&name)) {
            missing.push(format!("{name}: {line}"));
        }
    }
    ensure!(n_found > 15, "only {n_found} pages have commands for a cluster");
    assert!(missing.is_empty(), "not in the list of pages in tests/README.md:\n{}", missing.join("\n"));
    Ok(())
}

/// The controllers of kube-controller-manager: name, and whether it runs by default.
fn upstream() -> Result<BTreeMap<String, bool>> {
    let facts = process::output(Command::new(controlplane::ensure_binary()?).arg("facts"))?;
    let controllers = facts.lines().filter_map(|line| line.strip_prefix("controller ")?.split_once(' '));
    Ok(controllers.map(|(name, rest)| (name.to_owned(), rest.starts_with("on "))).collect())
}

/// The pages about controllers are generated from this list.
#[test]
fn the_list_of_controllers_is_that_of_upstream() -> Result<()> {
    let list = Upstream::read()?;
    let areas = list.areas.iter().filter(|area| !area.cloud_providers);
    let listed: Vec<(String, bool)> = areas
        .flat_map(|area| &area.controllers)
        .map(|controller| (controller.name.clone(), !controller.off_by_default))
        .collect();
    let unique: BTreeMap<String, bool> = listed.iter().cloned().collect();
    assert_eq!(unique.len(), listed.len(), "a controller is in upstream.yaml twice");
    assert_eq!(unique, upstream()?, "upstream.yaml and upstream: name, and whether it is on by default");
    Ok(())
}

#[test]
fn the_example_with_a_custom_resource_is_what_pintle_new_writes() -> Result<()> {
    let page = fs::read_to_string(workspace_dir().join("sdk/docs/custom-resources.md"))?;
    let folder = tempfile::tempdir()?;
    let project = folder.path().join("teams");
    let mut new =
        binary::command(["new", "teams", "--lang", "go", "--kind", "example.org/v1/Team", "--example", "--dir"])?;
    Answer::of(new.arg(&project))?.success()?;
    let mut files = BTreeMap::new();
    for (info, text) in code(&page).blocks {
        if let Some((_, file)) = info.split_once(" file=") {
            files.insert(file.to_owned(), text);
        }
    }
    // What the types give is compared by `long kinds::`, which needs Go.
    let definition = files.remove("crds/example.org_teams.yaml").context("no definition on the page")?;
    assert_eq!(files.keys().collect::<Vec<_>>(), ["api/team.go", "manifest.yaml", "samples/team.yaml"]);
    for (file, text) in &files {
        assert_eq!(*text, fs::read_to_string(project.join(file))?, "{file}");
    }
    // The definition and the sample are accepted, and mistakes are not.
    let definition: Value = serde_norway::from_str(&definition)?;
    let team: Value = serde_norway::from_str(&files["samples/team.yaml"])?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let cluster = TestCluster::embedded().await?;
        cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        let teams = "/apis/example.org/v1/namespaces/default/teams";
        let made = cluster.client.create(teams, &team).await?;
        assert_eq!(made["spec"]["format"], "Lines", "the default");
        for (field, value) in [("format", json!("Boxes")), ("members", json!([])), ("members", json!(["Ann"]))] {
            let mut wrong = team.clone();
            wrong["metadata"]["name"] = json!("wrong");
            wrong["spec"][field] = value;
            let answer = cluster.client.create(teams, &wrong).await;
            assert!(answer.is_err(), "{wrong}");
        }
        Ok(())
    })
}
