//! Runs a function of a component while it is built; what that leaves in memory is a new component.
//!
//! Languages with a run-time library need it: the library starts once, at the build, and not in each instance.
//!
//! *Flow*: image (a component with a function for this) + text -> component. `component-init-transform` adds functions that tell memory and
//! globals, and writes these into the component; running it is done here.
//!
//! *Invariant*: an image runs without any import: whoever calls one ends the run.
//!
//! *Not here*: what is in an image (`pintle-build`).

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use component_init_transform::Invoker;
use futures::FutureExt as _;
use wasmtime::component::{ComponentNamedList, Instance, Lift, Linker};
use wasmtime::{Engine, Store};

use crate::cache::{CodeCache, Functions};
use crate::compile::Compiler;
use crate::engine::settings;
use crate::error::EngineError;

/// Runs components while others are built.
#[derive(Debug)]
pub struct Initialiser {
    engine: Engine,
    compiler: Compiler,
    cache: CodeCache,
}

/// What became of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initialised {
    /// The component.
    Component(Vec<u8>),
    /// The function returned this error.
    Refused(String),
}

impl Initialiser {
    /// Starts an engine that keeps images and their code in a folder.
    ///
    /// # Errors
    /// As [`crate::WasmEngine::new`].
    pub fn new(folder: &Path) -> Result<Self, EngineError> {
        let failed = |error: wasmtime::Error| EngineError::Engine(format!("{error:#}"));
        let mut settings = settings();
        // Authors interrupt their own builds.
        settings.epoch_interruption(false);
        let functions = Arc::<Functions>::default();
        settings.enable_incremental_compilation(functions.clone()).map_err(failed)?;
        let engine = Engine::new(&settings).map_err(failed)?;
        let cache = CodeCache::open(folder, &engine, Some(functions))?;
        let n_processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Ok(Self { engine, compiler: Compiler::start(n_processors)?, cache })
    }

    /// The image that is kept under a key, which must determine it; makes it if there is none.
    ///
    /// # Errors
    /// Of `make`.
    pub fn image(&self, key: &str, make: &mut dyn FnMut() -> anyhow::Result<Vec<u8>>) -> anyhow::Result<Vec<u8>> {
        if let Some(image) = self.cache.image(key) {
            return Ok(image);
        }
        let image = make()?;
        if let Err(error) = self.cache.keep_image(key, &image) {
            tracing::warn!(%error, "the image is not kept; the next build makes it again");
        }
        Ok(image)
    }

    /// Calls a function of an image, `func(text: string) -> result<_, string>`. Blocks; the first call for an image compiles it.
    ///
    /// # Errors
    /// The image is not of the form that component-init-transform knows, or the run ended, for example because it called an import.
    pub fn initialise(&self, image: &[u8], function: &str, text: &str) -> anyhow::Result<Initialised> {
        let mut refused = None;
        let run = |instrumented: Vec<u8>| {
            let ran = self.run(image, &instrumented, function, text);
            let ran = ran.and_then(|(running, answer)| match answer {
                Ok(()) => Ok(running),
                Err(why) => {
                    refused = Some(why);
                    anyhow::bail!("the function returned an error")
                }
            });
            async move { ran.map(|running| Box::new(running) as Box<dyn Invoker>) }.boxed()
        };
        // Nothing in there waits.
        match futures::executor::block_on(component_init_transform::initialize(image, run)) {
            Ok(component) => Ok(Initialised::Component(component)),
            Err(why) => refused.map(Initialised::Refused).ok_or(why),
        }
    }

    fn run(
        &self,
        image: &[u8],
        instrumented: &[u8],
        function: &str,
        text: &str,
    ) -> anyhow::Result<(Running, Result<(), String>)> {
        // The functions that were added are in any order; their names say what they tell.
        let component = self.cache.component_of(image, &self.engine, &self.compiler, instrumented)?;
        let mut linker = Linker::new(&self.engine);
        linker.define_unknown_imports_as_traps(&component)?;
        let mut store = Store::new(&self.engine, ());
        let instance = linker.instantiate(&mut store, &component)?;
        let called = instance.get_typed_func::<(&str,), (Result<(), String>,)>(&mut store, function)?;
        let (answer,) = called
            .call(&mut store, (text,))
            .map_err(anyhow::Error::from)
            .with_context(|| format!("run {function} of the image"))?;
        Ok((Running { store, instance }, answer))
    }
}

