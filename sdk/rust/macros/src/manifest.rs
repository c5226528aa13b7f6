//! The watches and the limits of a manifest. The host checks the rest.

use serde_norway::Value;

/// Fields that the plugin may read.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// Watched kinds in order, without duplicates.
    pub(crate) watches: Vec<Watch>,
}

/// A watched kind.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// For example `apps/v1/ReplicaSet`.
    pub(crate) kind: String,
    pub(crate) fields: Vec<String>,
    pub(crate) whole: bool,
}

impl Manifest {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let manifest: Value = serde_norway::from_str(text).map_err(|error| error.to_string())?;
        let mut watches: Vec<Watch> = Vec::new();
        for watch in list(manifest.get("watches")) {
            // Watches of every kind have no type.
            let Some(kind) = watch.get("kind").and_then(Value::as_str) else { continue };
            let fields = list(watch.get("fields")).iter().map(|field| match field.as_str() {
                Some(field) => Ok(field.to_owned()),
                None => Err(format!("{kind}: a field is not a string: {field:?}")),
            });
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            let whole = watch.get("whole").and_then(Value::as_bool) == Some(true);
            match watches.iter_mut().find(|watch| watch.kind == kind) {
                Some(watch) => {
                    watch.fields.extend(fields);
                    watch.whole |= whole;
                }
                None => watches.push(Watch { kind: kind.to_owned(), fields, whole }),
            }
        }
        Ok(Self { watches })
    }

    pub(crate) fn watch(&self, kind: &str) -> Option<&Watch> {
        self.watches.iter().find(|watch| watch.kind == kind)
    }
}

/// Code for the limits of an outcome. For a number from a setting, it uses the default.
pub(crate) fn limits(text: &str) -> Result<String, String> {
    let manifest: Value = serde_norway::from_str(text).map_err(|error| error.to_string())?;
    let number = |name: &str| manifest.get("limits").and_then(|limits| limits.get(name)).and_then(Value::as_u64);
    let numbers = ["mutations", "outcomeBytes", "stateBytes"].map(|name| format!("{:?}", number(name)));
    Ok(format!("::pintle_sdk::Limits::new({})", numbers.join(", ")))
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_sequence).map_or(&[], Vec::as_slice)
}
