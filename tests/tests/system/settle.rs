//! `pintle test` carries out cases with `settle`: the embedded API server, the host's runtime, and a clock that the case moves.

use anyhow::{Context, Result, ensure};
use pintle_tests::pintle::{self, Answer};
use pintle_tests::{components, workspace_dir};
use serde_json::{Value, json};

/// Cases of the guest `restless`, whose key's object has the name of the case.
struct Cases {
    folder: tempfile::TempDir,
}

impl Cases {
    /// `settle`: of the input, in YAML.
    fn new(names: &[&str], settle: &str) -> Result<Cases> {
        let cases = Cases { folder: tempfile::tempdir()? };
        std::fs::write(cases.folder.path().join("guest.wasm"), components::guest("restless")?)?;
        for name in names {
            cases.write(name, settle, "---\nsteps: []\n")?;
        }
        Ok(cases)
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(format!("cases/{name}.yaml"))
    }

    fn write(&self, name: &str, settle: &str, expected: &str) -> Result<()> {
        std::fs::create_dir_all(self.folder.path().join("cases"))?;
        let input = json!({
            "key": {"kind": "example.com/v1/Widget", "namespace": "default", "name": name},
            "objects": [{
                "apiVersion": "example.com/v1", "kind": "Widget",
                "metadata": {"name": name, "namespace": "default"}, "spec": {"color": "red"},
            }],
        });
        std::fs::write(self.file(name), format!("{}{settle}\n{expected}", yaml(&input)?))?;
        Ok(())
    }

    fn test(&self, more: &[&str]) -> Result<Answer> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let mut command = pintle::command(["test", &path("guest.wasm"), "--cases", &path("cases")])?;
        Answer::of(command.args(more))
    }

    /// Makes what is seen what is expected; the texts of the documents.
    fn updated(&self, name: &str) -> Result<Vec<String>> {
        self.test(&["--update"])?.success()?;
        Ok(std::fs::read_to_string(self.file(name))?.split("\n---\n").map(str::to_owned).collect())
    }

    /// The problem of the only case that there is, and its details.
    fn why(&self) -> Result<(String, String)> {
        let answer = self.test(&["-o", "json"])?;
        ensure!(!answer.is_good(), "{}", answer.text());
        let report: Value = serde_json::from_str(&answer.output).with_context(|| answer.text())?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let settle = &report["cases"][0]["settle"];
        Ok((text(&settle["problem"]), text(&settle["details"])))
    }
}

fn yaml(value: &Value) -> Result<String> {
    Ok(serde_norway::to_string(value)?)
}

fn read(text: &str) -> Result<Value> {
    Ok(serde_norway::from_str(text)?)
}

#[test]
fn a_field_that_flips_is_reported_with_its_values_and_the_last_three_runs() -> Result<()> {
    let (problem, details) = Cases::new(&["flips"], "settle: {runs: 7}")?.why()?;
    let key = "example.com/v1/Widget default/flips";
    assert_eq!(problem, format!("the plugin does not settle: after 7 runs of {key}, it still writes something"));
    for n in ["run 5 writes:", "run 6 writes:", "run 7 writes:"] {
        assert!(details.contains(n), "no {n:?} in:\n{details}");
    }
    assert!(!details.contains("run 4 writes:"), "{details}");
    let flip = format!("  {key}: spec.color: ... -> \"red\" -> \"blue\" -> \"red\" -> \"blue\"\n");
    assert!(details.contains(&flip), "no {flip:?} in:\n{details}");
    Ok(())
}

#[test]
fn an_object_that_is_deleted_and_created_again_and_again_is_reported() -> Result<()> {
    let (problem, details) = Cases::new(&["recreates"], "settle: {}")?.why()?;
    assert!(problem.contains("the plugin does not settle: after 20 runs"), "{problem}");
    let flip = "  v1/ConfigMap default/recreates: it is ... -> there -> gone -> there -> gone\n";
    assert!(details.contains(flip), "no {flip:?} in:\n{details}");
    Ok(())
}

#[test]
fn refused_writes_are_reported_in_the_words_of_the_api_server() -> Result<()> {
    let modified = "patch example.com/v1/Widget default/conflicts: 409 Conflict: Operation cannot be fulfilled on widgets.example.com \
                    \"conflicts\": the object has been modified; please apply your changes to the latest version and try again (20 times)";
    let invalid =
        "create v1/ConfigMap default/-: 422 Invalid: ConfigMap \"-\" is invalid: metadata.name: Invalid value: \"-\": ";
    for (name, refusal) in [("conflicts", modified), ("is-refused", invalid)] {
        let (problem, details) = Cases::new(&[name], "settle: {}")?.why()?;
        assert!(problem.contains("the plugin does not settle: all writes of 20 runs"), "{problem}");
        assert!(details.contains(refusal), "no {refusal:?} in:\n{details}");
    }
    Ok(())
}

