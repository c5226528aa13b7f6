//! The sandbox that builds use: that of the host, with the user's cache folder.

use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};

use pintle_build::Sandbox;
use pintle_wasm::{Initialised, Initialiser};

/// The sandbox that builds use. It starts with the first build.
#[derive(Debug)]
pub struct BuildSandbox {
    /// The folder of images; without it, builds do without a sandbox.
    images: Option<PathBuf>,
    made: OnceLock<Option<OfHost>>,
}

impl BuildSandbox {
    /// A sandbox that keeps images in a cache folder, beside compiled code.
    pub fn new(cache_folder: Option<PathBuf>) -> Self {
        Self { images: cache_folder.map(|folder| folder.join("images")), made: OnceLock::new() }
    }

    /// The sandbox. Returns `None` if no cache folder is usable, which the log reports.
    pub(crate) fn get(&self) -> Option<&dyn Sandbox> {
        let made = self.made.get_or_init(|| {
            let made = Initialiser::new(self.images.as_deref()?);
            made.map(OfHost).map_err(|why| tracing::warn!("builds keep nothing: {:#}", anyhow::Error::from(why))).ok()
        });
        made.as_ref().map(|made| made as &dyn Sandbox)
    }
}

/// The sandbox of commands without `--cache-dir`, with the folder that the environment names. Returns `None` if only other users
/// can write there.
pub(crate) fn sandbox() -> Option<&'static dyn Sandbox> {
    static SANDBOX: LazyLock<BuildSandbox> = LazyLock::new(|| BuildSandbox::new(cache_folder()));
    SANDBOX.get()
}

/// The cache folder of commands without `--cache-dir`: the one that the environment names, or the user's.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let named = std::env::var_os("PINTLE_CACHE_DIR").map(PathBuf::from);
    named.or_else(|| pintle_wasm::user_cache(|name| std::env::var_os(name)))
}

#[derive(Debug)]
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
    fn images_are_kept_in_the_named_folder() {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = || BuildSandbox::new(Some(folder.path().join("cache")));
        let image = |sandbox: &BuildSandbox, make: &mut dyn FnMut() -> anyhow::Result<Vec<u8>>| {
            sandbox.get().unwrap().image("key", make).unwrap()
        };
        assert_eq!(image(&sandbox(), &mut || Ok(b"image".to_vec())), b"image");
        assert!(folder.path().join("cache/images").is_dir());
        assert_eq!(image(&sandbox(), &mut || panic!("made again")), b"image");
        assert!(BuildSandbox::new(None).get().is_none());
    }
}
