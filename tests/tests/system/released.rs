//! Components that were built for released contracts give the outcomes that they gave then.

use anyhow::{Context, Result};
use pintle_tests::languages::{pintle, released};
use pintle_tests::workspace_dir;
use serde_json::Value;

/// The one in Python takes a minute to compile: the long tier has it.
const OF_LONG_TIER: &str = "python";

#[test]
fn components_of_released_contracts_give_the_same_outcomes() -> Result<()> {
    let cases = workspace_dir().join("tests/webapp/cases");
    let n_cases = std::fs::read_dir(&cases)?.count();
    let components = released()?;
    assert!(components.iter().any(|one| one.language == OF_LONG_TIER) && components.len() >= 5, "{components:?}");
    for one in components.iter().filter(|one| one.language != OF_LONG_TIER) {
        let inspected: Value =
            serde_json::from_str(&pintle(&["inspect".as_ref(), &one.component, "-o".as_ref(), "json".as_ref()])?)?;
        assert_eq!(inspected["contract"], format!("{}.0", one.contract), "{one:?}");
        let answer =
            pintle(&["test".as_ref(), &one.component, "--cases".as_ref(), &cases, "-o".as_ref(), "json".as_ref()])?;
        let answer: Value = serde_json::from_str(&answer)?;
        let ran = answer["cases"].as_array().context("no cases")?;
        let n_equal = ran.iter().filter(|case| case["ok"] == true).count();
        println!("contract {}, {}: {n_equal} of {n_cases} cases", one.contract, one.language);
        assert_eq!((n_equal, ran.len()), (n_cases, n_cases), "{one:?}");
    }
    Ok(())
}