#[test]
fn a_write_that_is_not_granted_ends_the_case() -> Result<()> {
    let (problem, _) = Cases::new(&["is-denied"], "settle: {}")?.why()?;
    let start = "a run of example.com/v1/Widget default/is-denied ended with a fault: grant: ";
    assert!(problem.starts_with(start) && problem.contains("add `- {verbs: [patch], "), "{problem}");
    Ok(())
}

#[test]
fn a_fault_on_the_way_is_reported() -> Result<()> {
    let (problem, _) = Cases::new(&["faults"], "settle: {}")?.why()?;
    assert!(
        problem.starts_with("a run of example.com/v1/Widget default/faults ended with a fault: trap: "),
        "{problem}"
    );
    Ok(())
}

#[test]
fn one_more_run_that_wants_something_is_not_stable() -> Result<()> {
    let (problem, details) = Cases::new(&["is-unstable"], "settle: {}")?.why()?;
    let key = "example.com/v1/Widget default/is-unstable";
    let unstable =
        format!("the plugin settles and is not stable: one more run of {key}, a second later, writes something");
    assert_eq!(problem, unstable);
    assert!(details.contains("done: true"), "{details}");
    Ok(())
}

#[test]
fn a_status_with_the_time_in_it_is_not_stable() -> Result<()> {
    let (problem, details) = Cases::new(&["shows-the-time"], "settle: {}")?.why()?;
    assert!(problem.starts_with("the plugin settles and is not stable: one more run of"), "{problem}");
    assert!(details.contains("2026-01-01T00:00:01"), "{details}");
    Ok(())
}

#[test]
fn a_plugin_that_nothing_enqueues_after_its_own_write_is_reported() -> Result<()> {
    let (problem, details) = Cases::new(&["stalls"], "settle: {}")?.why()?;
    let key = "example.com/v1/Widget default/stalls";
    let stalls = format!(
        "the plugin settles only because the case runs {key} again: in a cluster, nothing enqueues it after its writes"
    );
    assert_eq!(problem, stalls);
    for part in ["name: elsewhere", "one more run writes:", "done: true", "add what the first run changes to `enqueue`"]
    {
        assert!(details.contains(part), "no {part:?} in:\n{details}");
    }
    Ok(())
}

#[test]
fn requeues_without_end_settle_if_they_want_nothing() -> Result<()> {
    let documents = Cases::new(&["requeues"], "settle: {}")?.updated("requeues")?;
    assert_eq!(documents[1..], ["steps: []\nrequeueAfter: 1ms", "{}\n"]);
    Ok(())
}

#[test]
fn the_clock_moves_to_a_requeue_within_reach_and_a_step_moves_it_further() -> Result<()> {
    let done =
        json!({"changed": [{"object": "example.com/v1/Widget default/waits", "changes": {"spec": {"done": true}}}]});
    for (settle, end) in [
        ("settle: {}", &done),
        ("settle: {within: 29s}", &json!({})),
        ("settle: {within: 9s, then: [{advance: 20s}]}", &json!({})),
        // The run after 20 s asks for one after 50 s, and the first request stays.
        ("settle: {within: 9s, then: [{advance: 20s}, {advance: 10s}]}", &done),
    ] {
        let documents = Cases::new(&["waits"], settle)?.updated("waits")?;
        assert_eq!(read(&documents[2])?, *end, "{settle}");
    }
    Ok(())
}

#[test]
fn names_and_uids_that_the_server_chooses_are_numbered() -> Result<()> {
    let documents = Cases::new(&["makes-two"], "settle: {}")?.updated("makes-two")?;
    let made = |n: u32| {
        let metadata = json!({"generateName": "made-", "namespace": "default", "name": format!("made-{n}")});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    };
    assert_eq!(read(&documents[2])?, json!({"created": [made(1), made(2)]}));
    Ok(())
}

#[test]
fn a_case_goes_on_with_what_others_do_and_its_end_is_compared() -> Result<()> {
    let steps = "settle:
  then:
  - apply: {apiVersion: example.com/v1, kind: Widget, metadata: {name: copies, namespace: default}, spec: {color: blue}}
  - delete: {kind: v1/ConfigMap, namespace: default, name: copies}
  - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: default}, data: {a: b}}
