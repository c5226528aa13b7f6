//! The tutorials of all languages (`sdk/docs/tutorial-*.md`) are correct: each command runs unchanged, on a machine with only the base
//! tools, the tools of one language, kubectl and pintle, and prints what the page shows.
//!
//! Caches are empty, so times are those of a first use. What a page says to install is not installed here, but the test checks that it
//! is there; `cargo xtask languages` installs it. The languages share nothing.
//!
//! `cargo test --workspace --test long tutorials:: -- --nocapture` prints the times of each page.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_build::{Language, Scaffold};
use pintle_tests::tutorial::{Machine, Page, Player, Timed, machine};
use pintle_tests::workspace_dir;
use xtask::tutorials::with_kind;

/// A column of the table: its heading, and whether it tells of what was timed.
type Column = (&'static str, fn(&str) -> bool);

const COLUMNS: [Column; 5] = [
    ("new", |what| what.starts_with("pintle new")),
    ("first build", |what| what == "pintle build"),
    ("test", |what| what == "pintle test"),
    ("dev, loaded", |what| what.starts_with("pintle dev")),
    ("saved to swapped", |what| what.contains("swapped in")),
];

fn page(language: Language) -> Result<Page> {
    let name = language.tutorial();
    let text = std::fs::read_to_string(workspace_dir().join(&name)).with_context(|| format!("read {name}"))?;
    Page::parse(&text).context(name)
}

/// Follows a page; answers a row of the table.
async fn follow(language: Language) -> Result<String> {
    let page = page(language)?;
    let machine = Machine::new(language)?;
    let mut player = Player::new(&machine)?;
    for other in Language::ALL {
        for program in machine::own(other).iter().filter(|program| !machine::own(language).contains(program)) {
            ensure!(!player.finds(program).await?, "{program} is there, which is no tool of {language}");
        }
    }
    let times = player.follow(&page).await?;
    let row = COLUMNS.iter().map(|(name, is_of)| {
        let first = times.iter().find(|timed| is_of(&timed.what));
        let Timed { took, .. } = first.with_context(|| format!("the page shows nothing for the column {name:?}"))?;
        Ok(cell(*took))
    });
    Ok(format!("{:10} |{}", language.to_string(), row.collect::<Result<Vec<_>>>()?.join("|")))
}

fn cell(took: Duration) -> String {
    format!("{:>17} ", format!("{:.2} s", took.as_secs_f64()))
}

async fn check(language: Language) -> Result<()> {
    let heading: String = COLUMNS.iter().map(|(name, _)| format!("|{name:>17} ")).collect();
    let row = follow(language).await.with_context(|| language.tutorial())?;
    println!("{:10} {heading}\n{row}", "");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_rust_shows_what_its_commands_print() -> Result<()> {
    check(Language::Rust).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_go_shows_what_its_commands_print() -> Result<()> {
    check(Language::Go).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_typescript_shows_what_its_commands_print() -> Result<()> {
    check(Language::TypeScript).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_javascript_shows_what_its_commands_print() -> Result<()> {
    check(Language::JavaScript).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_python_shows_what_its_commands_print() -> Result<()> {
    check(Language::Python).await
}

/// Follows the page that shows a controller with its own kind.
async fn check_kind(language: Language) -> Result<()> {
    let name = with_kind(language);
    let text = std::fs::read_to_string(workspace_dir().join(&name)).with_context(|| format!("read {name}"))?;
    let page = Page::parse(&text).context(name.clone())?;
    let machine = Machine::new(language)?;
    Player::new(&machine)?.follow(&page).await.context(name).map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_an_own_kind_in_go_shows_what_its_commands_print() -> Result<()> {
    check_kind(Language::Go).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_an_own_kind_in_typescript_shows_what_its_commands_print() -> Result<()> {
    check_kind(Language::TypeScript).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_for_an_own_kind_in_python_shows_what_its_commands_print() -> Result<()> {
    check_kind(Language::Python).await
}

/// The next steps that `pintle new` prints are those of the page.
#[test]
fn every_step_that_pintle_new_prints_is_on_the_page() -> Result<()> {
    for language in Language::ALL {
        let page = page(language)?;
        let scaffold = Scaffold {
            name: "service-ports",
            language,
            folder: Path::new("service-ports"),
            kind: None,
            example: false,
            schemas: &[],
        };
        for step in scaffold.next_steps() {
            let command = step.split(" #").next().unwrap_or_default().trim();
            ensure!(page.commands().any(|other| other == command), "{language}: {command} is not on the page");
        }
    }
    Ok(())
}