/// An image after its run.
struct Running {
    store: Store<()>,
    instance: Instance,
}

impl Running {
    fn call<T>(&mut self, function: &str) -> anyhow::Result<T>
    where
        (T,): ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let function = self.instance.get_typed_func::<(), (T,)>(&mut self.store, function)?;
        Ok(function.call(&mut self.store, ())?.0)
    }
}

#[async_trait]
impl Invoker for Running {
    async fn call_s32(&mut self, function: &str) -> anyhow::Result<i32> {
        self.call(function)
    }

    async fn call_s64(&mut self, function: &str) -> anyhow::Result<i64> {
        self.call(function)
    }

    async fn call_f32(&mut self, function: &str) -> anyhow::Result<f32> {
        self.call(function)
    }

    async fn call_f64(&mut self, function: &str) -> anyhow::Result<f64> {
        self.call(function)
    }

    async fn call_list_u8(&mut self, function: &str) -> anyhow::Result<Vec<u8>> {
        self.call(function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers how long the text was; refuses one of more than four bytes.
    const IMAGE: &str = r#"(component
        (core module $m
            (memory (export "memory") 1)
            (global $next (mut i32) (i32.const 1024))
            (data (i32.const 64) "too long")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (global.set $next (i32.add (global.get $next) (local.get 3)))
                (i32.sub (global.get $next) (local.get 3)))
            (func (export "load") (param $at i32) (param $length i32) (result i32)
                (if (i32.eqz (local.get $length)) (then unreachable))
                (i32.store (i32.const 16) (local.get $length))
                (i32.store8 (i32.const 32) (i32.gt_u (local.get $length) (i32.const 4)))
                (i32.store (i32.const 36) (i32.const 64))
                (i32.store (i32.const 40) (i32.const 8))
                i32.const 32)
            (func (export "told") (result i32) (i32.load (i32.const 16))))
        (core instance $i (instantiate $m))
        (alias core export $i "memory" (core memory $memory))
        (func (export "load") (param "text" string) (result (result (error string)))
            (canon lift (core func $i "load") (memory $memory) (realloc (core func $i "cabi_realloc"))))
        (func (export "told") (result u32) (canon lift (core func $i "told"))))"#;

    fn told(initialiser: &Initialiser, component: &[u8]) -> u32 {
        let component = initialiser.compiler.compile(&initialiser.engine, component).unwrap();
        let mut store = Store::new(&initialiser.engine, ());
        let instance = Linker::new(&initialiser.engine).instantiate(&mut store, &component).unwrap();
        instance.get_typed_func::<(), (u32,)>(&mut store, "told").unwrap().call(&mut store, ()).unwrap().0
    }

    #[test]
    fn a_component_begins_with_what_the_run_left_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let image = wat::parse_str(IMAGE).unwrap();
        // The second one takes the code from the folder.
        for _ in 0..2 {
            let initialiser = Initialiser::new(&folder.path().join("images")).unwrap();
            assert_eq!(told(&initialiser, &image), 0);
            let initialised = |text: &str| initialiser.initialise(&image, "load", text);
            let Initialised::Component(component) = initialised("abc").unwrap() else { panic!("refused") };
            assert_eq!(told(&initialiser, &component), 3);
            assert_eq!(initialised("abc").unwrap(), Initialised::Component(component), "the same bytes each time");
            assert_eq!(initialised("abcde").unwrap(), Initialised::Refused("too long".to_owned()));
            assert!(format!("{:#}", initialised("").unwrap_err()).contains("run load of the image"));
        }
    }

    #[test]
    fn an_image_is_made_once_for_each_key() {
        let folder = tempfile::tempdir().unwrap();
        let initialiser = Initialiser::new(&folder.path().join("images")).unwrap();
        let mut n_made = 0;
        let mut image = |key: &str| {
            let make = &mut || {
                n_made += 1;
                Ok(key.as_bytes().to_vec())
            };
            initialiser.image(key, make).unwrap()
        };
        assert_eq!([image("a"), image("b"), image("a")], [b"a", b"b", b"a"]);
        let stored = folder.path().join("images/a.image");
        std::fs::write(stored, "planted").unwrap();
        assert_eq!(image("a"), b"a", "one that is not as it was written is made again");
        assert_eq!(n_made, 3);
        assert!(initialiser.image("c", &mut || anyhow::bail!("no tool")).is_err());
    }
}
