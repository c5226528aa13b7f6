//! `pintle run`.

use pintle_kube::{Connection, Source};
use serde_json::json;

use crate::cli::RunArgs;
use crate::host::Host;
use crate::plugins::{self, Chosen};
use crate::ways::Ways;
use crate::{flags, logging, stop, ways};

/// The plugin that needs the cluster's certificate authority.
const ROOT_CA_PUBLISHER: &str = "root-ca-certificate-publisher-controller";

pub(crate) async fn run(mut args: RunArgs) -> anyhow::Result<()> {
    logging::install(&args.log)?;
    args.plugins.plugins.append(&mut args.more_plugins);
    let source = match &args.kubeconfig {
        Some(path) => Source::File { path: path.clone(), context: args.context.clone() },
        None => Source::InCluster,
    };
    // Whatever is wrong with components shows before the cluster is asked.
    let mut choice = plugins::choose(&args.plugins).await?;
    let ways = Ways::new(&args.plugins)?;
    let connection = Connection::open(&source).await?;
    let root_ca = match &args.root_ca_file {
        Some(file) => Some(flags::root_ca(file)?),
        None => connection.root_ca(),
    };
    set_root_ca(&mut choice.plugins, root_ca);
    connection.check().await?;
    if args.plugins.install_crd {
        ways::install_crd(&connection).await?;
    }
    let host = Host::new(&connection, choice, &args.plugins, args.serve, args.use_service_account_credentials).await?;
    let socket = ways.socket().map(|socket| socket.display().to_string());
    tracing::info!(api_server = connection.url(), metrics = %host.serving, admin_socket = socket, "running");
    host.manager
        .run(async {
            let _open = ways.open(&host, &connection);
            if let Err(why) = stop::requested().await {
                tracing::error!(%why, "signals cannot be handled; stopping");
            }
        })
        .await;
    Ok(())
}

/// Gives the certificate authority to its publisher, unless a setting says otherwise. Without one the publisher is left out.
pub(crate) fn set_root_ca(chosen: &mut Vec<Chosen>, root_ca: Option<String>) {
    chosen.retain_mut(|plugin| {
        if plugin.guest.manifest().name != ROOT_CA_PUBLISHER || plugin.settings.get("rootCa").is_some() {
            return true;
        }
        match &root_ca {
            Some(pem) => {
                plugin.settings["rootCa"] = json!(pem);
                true
            }
            None => {
                tracing::warn!(
                    "{ROOT_CA_PUBLISHER} does not run: the connection has no certificate authority; name one with --root-ca-file"
                );
                false
            }
        }
    });
}
