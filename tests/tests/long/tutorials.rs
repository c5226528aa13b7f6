//! The tutorials of all languages (`sdk/docs/tutorial-*.md`) are true: each command is run as it stands, by somebody who has nothing
//! but the base tools of a machine, one language's own, kubectl and pintle, and prints what the page shows.
//!
//! Caches are empty, so times are those of a first use. What a page tells to install is not installed here, but it is checked that it
//! is there; the machine gets it from `cargo xtask languages`. Nothing is shared between the languages.
//!
//! `cargo test --workspace --test long tutorials:: -- --nocapture` prints a table of times; `LANGUAGE_UNDER_TEST=go` follows one page alone.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use pintle_build::{Language, Scaffold};
use pintle_tests::tutorial::{Machine, Page, Player, Timed, machine};
use pintle_tests::workspace_dir;

/// How many pages are followed at once. Compilers take a processor or two each.
const AT_ONCE: usize = 2;

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

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_every_tutorial_prints_what_the_page_shows() -> Result<()> {
    let chosen = std::env::var("LANGUAGE_UNDER_TEST").ok();
    let is_chosen = |language: &Language| chosen.as_deref().is_none_or(|word| language.word() == word);
    let languages: Vec<Language> = Language::ALL.into_iter().filter(is_chosen).collect();
    ensure!(!languages.is_empty(), "LANGUAGE_UNDER_TEST is none of {}", Language::ALL.map(Language::word).join(", "));
    let heading: String = COLUMNS.iter().map(|(name, _)| format!("|{name:>17} ")).collect();
    println!("{:10} {heading}", "");
    let mut rows = futures::stream::iter(languages)
        .map(|language| async move { follow(language).await.with_context(|| language.tutorial()) })
        .buffer_unordered(AT_ONCE);
    let mut failures = Vec::new();
    while let Some(row) = rows.next().await {
        match row {
            Ok(row) => println!("{row}"),
            Err(why) => failures.push(format!("{why:#}")),
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
    Ok(())
}

/// Somebody who does what `pintle new` says misses nothing that the page does, and the other way round.
#[test]
fn every_step_that_pintle_new_prints_is_on_the_page() -> Result<()> {
    for language in Language::ALL {
        let page = page(language)?;
        let scaffold = Scaffold { name: "service-ports", language, folder: Path::new("service-ports") };
        for step in scaffold.next_steps() {
            let command = step.split(" #").next().unwrap_or_default().trim();
            ensure!(page.commands().any(|other| other == command), "{language}: {command} is not on the page");
        }
    }
    Ok(())
}
