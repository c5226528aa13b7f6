//! Mistakes that show when a plugin runs: each is a case of `pintle test`, whose key has the mistake's name.

use anyhow::{Context, Result};
use pintle_tests::authors::{self, Author};
use serde_json::{Value, json};

use super::{Told, show, steady, write_case};

/// A mistake of the projects in `tests/authors`.
struct Mistake {
    name: &'static str,
    /// Languages in which it can be made, if not in all.
    only: &'static [&'static str],
    /// What every answer says.
    says: &'static [&'static str],
    /// Where it is made, as far as a run can tell: language, file, what the line says.
    places: &'static [(&'static str, &'static str, &'static str)],
}

const ALL: &[&str] = &authors::LANGUAGES;
const TS: &str = "src/controller.ts";
const JS: &str = "controller.js";
const PYTHON: &str = "controller.py";

static MISTAKES: [Mistake; 13] = [
    Mistake {
        name: "panic",
        only: ALL,
        says: &["the run ended with a fault: trap: the plugin ended the run; the last error in its log: "],
        places: &[
            ("rust", "src/lib.rs", "items[at]"),
            ("go", "main.go", "items[at]"),
            ("ts", TS, "third.name"),
            ("js", JS, "third.name"),
            ("python", PYTHON, "items[2]"),
        ],
    },
    Mistake {
        name: "null",
        only: &["go"],
        says: &["the last error in its log: panic: "],
        places: &[("go", "main.go", "mistake.Spec.Settings), nil")],
    },
    // In Rust the place is one of the standard library, and in Go nothing is thrown: a run on a used instance shows it.
    Mistake {
        name: "clock",
        only: ALL,
        says: &["lister.now"],
        places: &[("ts", TS, "new Date()"), ("js", JS, "new Date()"), ("python", PYTHON, "datetime.now()")],
    },
    Mistake {
        name: "random",
        only: ALL,
        says: &[],
        places: &[("ts", TS, "Math.random()"), ("js", JS, "Math.random()"), ("python", PYTHON, "random.random()")],
    },
    Mistake {
        name: "global",
        only: ALL,
        says: &["the outcome depends on earlier runs of the instance", "-  runs: '1'", "+  runs: '2'"],
        places: &[],
    },
    Mistake {
        name: "bad-json",
        only: ALL,
        says: &["the last error in its log: "],
        places: &[
            ("rust", "src/lib.rs", "\"spec.settings is JSON\""),
            ("go", "main.go", "panic(fmt.Errorf"),
            ("ts", TS, "JSON.parse("),
            ("js", JS, "JSON.parse("),
            ("python", PYTHON, "json.loads("),
        ],
    },
    // Rust and Go decode into types, which names the object and the field. The others meet the value where it is used.
    Mistake {
        name: "bad-type",
        only: ALL,
        says: &["replicas"],
        places: &[("ts", TS, "toFixed"), ("js", JS, "toFixed"), ("python", PYTHON, "[\"replicas\"] + 1")],
    },
    Mistake {
        name: "undeclared-kind",
        only: ALL,
        says: &["add `- {verbs: [create], kinds: [v1/Secret]}` to `grants` of the manifest"],
        places: &[],
    },
    Mistake {
        name: "forgotten-grant",
        only: ALL,
        says: &["add `- {verbs: [delete], kinds: [v1/ConfigMap]}` to `grants` of the manifest"],
        places: &[],
    },
    Mistake {
        name: "unwatched",
        only: ALL,
        says: &["kind v1/Secret is not watched by this plugin", "Add `- {kind: v1/Secret, fields: [...]}`"],
        places: &[],
    },
    Mistake {
        name: "loop",
        only: ALL,
        says: &["the deadline of 2000 ms has passed (limits.deadlineMs of the manifest)"],
        places: &[],
    },
    Mistake { name: "memory", only: ALL, says: &["memory"], places: &[] },
    Mistake { name: "deep", only: ALL, says: &[], places: &[] },
];

/// The objects of the keys.
fn spec(mistake: &str) -> Value {
    match mistake {
        "bad-json" => json!({"settings": "{\"name\": no}"}),
        "bad-type" => json!({"settings": "{}", "replicas": "2"}),
        _ => json!({}),
    }
}

/// What is told of each mistake of a language.
fn test(author: &Author) -> Result<Vec<(&'static Mistake, String)>> {
    let folder = tempfile::tempdir()?;
    let mistakes: Vec<_> = MISTAKES.iter().filter(|mistake| mistake.only.contains(&author.language)).collect();
    for mistake in &mistakes {
        // The first run is as it should be.
        let expected = (mistake.name == "global").then(|| json!({"steps": [], "state": {"runs": "1"}}));
        write_case(folder.path(), mistake.name, &spec(mistake.name), &[], expected.as_ref())?;
    }
    let answer = authors::test(&author.component, folder.path(), &[])?;
    assert!(!answer.is_good(), "{}", answer.output);
    let told = |mistake: &'static Mistake| {
        let head = format!("FAILED   {0}: example.com/v1/Mistake default/{0}\n", mistake.name);
        let rest = answer.output.split_once(&head).map(|(_, rest)| rest);
        let rest = rest.with_context(|| format!("{} is not told with its key:\n{}", mistake.name, answer.output))?;
        let lines =
            rest.lines().take_while(|line| line.starts_with(' ')).map(|line| line.trim_start_matches("         "));
        Ok((mistake, lines.collect::<Vec<_>>().join("\n")))
    };
    mistakes.into_iter().map(told).collect()
}

/// The bare name of a trap says nothing to an author.
fn is_bare(answer: &str) -> bool {
    answer.lines().any(|line| line.contains("fault: trap: wasm trap") || line.contains("fault: memory: wasm trap"))
}

#[test]
fn each_mistake_of_a_run_is_told_with_its_key_its_place_and_what_to_do() -> Result<()> {
    let mut all = Told::new();
    for author in authors::built()? {
        for (mistake, answer) in test(author)? {
            let about = format!("{}, {}: {answer}", author.language, mistake.name);
            assert!(!is_bare(&answer), "{about}");
            for part in mistake.says {
                assert!(answer.contains(part), "no {part:?} in {about}");
            }
            for (_, file, text) in mistake.places.iter().filter(|(language, ..)| *language == author.language) {
                let place = author.place(file, text)?;
                assert!(answer.contains(&place), "no {place} in {about}");
            }
            let answer = steady(&answer, &author.folder);
            all.entry(mistake.name).or_default().insert(author.language, answer);
        }
    }
    show(&all);
    Ok(())
}
