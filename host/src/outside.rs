//! Keys, authorities and endpoints that the command line binds to plugins.
//!
//! *Flow*: `--set` of a setting of type `key` or `authority`, or a flag of a built-in controller -> [`Secrets`]; `--endpoint` and the
//! secrets -> [`bind`], which reads the files.
//!
//! *Invariant*: neither the admin API nor `ControllerPlugin`s bind anything, because their clients could otherwise use
//! files and credentials of the host.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use pintle_core::contract::manifest::{AuthorityPart, Manifest, SettingType};
use pintle_outside::{Bindings, EndpointConfig, Secret};
use serde_json::Value;

/// Files by plugin and setting, with the argument they come from.
#[derive(Debug, Default)]
pub(crate) struct Secrets(BTreeMap<(String, String), (Secret, String)>);

impl Secrets {
    /// Records the value of a setting of type `key` or `authority`.
    ///
    /// # Errors
    /// Its form is invalid.
    pub(crate) fn set(
        &mut self,
        manifest: &Manifest,
        setting: &str,
        value: &Value,
        argument: &str,
    ) -> anyhow::Result<()> {
        let kind = manifest.config.get(setting).map_or(SettingType::Key, |setting| setting.kind);
        let secret = pintle_outside::secret(kind, value).map_err(|why| anyhow!("{argument}: {why}"))?;
        self.0.insert((manifest.name.clone(), setting.to_owned()), (secret, argument.to_owned()));
        Ok(())
    }

    /// Records the files of flags, unless `--set` has other ones. `files` are those of one controller: setting, part of
    /// an authority, flag and file.
    ///
    /// # Errors
    /// For an authority, only one of two flags is given.
    pub(crate) fn set_flags(
        &mut self,
        manifest: &Manifest,
        files: Vec<(String, Option<AuthorityPart>, String, PathBuf)>,
    ) -> anyhow::Result<()> {
        let mut by_setting: BTreeMap<String, Vec<(Option<AuthorityPart>, String, PathBuf)>> = BTreeMap::new();
        for (setting, part, flag, file) in files {
            by_setting.entry(setting).or_default().push((part, flag, file));
        }
        for (setting, files) in by_setting {
            let name = (manifest.name.clone(), setting);
            if self.0.contains_key(&name) {
                continue;
            }
            let of = |part| files.iter().find(|(of, ..)| *of == part).map(|(_, _, file)| file.clone());
            let argument = files.iter().map(|(_, flag, _)| format!("--{flag}")).collect::<Vec<_>>().join(" and ");
            let (certificate, key) = (of(Some(AuthorityPart::Certificate)), of(Some(AuthorityPart::Key)));
            let secret = match (of(None), certificate, key) {
                (Some(file), ..) => Secret::Key { file },
                (None, Some(certificate), Some(key)) => Secret::Authority { certificate, key },
                _ => bail!(
                    "{argument} of {}: an authority needs the files of its certificate and of its key",
                    manifest.name
                ),
            };
            self.0.insert(name, (secret, argument));
        }
        Ok(())
    }
}

