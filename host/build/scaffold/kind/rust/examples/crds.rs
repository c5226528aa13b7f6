//! Prints the definitions of the kinds in `src/api.rs`. `pintle crds` runs it, and writes what it prints to `crds/`.

use kube::CustomResourceExt as _;

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string(&{{ident}}::api::{{Kind}}Definition::crd())?);
    Ok(())
}
