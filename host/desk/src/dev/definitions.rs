//! The CustomResourceDefinitions that `pintle dev` applies: those of the plugins under development, and of `--crds`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use pintle_author::definitions::{Apply, Definitions};
use pintle_author::rebuild::Followed;
use pintle_build::crds;
use pintle_kube::Connection;
use pintle_sources::apply_crd;

/// Folder of sample objects, inside a plugin's own.
const SAMPLES: &str = "samples";

/// Definitions in the cluster.
pub(super) struct Applied {
    /// One for each plugin, in order.
    pub(super) of_plugins: Vec<Definitions>,
    /// One for each folder of `--crds`.
    pub(super) of_folders: Vec<Definitions>,
    /// Results and errors, in lines.
    pub(super) lines: Vec<String>,
}

/// Checks the folders of `--crds`.
///
/// # Errors
/// One is not a folder.
pub(super) fn check(folders: &[PathBuf]) -> anyhow::Result<()> {
    let nothing: Apply = Arc::new(|_| std::future::ready(Ok(())).boxed());
    folders.iter().try_for_each(|folder| Definitions::of_folder(folder, nothing.clone()).map(drop))
}

/// Applies all definitions. An invalid one is reported in the lines, and does not prevent the cluster from running.
///
/// # Errors
/// A folder of `--crds` is missing.
pub(super) async fn apply(
    connection: &Connection,
    plugins: &[Followed],
    folders: &[PathBuf],
) -> anyhow::Result<Applied> {
    let connection = connection.clone();
    let apply: Apply = Arc::new(move |definition| {
        let connection = connection.clone();
        async move { apply_crd(&connection, &definition).await }.boxed()
    });
    let mut of_plugins: Vec<_> =
        plugins.iter().map(|plugin| Definitions::of_plugin(plugin.path(), apply.clone())).collect();
    let mut of_folders: Vec<_> =
        folders.iter().map(|folder| Definitions::of_folder(folder, apply.clone())).collect::<anyhow::Result<_>>()?;
    let mut lines = Vec::new();
    for definitions in of_plugins.iter_mut().chain(&mut of_folders) {
        lines.extend(definitions.sync().await);
    }
    lines.extend(plugins.iter().filter_map(|plugin| samples(plugin.path())));
    Ok(Applied { of_plugins, of_folders, lines })
}

/// A sentence about the samples of a plugin, if it has any: the author applies them.
fn samples(plugin: &Path) -> Option<String> {
    let folder = crds::beside(plugin).with_file_name(SAMPLES);
    let has_any = crds::files(&folder).is_ok_and(|files| !files.is_empty());
    let shown = crds::shown(&folder);
    has_any
        .then(|| format!("{shown} has sample objects, which are not applied automatically: kubectl apply -f {shown}"))
}
