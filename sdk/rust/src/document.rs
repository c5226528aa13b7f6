//! A JSON object that is parsed only where it is accessed.
//!
//! Writing an object back must lose no field, including those of a newer API server. A [`Document`] keeps every field
//! as the original text, in its place, and rewrites only fields that are [set](Document::set). It costs one pass over
//! the text, much less than a generic tree.

use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::outcome::json;

/// A JSON object with its fields in their order.
#[derive(Clone, Debug, Default)]
pub struct Document {
    fields: Vec<(String, Box<RawValue>)>,
}

impl Document {
    /// Splits the text of an object into its fields.
    ///
    /// # Errors
    /// If it is not a JSON object.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The value at a path, if it exists and fits the type.
    pub fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Option<T> {
        serde_json::from_str(&self.text(path)?).ok()
    }

    /// The text of the value at a path.
    pub fn text(&self, path: &[&str]) -> Option<String> {
        let (first, rest) = path.split_first()?;
        let value = &self.fields.iter().find(|(name, _)| name == first)?.1;
        if rest.is_empty() { Some(value.get().to_owned()) } else { Self::parse(value.get()).ok()?.text(rest) }
    }

    /// Sets the value at a path. Missing parent objects are created; parents of another type are replaced.
    pub fn set<T: Serialize + ?Sized>(&mut self, path: &[&str], value: &T) {
        self.put(path, json(value));
    }

    /// Removes the value at a path, if it exists.
    pub fn remove(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [name] => self.fields.retain(|(field, _)| field != name),
            [first, rest @ ..] => {
                if let Some((_, value)) = self.fields.iter_mut().find(|(name, _)| name == first)
                    && let Ok(mut inner) = Self::parse(value.get())
                {
                    inner.remove(rest);
                    *value = raw(inner.to_string());
                }
            }
        }
    }

    fn put(&mut self, path: &[&str], text: String) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let place = self.fields.iter().position(|(name, _)| name == first);
        let text = if rest.is_empty() {
            text
        } else {
            let mut inner = place.and_then(|i| Self::parse(self.fields[i].1.get()).ok()).unwrap_or_default();
            inner.put(rest, text);
            inner.to_string()
        };
        match place {
            Some(i) => self.fields[i].1 = raw(text),
            None => self.fields.push(((*first).to_owned(), raw(text))),
        }
    }
}

fn raw(text: String) -> Box<RawValue> {
    // Only serializer output gets here.
    RawValue::from_string(text).expect("well-formed JSON")
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (name, value)) in self.fields.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{}:{}", json(name), value.get())?;
        }
        f.write_str("}")
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Document { fields })
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_touched_keeps_its_text_and_place() {
        let mut document = Document::parse(r#"{"b":1.0,"a":{"x":[1, 2],"y":"é\u003c"},"c":null}"#).unwrap();
        document.set(&["a", "x"], &3);
        document.set(&["d", "e"], "new");
        document.remove(&["c"]);
        document.remove(&["a", "nothing"]);
        assert_eq!(document.to_string(), r#"{"b":1.0,"a":{"x":3,"y":"é\u003c"},"d":{"e":"new"}}"#);
        assert_eq!(document.get::<i32>(&["a", "x"]), Some(3));
        assert_eq!(document.get::<i32>(&["a", "z"]), None);
    }
}
