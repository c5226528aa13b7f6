//! What builds need of the sandbox that components run in. The crate for it is apart, because most builds do without.

/// Runs components while others are built.
pub trait Sandbox: Send + Sync {
    /// The image that is kept under a key, which must determine it; makes it if there is none.
    ///
    /// # Errors
    /// Of `make`.
    fn image(&self, key: &str, make: &mut dyn FnMut() -> anyhow::Result<Vec<u8>>) -> anyhow::Result<Vec<u8>>;

    /// Calls a function of an image, `func(text: string) -> result<_, string>`: the component that this makes of it, or the error that
    /// the function returned.
    ///
    /// # Errors
    /// The run ended otherwise.
    fn initialise(&self, image: &[u8], function: &str, text: &str) -> anyhow::Result<Result<Vec<u8>, String>>;
}