/// Creates all bindings of the command line, and reads their files. `manifests` are those of the command line's
/// components.
///
/// # Errors
/// A file is unusable, or the endpoint does not exist.
pub(crate) fn bind<'a>(
    secrets: Secrets,
    endpoints: &[String],
    manifests: impl Iterator<Item = &'a Manifest> + Clone,
) -> anyhow::Result<Bindings> {
    let mut bindings = Bindings::default();
    for ((plugin, setting), (secret, argument)) in secrets.0 {
        bindings.bind_secret(&plugin, &setting, secret).context(argument)?;
    }
    for text in endpoints {
        let parsed = text.split_once('=').and_then(|(path, value)| Some((path.split_once('.')?, value)));
        let Some(((controller, name), value)) = parsed else {
            bail!("--endpoint {text:?}: write CONTROLLER.ENDPOINT=URL");
        };
        let is_named =
            |manifest: &&Manifest| manifest.name == controller || manifest.aliases.iter().any(|of| of == controller);
        let manifest = manifests.clone().find(is_named);
        let plugin = match manifest {
            Some(manifest) if !manifest.endpoints.contains_key(name) => {
                let known: Vec<&str> = manifest.endpoints.keys().map(String::as_str).collect();
                let known =
                    if known.is_empty() { "it has none".to_owned() } else { format!("known are {}", known.join(", ")) };
                bail!("--endpoint {text:?}: {controller} has no endpoint {name:?}; {known}");
            }
            Some(manifest) => manifest.name.as_str(),
            None => {
                tracing::info!(
                    plugin = controller,
                    endpoint = name,
                    "no component of the command line has this name; the endpoint is for one that is loaded later"
                );
                controller
            }
        };
        let config = EndpointConfig::parse(value).map_err(|why| anyhow!("--endpoint {text:?}: {why}"))?;
        bindings.bind_endpoint(plugin, name, &config).with_context(|| format!("--endpoint {text:?}"))?;
    }
    Ok(bindings)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pintle_core::ports::outside::Outside as _;
    use serde_json::json;

    use super::*;
    use crate::builtins::testing::manifest;

    fn errand() -> Manifest {
        manifest(
            "{name: errand, aliases: [er], version: '1', contract: '0.2', watches: [], queues: [{name: q}],
              config: {key: {type: key}, ca: {type: authority}}, endpoints: {desk: {operations: [look-up]}}}",
        )
    }

    fn key_file() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("outside/src/testdata/p256-pkcs8.pem")
    }

    fn bound(secrets: Secrets, endpoints: &[&str]) -> Result<String, String> {
        let endpoints: Vec<String> = endpoints.iter().map(|&text| text.to_owned()).collect();
        let bindings = bind(secrets, &endpoints, [errand()].iter()).map_err(|why| format!("{why:#}"))?;
        let of = |plugin| {
            bindings
                .bound(plugin)
                .into_iter()
                .map(move |one| format!("{plugin} {} {} {}", one.kind, one.name, one.place))
        };
        Ok(of("errand").chain(of("later")).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn what_is_bound_has_names_of_manifests_and_files_that_can_be_used() {
        let endpoints = ["er.desk=https://a.example.com/v1", r#"later.x={"url": "https://b"}"#];
        let mut secrets = Secrets::default();
        let file = key_file();
        secrets.set(&errand(), "key", &json!({ "file": file }), "--set").unwrap();
        let expected = format!(
            "errand key key {}\nerrand endpoint desk https://a.example.com/v1\nlater endpoint x https://b",
            file.display()
        );
        assert_eq!(bound(secrets, &endpoints), Ok(expected));
        for (text, why) in [
            ("errand.desk", r#"--endpoint "errand.desk": write CONTROLLER.ENDPOINT=URL"#),
            (
                "errand.other=https://a",
                r#"--endpoint "errand.other=https://a": errand has no endpoint "other"; known are desk"#,
            ),
        ] {
            assert_eq!(bound(Secrets::default(), &[text]), Err(why.to_owned()));
        }
        let plain = bound(Secrets::default(), &["errand.desk=http://a"]).unwrap_err();
        assert!(plain.contains("without TLS only"), "{plain}");
        let mut secrets = Secrets::default();
        secrets.set(&errand(), "key", &json!({"file": "/nowhere"}), "--set x").unwrap();
        assert_eq!(
            bound(secrets, &[]),
            Err("--set x: read /nowhere: No such file or directory (os error 2)".to_owned())
        );
        let wrong = Secrets::default().set(&errand(), "ca", &json!({"file": "/k"}), "--set x").unwrap_err().to_string();
        assert!(wrong.starts_with(r#"--set x: write an authority as {"certificate""#), "{wrong}");
    }

    #[test]
    fn a_flag_gives_way_to_a_setting_and_an_authority_needs_both_of_its_flags() {
        let part = |part, flag: &str| ("ca".to_owned(), Some(part), flag.to_owned(), PathBuf::from("/nowhere"));
        let certificate = part(AuthorityPart::Certificate, "cert-file");
        let why = Secrets::default().set_flags(&errand(), vec![certificate.clone()]).unwrap_err().to_string();
        assert_eq!(why, "--cert-file of errand: an authority needs the files of its certificate and of its key");
        let mut secrets = Secrets::default();
        secrets.set_flags(&errand(), vec![certificate, part(AuthorityPart::Key, "key-file")]).unwrap();
        let why = bound(secrets, &[]).unwrap_err();
        assert!(why.starts_with("--cert-file and --key-file: read /nowhere"), "{why}");
        let mut secrets = Secrets::default();
        let file = key_file();
        secrets.set(&errand(), "key", &json!({ "file": file }), "--set").unwrap();
        secrets.set_flags(&errand(), vec![("key".to_owned(), None, "key-file".to_owned(), "/nowhere".into())]).unwrap();
        assert_eq!(bound(secrets, &[]), Ok(format!("errand key key {}", file.display())));
    }
}
