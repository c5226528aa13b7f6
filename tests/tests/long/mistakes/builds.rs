//! Mistakes that `pintle build` finds: each is a change of a project in `tests/authors`, or of what there is on the machine.

use std::ffi::OsString;

use anyhow::{Context, Result};
use pintle_tests::authors::{self, Author};
use pintle_tests::pintle::Answer;

use super::{Told, show, steady};

/// A change of a file.
struct Edit {
    language: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    /// Text of the line that must be told of, where the answer is a compiler's.
    place: Option<&'static str>,
    /// What the answer says.
    says: &'static [&'static str],
}

/// A project that is changed as an author would have written it wrongly.
const fn edit(language: &'static str, file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit { language, file, from, to, place: None, says: &[] }
}

impl Edit {
    const fn at(self, place: &'static str) -> Self {
        Self { place: Some(place), ..self }
    }

    const fn says(self, says: &'static [&'static str]) -> Self {
        Self { says, ..self }
    }
}

/// Nothing is exported, or under another name.
const NO_EXPORT: [Edit; 5] = [
    edit("rust", "src/lib.rs", "pintle_sdk::export!(reconcile);", "")
        .says(&["exports no function `reconcile`", "export!"]),
    edit("go", "main.go", "pintle.Export(reconcile)", "_ = reconcile")
        .says(&["call pintle.Export in an init function"]),
    edit("ts", "src/controller.ts", "function reconcile(", "function reconcil(").says(&["must export it"]),
    edit("js", "controller.js", "function reconcile(", "function reconcil(").says(&["must export it"]),
    edit("python", "controller.py", "def reconcile(", "def reconcil(")
        .says(&["must define `def reconcile(key, lister):`"]),
];

/// `reconcile` takes or gives something else. Languages without types meet it when it is called.
const WRONG_SIGNATURE: [Edit; 3] = [
    edit(
        "rust",
        "src/lib.rs",
        "pub fn reconcile(key: &Key, lister: &impl Lister)",
        "pub fn reconcile(key: &Key, lister: &str)",
    )
    .at("export!(reconcile)"),
    edit("go", "main.go", "func reconcile(key pintle.Key,", "func reconcile(key string,")
        .at("pintle.Export(reconcile)"),
    edit(
        "ts",
        "src/controller.ts",
        "let runs = 0;",
        "const checked: (key: string) => Outcome = (key) => reconcile(key);\nlet runs = checked.length - 1;",
    )
    .at("=> reconcile(key)")
    .says(&["Expected 2 arguments, but got 1", "the types are wrong"]),
];

/// A method of the lister is written as if it were a field. Compilers refuse it; the languages without types go on with a function.
const NO_CALL: [Edit; 1] = [edit(
    "ts",
    "src/controller.ts",
    "  switch (key.name) {",
    "  const late: boolean = lister.now > 0;\n  switch (late ? \"\" : key.name) {",
)
.at("lister.now > 0")
.says(&["Operator '>' cannot be applied", "the types are wrong"])];

const NO_SYNTAX: [Edit; 5] = [
    edit("rust", "src/lib.rs", "items.len() + 1;", "items.len() + ;").at("items.len() + ;"),
    edit("go", "main.go", "func main() {}", "func main() {").at("func keep("),
    edit("ts", "src/controller.ts", "let runs = 0;", "let runs = ;").at("let runs = ;"),
    edit("js", "controller.js", "let runs = 0;", "let runs = ;").at("let runs = ;"),
    edit("python", "controller.py", "def step(mutation: Mutation)", "def step(mutation: Mutation").at("def step("),
];

/// What a plugin has no network for.
const NETWORK: [Edit; 2] = [
    edit("ts", "src/controller.ts", "let runs", "import net from \"node:net\";\nnet.connect(80);\nlet runs")
        .at("node:net")
        .says(&["has no files, network or processes"]),
    edit("js", "controller.js", "let runs", "import net from \"node:net\";\nnet.connect(80);\nlet runs")
        .at("node:net")
        .says(&["has no files, network or processes"]),
];

fn author(language: &str) -> Result<&'static Author> {
    authors::built()?.iter().find(|author| author.language == language).context("no such language")
}

/// Builds the changed project; what is built without a complaint is run.
fn answer(edit: &Edit) -> Result<(Answer, Option<String>)> {
    let author = author(edit.language)?;
    author.with(edit.file, edit.from, edit.to, || {
        let folder = tempfile::tempdir()?;
        let component = folder.path().join("spoilt.wasm");
        let place = edit.place.map(|text| author.place(edit.file, text)).transpose()?;
        let built = author.build(&component, &[])?;
        if !built.is_good() {
            return Ok((built, place));
        }
        super::write_case(&folder.path().join("cases"), "panic", &serde_json::json!({}), &[], None)?;
        Ok((authors::test(&component, &folder.path().join("cases"), &[])?, place))
    })
}

