//! Arguments of `pintle types`.

use std::path::PathBuf;

use clap::Args;
use pintle_build::Language;

/// Arguments of `pintle types`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  # The kinds in the folder crds of a plugin, in its language
  pintle types -o team.go

  # The kinds of a definition
  pintle types routes.yaml --lang rust -o src/routes.rs

  # A kind of Kubernetes, from a cluster
  pintle types --kubeconfig ~/.kube/config --kind apps/v1/Deployment \\
    --lang python -o app/deployment.py

  # The same with kubectl
  kubectl get --raw /openapi/v3/apis/apps/v1 | \\
    pintle types - --kind apps/v1/Deployment --lang ts -o deployment.ts")]
pub struct TypesArgs {
    /// Files with CustomResourceDefinitions or an OpenAPI document (version 2 or 3), in YAML or JSON; folders of such files; `-` for
    /// standard input. Default: the folder crds.
    #[arg(value_name = "FILE|FOLDER|-")]
    pub sources: Vec<PathBuf>,

    /// Language of the types. Default: that of the plugin in the current folder. `js` writes declarations of TypeScript, and `ts`
    /// does to a file `*.d.ts`.
    #[arg(long, value_name = "LANGUAGE", value_parser = super::author::language())]
    pub lang: Option<Language>,

    /// A kind, for example `apps/v1/Deployment`, `v1/Pod` or, in each version that is served, `Team`. Repeatable. Default: every kind of the
    /// sources.
    #[arg(long = "kind", value_name = "GROUP/VERSION/KIND")]
    pub kinds: Vec<String>,

    /// Only this version of the kinds, also if it is not served. Default: every version that is served.
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,

    /// Package of the file, in Go.
    #[arg(long, value_name = "NAME", default_value = "main", value_parser = go_package)]
    pub package: String,

    /// Kubeconfig of a cluster that describes the kinds, instead of files; needs --kind.
    #[arg(long, value_name = "FILE", conflicts_with = "sources", requires = "kinds")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig. Default: the current context.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,

    /// Output file. It is replaced only if `pintle types` has written it. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

fn go_package(name: &str) -> Result<String, String> {
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_name {
        Ok(name.to_owned())
    } else {
        Err("expected the name of a Go package: lowercase letters and digits".to_owned())
    }
}
