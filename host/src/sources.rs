//! Parts that the plugin sources need of this binary: its flags, its host, its format of cases.

use pintle_author::cases;
use pintle_sources::{Options, Running};

use crate::cli::PluginArgs;
use crate::host::Host;
use crate::plugins;

impl From<&PluginArgs> for Options {
    fn from(args: &PluginArgs) -> Self {
        Self { plugin_dir: args.plugin_dir.clone(), admin_socket: args.admin_socket.clone() }
    }
}

impl From<&Host> for Running {
    fn from(host: &Host) -> Self {
        Self {
            control: host.control.clone(),
            caches: host.manager.caches().clone(),
            fetcher: host.fetcher.clone(),
            builtins: plugins::builtins().collect(),
            save_run: cases::save,
        }
    }
}
