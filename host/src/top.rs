//! `pintle top`: an overview of the host.

use std::io::{self, IsTerminal as _};

use pintle_client::{Client, top};
use pintle_sources::admin::socket;

use crate::cli::top::TopArgs;
use crate::output::{self, Output};

pub(crate) async fn top(args: &TopArgs) -> anyhow::Result<()> {
    let client = Client::new(args.admin_socket.clone().unwrap_or_else(socket::default_path));
    let is_shown = args.output == Output::Text && !args.once && io::stdout().is_terminal() && io::stdin().is_terminal();
    // A host that is unreachable at the start is an error; later it may come back.
    let overview = top::overview(&client).await?;
    if !is_shown {
        return output::answer(args.output, &overview, || top::text(&overview));
    }
    // https://no-color.org
    let colors = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    top::show(&client, args.interval, colors).await
}
