//! The differences that are known, kept in `known.txt` with a reason each.
//!
//! The list can only shrink: a difference that is not in it is news, and so is a line in it whose
//! case no longer differs or does not exist.
//!
//! Not here: what exactly differs. A listed case may come to differ in another way unseen, which is
//! why every line is there to be removed.

use anyhow::{Context, Result, bail};

use super::Difference;
use super::script::Case;

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The title of the case.
    pub title: String,
    /// What differs, and why that is borne.
    pub reason: String,
}

/// The list.
///
/// # Errors
/// A line has no reason, or a title stands there twice.
pub fn known() -> Result<Vec<Known>> {
    parse(include_str!("known.txt"))
}

fn parse(text: &str) -> Result<Vec<Known>> {
    let mut all: Vec<Known> = Vec::new();
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (title, reason) = line.split_once(" | ").with_context(|| format!("known.txt: no reason: {line}"))?;
        if all.iter().any(|k| k.title == title) {
            bail!("known.txt: twice: {title}");
        }
        all.push(Known { title: title.to_owned(), reason: reason.to_owned() });
    }
    Ok(all)
}

/// What a comparison of `cases` says that the list does not.
#[derive(Debug, Default)]
pub struct News {
    /// Differences that are not in the list.
    pub unknown: Vec<Difference>,
    /// Titles in the list whose case does not differ.
    pub stale: Vec<String>,
}

impl News {
    /// Whether the list is right.
    pub fn is_empty(&self) -> bool {
        self.unknown.is_empty() && self.stale.is_empty()
    }
}

/// Takes the known ones out of `differences`. Of a script that was filtered only the cases played
/// count.
pub fn news(known: &[Known], cases: &[Case], filtered: bool, differences: Vec<Difference>) -> News {
    let played = |title: &str| !filtered || cases.iter().any(|c| c.title == title);
    let stale = known
        .iter()
        .filter(|k| played(&k.title) && !differences.iter().any(|d| d.title == k.title))
        .map(|k| k.title.clone())
        .collect();
    let unknown = differences.into_iter().filter(|d| !known.iter().any(|k| k.title == d.title)).collect();
    News { unknown, stale }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(title: &str) -> Difference {
        Difference { title: title.to_owned(), place: String::new(), diff: String::new() }
    }

    fn case(title: &str) -> Case {
        Case { title: title.to_owned(), place: String::new(), ignored: Vec::new(), steps: Vec::new() }
    }

    #[test]
    fn what_is_not_listed_and_what_is_listed_in_vain_is_news() {
        let known = parse("# c\na | why\nb | why\ngone | why\n").unwrap();
        let cases = [case("a"), case("b"), case("c")];
        let found = news(&known, &cases, false, vec![difference("a"), difference("c")]);
        let unknown: Vec<&str> = found.unknown.iter().map(|d| d.title.as_str()).collect();
        assert_eq!((unknown, found.stale), (vec!["c"], vec!["b".to_owned(), "gone".to_owned()]));
    }

    #[test]
    fn a_case_that_was_filtered_out_is_not_news() {
        let known = parse("a | why\nb | why\n").unwrap();
        assert!(news(&known, &[case("a")], true, vec![difference("a")]).is_empty());
    }

    #[test]
    fn a_line_needs_a_reason() {
        assert!(parse("a\n").is_err());
    }
}
