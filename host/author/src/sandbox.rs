//! The sandbox that builds use: that of the host, with the user's cache folder.

use std::path::PathBuf;
use std::sync::OnceLock;

use pintle_build::Sandbox;
use pintle_wasm::{Initialised, Initialiser};

/// The sandbox; `None` if there is no folder that only this user can write to.
pub(crate) fn sandbox() -> Option<&'static dyn Sandbox> {
    static SANDBOX: OnceLock<Option<OfHost>> = OnceLock::new();
    let made = SANDBOX.get_or_init(|| {
        let folder = folder(|name| std::env::var_os(name).map(PathBuf::from))?;
        let made = Initialiser::new(&folder);
        made.map(OfHost).map_err(|why| tracing::warn!("builds keep nothing: {:#}", anyhow::Error::from(why))).ok()
    });
    made.as_ref().map(|made| made as &dyn Sandbox)
}

/// Where images are kept: beside compiled code.
fn folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let of_user = |name: &str| variable(name).filter(|path| path.is_absolute());
    let base = of_user("XDG_CACHE_HOME").or_else(|| Some(of_user("HOME")?.join(".cache")))?;
    Some(base.join("pintle/images"))
}

struct OfHost(Initialiser);

impl Sandbox for OfHost {
    fn image(&self, key: &str, make: &mut dyn FnMut() -> anyhow::Result<Vec<u8>>) -> anyhow::Result<Vec<u8>> {
        self.0.image(key, make)
    }

    fn initialise(&self, image: &[u8], function: &str, text: &str) -> anyhow::Result<Result<Vec<u8>, String>> {
        Ok(match self.0.initialise(image, function, text)? {
            Initialised::Component(component) => Ok(component),
            Initialised::Refused(why) => Err(why),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_in_the_users_cache() {
        let with = |of: &'static [(&str, &str)]| {
            folder(|name| of.iter().find(|(known, _)| *known == name).map(|(_, path)| PathBuf::from(path)))
        };
        assert_eq!(with(&[("HOME", "/home/me")]), Some("/home/me/.cache/pintle/images".into()));
        let both = with(&[("HOME", "/home/me"), ("XDG_CACHE_HOME", "/cache")]);
        assert_eq!(both, Some("/cache/pintle/images".into()));
        assert_eq!(with(&[("HOME", "relative")]), None);
    }
}
