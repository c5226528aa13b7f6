//! Components that were built for released contracts give the outcomes that they gave then.

use std::collections::BTreeSet;

use anyhow::Result;
use pintle_core::contract::manifest::CONTRACT_VERSIONS;
use pintle_tests::languages::{pintle, released};
use serde_json::Value;

#[test]
fn components_of_released_contracts_give_the_same_outcomes() -> Result<()> {
    let components = released()?;
    for contract in CONTRACT_VERSIONS {
        let languages: BTreeSet<&str> =
            components.iter().filter(|one| one.contract == *contract).map(|one| one.language.as_str()).collect();
        assert_eq!(languages, BTreeSet::from(["c", "go", "js", "python", "rust"]), "of contract {contract}");
    }
    for one in &components {
        let inspected: Value =
            serde_json::from_str(&pintle(&["inspect".as_ref(), &one.component, "-o".as_ref(), "json".as_ref()])?)?;
        assert_eq!(inspected["contract"], format!("{}.0", one.contract), "{one:?}");
        one.gives_the_same_outcomes()?;
    }
    Ok(())
}