/// What `pintle` itself says: its last line, and what `pintle test` prints of the case.
fn own_words(answer: &Answer) -> String {
    let of_case = answer.output.lines().filter(|line| line.starts_with("         "));
    let own = answer.errors.lines().skip_while(|line| !line.starts_with("pintle: "));
    of_case.chain(own).map(|line| line.trim_start().to_owned() + "\n").collect()
}

fn check(told: &mut Told, mistake: &'static str, edits: &'static [Edit]) -> Result<()> {
    // At most one edit of each language, so that each changes another project.
    let answers = authors::side_by_side(edits, answer)?;
    for (edit, (answer, place)) in edits.iter().zip(answers) {
        let all = format!("{}{}", answer.output, answer.errors);
        let about = format!("{}, {mistake}: {all}", edit.language);
        assert!(!answer.is_good(), "{about}");
        // Compilers write a place in several ways: FILE:LINE:COLUMN, FILE(LINE,COLUMN), or FILE", line LINE.
        if let Some((file, line)) = place.as_deref().and_then(|place| place.split_once(':')) {
            let told = [
                format!("{file}:{line}"),
                format!("{file}\", line {line}"),
                format!("{file}, line {line}"),
                format!("{file}({line},"),
            ];
            assert!(told.iter().any(|place| all.contains(place)), "no {file}:{line} in {about}");
        }
        for part in edit.says {
            assert!(all.contains(part), "no {part:?} in {about}");
        }
        let own = steady(&own_words(&answer), &author(edit.language)?.folder);
        let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
        told.entry(mistake).or_default().insert(edit.language, format!("{place}{own}"));
    }
    Ok(())
}

#[test]
fn each_mistake_that_a_build_can_see_is_told_with_its_place() -> Result<()> {
    let mut told = Told::new();
    check(&mut told, "no-export", &NO_EXPORT)?;
    check(&mut told, "wrong-signature", &WRONG_SIGNATURE)?;
    check(&mut told, "no-syntax", &NO_SYNTAX)?;
    check(&mut told, "no-call", &NO_CALL)?;
    check(&mut told, "network", &NETWORK)?;
    manifest_typo(&mut told)?;
    no_mapping(&mut told)?;
    missing_tool(&mut told)?;
    show(&told);
    Ok(())
}

/// Found before anything is compiled, and the same in every language.
fn manifest_typo(told: &mut Told) -> Result<()> {
    for author in authors::built()? {
        let answer = author.with("manifest.yaml", "    fields: [spec]", "    field: [spec]", || spoilt(author, &[]))?;
        keep(told, "manifest-typo", author, &answer, &["watches[0]: unknown field `field`", " at line "]);
    }
    Ok(())
}

/// `to: plugin` in the manifest, and nothing that maps.
fn no_mapping(told: &mut Told) -> Result<()> {
    for author in authors::built()?.iter().filter(|author| ["ts", "js", "python"].contains(&author.language)) {
        let answer = author.with("manifest.yaml", "{to: self}", "{to: plugin}", || spoilt(author, &[]))?;
        keep(told, "no-mapping", author, &answer, &["to: plugin"]);
    }
    Ok(())
}

/// A machine on which nothing is installed.
fn missing_tool(told: &mut Told) -> Result<()> {
    let nothing = tempfile::tempdir()?;
    let environment: Vec<(&str, OsString)> = ["PATH", "VIRTUAL_ENV"].map(|name| (name, nothing.path().into())).into();
    for author in authors::built()? {
        let says: &[&str] = match author.language {
            "rust" => &["there is no cargo", "https://rustup.rs"],
            "go" => &["there is no Go compiler", "https://go.dev/dl"],
            "ts" | "js" => &["there is no Node.js", "https://nodejs.org"],
            _ => &["there is no componentize-py", "pip install componentize-py=="],
        };
        let answer = spoilt(author, &environment)?;
        keep(told, "missing-tool", author, &answer, says);
    }
    Ok(())
}

fn spoilt(author: &Author, environment: &[(&str, OsString)]) -> Result<Answer> {
    let folder = tempfile::tempdir()?;
    author.build(&folder.path().join("spoilt.wasm"), environment)
}

fn keep(told: &mut Told, mistake: &'static str, author: &Author, answer: &Answer, says: &[&str]) {
    let about = format!("{}, {mistake}: {}", author.language, answer.errors);
    assert!(!answer.is_good(), "{about}");
    for part in says {
        assert!(answer.errors.contains(part), "no {part:?} in {about}");
    }
    let own = steady(&own_words(answer), &author.folder);
    told.entry(mistake).or_default().insert(author.language, own);
}
