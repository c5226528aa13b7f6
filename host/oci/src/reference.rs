//! Locations of components: a file, or `oci://REGISTRY/REPOSITORY:TAG@sha256:DIGEST`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use oci_spec::distribution::{ParseError, Reference};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::digest::Digest;

const SCHEME: &str = "oci://";

/// An artifact in a registry, by tag, digest or both. With both, the digest is used and the tag is informative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactRef {
    /// Host, and port unless it is the default one.
    pub(crate) registry: String,
    pub(crate) repository: String,
    pub(crate) tag: Option<String>,
    pub(crate) digest: Option<Digest>,
}

impl ArtifactRef {
    /// Whether it has a tag and no digest, as required of a push target.
    pub fn is_by_tag_only(&self) -> bool {
        self.tag.is_some() && self.digest.is_none()
    }

    /// The digest of its manifest, if the reference has one.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// This reference, pinned to a digest.
    pub fn pinned(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// The tag of a manifest's signatures, in the same repository.
    pub(crate) fn signatures_of(&self, digest: Digest) -> Self {
        Self { tag: Some(format!("sha256-{}.sig", digest.hex())), digest: None, ..self.clone() }
    }

    /// The host of the registry, which has another name for Docker Hub.
    pub(crate) fn host(&self) -> &str {
        if self.registry == "docker.io" { "index.docker.io" } else { &self.registry }
    }

    /// Its name below `manifests/`: the digest, or else the tag.
    pub(crate) fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.clone().unwrap_or_default(),
        }
    }
}

impl FromStr for ArtifactRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write oci://REGISTRY/REPOSITORY:TAG, oci://REGISTRY/REPOSITORY@sha256:DIGEST, or both";
        let wrong = |why: &str| format!("{text:?}: {why}; {form}");
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("it does not begin with oci://"))?;
        let (registry, path) = rest.split_once('/').ok_or_else(|| wrong("it names no repository"))?;
        // Otherwise the library would use a repository of Docker Hub.
        let is_host = registry == "localhost" || registry.contains(['.', ':']);
        if !is_host {
            return Err(wrong(&format!("{registry:?} is not a registry host such as registry.example.com")));
        }
        if !path.contains([':', '@']) {
            return Err(wrong("it has neither tag nor digest"));
        }
        let parsed: Reference = rest.parse().map_err(|why: ParseError| wrong(&why.to_string()))?;
        let digest = parsed.digest().map(Digest::from_str).transpose().map_err(|why| wrong(&why))?;
        let tag = parsed.tag().filter(|_| digest.is_none() || path.split('@').next().is_some_and(|p| p.contains(':')));
        Ok(Self {
            registry: parsed.registry().to_owned(),
            repository: parsed.repository().to_owned(),
            tag: tag.map(str::to_owned),
            digest,
        })
    }
}

impl fmt::Display for ArtifactRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for ArtifactRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A component's location on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComponentSource {
    /// A file; commands that accept folders also allow a folder.
    Path(PathBuf),
    /// An artifact in a registry.
    Registry(ArtifactRef),
}

impl ComponentSource {
    /// Parses an argument of the command line.
    ///
    /// # Errors
    /// The text begins with `oci://` and is not a valid reference.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with(SCHEME) { Ok(Self::Registry(text.parse()?)) } else { Ok(Self::Path(text.into())) }
    }
}

impl From<PathBuf> for ComponentSource {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl fmt::Display for ComponentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Registry(reference) => reference.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const HEX: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    #[test]
    fn a_reference_is_printed_as_it_was_parsed() {
        for text in [
            "oci://registry.example.com/team/widgets:1.2.3".to_owned(),
            "oci://localhost:5000/widgets:v1".to_owned(),
            format!("oci://127.0.0.1:5000/widgets@sha256:{HEX}"),
            format!("oci://docker.io/team/widgets:1.2.3@sha256:{HEX}"),
        ] {
            assert_eq!(text.parse::<ArtifactRef>().unwrap().to_string(), text);
        }
    }

    fn check(text: &str, expected: Expect) {
        let why = text.parse::<ArtifactRef>().unwrap_err();
        let (why, form) = why.rsplit_once("; ").unwrap();
        assert!(form.starts_with("write oci://"), "{form}");
        expected.assert_eq(why);
    }

    #[test]
    fn an_invalid_reference_is_rejected_with_the_reason() {
        check("registry.example.com/a:1", expect![[r#""registry.example.com/a:1": it does not begin with oci://"#]]);
        check("oci://widgets:1", expect![[r#""oci://widgets:1": it names no repository"#]]);
        check(
            "oci://team/widgets:1",
            expect![[r#""oci://team/widgets:1": "team" is not a registry host such as registry.example.com"#]],
        );
        check("oci://localhost/widgets", expect![[r#""oci://localhost/widgets": it has neither tag nor digest"#]]);
        check("oci://localhost/Widgets:1", expect![[r#""oci://localhost/Widgets:1": invalid reference format"#]]);
        check("oci://localhost/widgets:a b", expect![[r#""oci://localhost/widgets:a b": invalid reference format"#]]);
        check(
            "oci://localhost/widgets@sha256:12",
            expect![[r#""oci://localhost/widgets@sha256:12": invalid reference format"#]],
        );
        check("oci://localhost/../etc:1", expect![[r#""oci://localhost/../etc:1": invalid reference format"#]]);
        check(
            "oci://localhost/widgets:1?x=y",
            expect![[r#""oci://localhost/widgets:1?x=y": invalid reference format"#]],
        );
    }

    #[test]
    fn signatures_are_beside_the_manifest() {
        let reference: ArtifactRef = "oci://localhost/widgets:1".parse().unwrap();
        let expected = format!("oci://localhost/widgets:sha256-{HEX}.sig");
        assert_eq!(reference.signatures_of(Digest::of(b"hello")).to_string(), expected);
    }
}