";
    let cases = Cases::new(&["copies"], steps)?;
    let missing = cases.test(&[])?.text();
    let no_end = "the plugin settles, and the case has no expected end; --update writes it after a second line `---`";
    assert!(missing.contains(no_end) && missing.contains("+++ this component"), "{missing}");
    let documents = cases.updated("copies")?;
    let map = |name: &str, data: Value| {
        let metadata = json!({"name": name, "namespace": "default"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    };
    let widget = json!({"object": "example.com/v1/Widget default/copies", "changes": {"spec": {"color": "blue"}}});
    let created = [map("copies", json!({"color": "blue"})), map("other", json!({"a": "b"}))];
    assert_eq!(read(&documents[2])?, json!({"created": created, "changed": [widget]}));
    assert!(documents[0].contains("  then:\n  - apply: {apiVersion"), "the input has changed: {}", documents[0]);

    let settled = cases.test(&[])?.success()?;
    assert!(settled.contains("ok       copies: settles, and is stable ("), "{settled}");
    let whole = std::fs::read_to_string(cases.file("copies"))?;
    std::fs::write(cases.file("copies"), whole.replace("    color: blue\n", "    color: green\n"))?;
    let other = cases.test(&[])?;
    assert!(!other.is_good());
    for part in ["the objects in the end are not the expected ones", "-    color: green", "+    color: blue"] {
        assert!(other.output.contains(part), "no {part:?} in:\n{}", other.output);
    }
    Ok(())
}

/// The cases of the errands in `tests/errand` that ask for a call and for a signature, with an example that asks for both.
#[test]
fn calls_and_signatures_of_a_case_answer_until_nothing_is_wanted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let component = folder.path().join("errand.wasm");
    let source = workspace_dir().join("sdk/rust/examples/errand");
    pintle::run(["build".as_ref(), source.as_os_str(), "-o".as_ref(), component.as_os_str()])?;
    let cases = folder.path().join("cases");
    std::fs::create_dir(&cases)?;
    for name in ["call", "token"] {
        let case = std::fs::read_to_string(workspace_dir().join(format!("tests/errand/cases/{name}.yaml")))?;
        ensure!(case.contains("\nsettle: {}\n"), "{name} does not settle");
        std::fs::write(cases.join(format!("{name}.yaml")), &case)?;
        // As above, without its answers.
        let without = case.replace("\ncalls:\n  -", "\ndefine:\n  -").replace("\nsignatures:\n  -", "\ndefine:\n  -");
        ensure!(without != case, "{name} has no answers");
        std::fs::write(cases.join(format!("no-{name}.yaml")), without)?;
    }
    let mut command = pintle::command(["test".as_ref(), component.as_os_str(), "--cases".as_ref(), cases.as_os_str()])?;
    let told = Answer::of(&mut command)?.text();
    for part in
        ["ok       call: settles, and is stable (", "ok       token: settles, and is stable (", "2 of 4 cases passed"]
    {
        ensure!(told.contains(part), "no {part:?} in {told}");
    }
    Ok(())
}

#[test]
fn what_a_cluster_cannot_have_is_refused() -> Result<()> {
    let cases = [
        ("settle: {}\nfailures: []\nattempt: 3", "the case has `attempt`, which describes a single run"),
        (
            "settle: {then: [{delete: {kind: v1/ConfigMap, namespace: default, name: gone}}]}",
            "step 1 (delete v1/ConfigMap default/gone) of the case failed: 404 NotFound: configmaps \"gone\" not found",
        ),
        (
            "settle: {then: [{apply: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default}}}]}",
            "step 1 (apply v1/Pod default/p) of the case failed: 422 Invalid: Pod \"p\" is invalid: spec.containers: Required value",
        ),
        ("settle: {}\nresources: []\nlive: []", "the case has `live`, which describes a single run"),
    ];
    for (settle, part) in cases {
        let (problem, _) = Cases::new(&["copies"], settle)?.why()?;
        assert!(problem.contains(part), "no {part:?} in: {problem}");
    }
    let cases = Cases::new(&["copies"], "settle: {steps: []}")?;
    let errors = cases.test(&[])?.errors;
    assert!(
        errors.contains("settle.steps: unknown field `steps`, expected one of `runs`, `within`, `then`"),
        "{errors}"
    );
    cases.write("copies", "", "---\nsteps: []\n---\n{}\n")?;
    let errors = cases.test(&[])?.errors;
    assert!(errors.contains("A third one, the end, needs `settle: {}` in the input"), "{errors}");
    Ok(())
}

#[test]
fn every_case_can_be_tried_and_none_fails_by_that() -> Result<()> {
    let cases = Cases::new(&["copies", "flips"], "")?;
    cases.test(&["--update"])?.success()?;
    let report = cases.test(&["--settle"])?.success()?;
    assert!(report.contains("ok       copies: settles, and is stable (3 runs)\n"), "{report}");
    let flips = "ok       flips\n         --settle: the plugin does not settle: after 20 runs of example.com/v1/Widget default/flips, \
                 it still writes something\n         run 18 writes:\n";
    assert!(report.contains(flips), "no {flips:?} in:\n{report}");
    let report = cases.test(&["--settle", "-o", "json"])?.json()?;
    let ok: Vec<&Value> =
        report["cases"].as_array().context("no cases")?.iter().map(|case| &case["settle"]["ok"]).collect();
    assert_eq!(ok, [&json!(true), &json!(false)]);
    Ok(())
}
