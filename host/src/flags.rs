//! Flags of kube-controller-manager: their values, checked before anything else happens.
//!
//! *Invariant*: a value out of range is refused with the flag's name and the range, also for a controller that does not run.
//!
//! *Source*: `cmd/kube-controller-manager/app/options`; the defaults are in each plugin's manifest. Upstream takes any number of
//! workers, and runs nothing with 0; here that is refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use pintle_core::manifest::{Limits, Manifest};
use pintle_runtime::manager::PluginOptions;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::cli::ControllerArgs;

/// Longest period that a flag may give: what a queue's clock holds.
const LONGEST: Duration = Duration::from_millis(u32::MAX as u64);

/// A duration as Go writes it: `1h30m`, `1.5s`, `300ms`, `0`.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1e-9), ("us", 1e-6), ("\u{b5}s", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
    let wrong = || "write a duration such as 90s, 5m or 1h30m".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    loop {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (value, after) = rest.split_at(number);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        seconds += value.parse::<f64>().map_err(|_| wrong())? * factor;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if duration > LONGEST { Err(format!("at most {}h", LONGEST.as_secs() / 3_600)) } else { Ok(duration) }
}

/// Limits of runs: `NAME=NUMBER`, separated by commas.
///
/// # Errors
/// What is wrong, and which names there are.
pub(crate) fn limits(text: &str) -> Result<Limits, String> {
    let mut limits = serde_json::Map::new();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let parsed = item.split_once('=').and_then(|(name, value)| Some((name, value.parse::<u64>().ok()?)));
        let Some((name, value)) = parsed else {
            return Err(format!("{item:?}: write LIMIT=NUMBER, for example deadlineMs=2000"));
        };
        if limits.insert(name.to_owned(), value.into()).is_some() {
            return Err(format!("{name} stands twice"));
        }
    }
    serde_json::from_value(limits.into()).map_err(|why| why.to_string())
}

/// Requests per second.
///
/// # Errors
/// It is no finite number.
pub(crate) fn rate(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(rate) if rate.is_finite() => Ok(rate),
        _ => Err("write a number such as 20, or 0 for no limit".to_owned()),
    }
}

impl ControllerArgs {
    /// What the flags say of one plugin.
    pub(crate) fn options(&self, manifest: &Manifest) -> PluginOptions {
        let workers = match manifest.name.as_str() {
            "deployment-controller" => self.concurrent_deployment_syncs,
            "replicaset-controller" => self.concurrent_replicaset_syncs,
            "replicationcontroller-controller" => self.concurrent_rc_syncs,
            "garbage-collector-controller" => self.concurrent_gc_syncs,
            "namespace-controller" => self.concurrent_namespace_syncs,
            _ => None,
        };
        let resync = match manifest.name.as_str() {
            "namespace-controller" => self.namespace_sync_period,
            _ => None,
        };
        let queues = || manifest.queues.iter().map(|queue| queue.name.clone());
        PluginOptions {
            concurrency: workers.map(|n| queues().map(|queue| (queue, n)).collect()).unwrap_or_default(),
            resync: resync.map(|period| queues().map(|queue| (queue, period)).collect()).unwrap_or_else(BTreeMap::new),
            ..PluginOptions::default()
        }
    }

    /// Whether a plugin may run at all.
    pub(crate) fn allows(&self, plugin: &str) -> bool {
        self.enable_garbage_collector || plugin != "garbage-collector-controller"
    }
}

/// Reads `--root-ca-file`.
///
/// # Errors
/// It cannot be read, or holds no certificate.
pub(crate) fn root_ca(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("read --root-ca-file {shown}"))?;
    if !is_bundle(&text) {
        bail!("--root-ca-file {shown} holds no certificates: it must be a bundle of them in PEM");
    }
    Ok(text)
}

/// Whether the text has certificates in PEM, and none that is broken. Other blocks are left alone, as upstream.
fn is_bundle(text: &str) -> bool {
    let mut certificates = CertificateDer::pem_slice_iter(text.as_bytes()).peekable();
    // A sequence, as every certificate is.
    let is_sequence = |der: &[u8]| der.first() == Some(&0x30);
    certificates.peek().is_some() && certificates.all(|certificate| certificate.is_ok_and(|der| is_sequence(&der)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_go() {
        for (text, millis) in
            [("0", 0), ("0s", 0), ("5m", 300_000), ("1h30m", 5_400_000), ("1.5s", 1_500), ("300ms", 300)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "-5m", "m", "5 m", "1d", "1h-3m", "1..5s"] {
            assert_eq!(duration(text), Err("write a duration such as 90s, 5m or 1h30m".to_owned()), "{text}");
        }
        assert_eq!(duration("9999h"), Err("at most 1193h".to_owned()));
    }

    #[test]
    fn limits_have_names_and_numbers() {
        let two = limits("deadlineMs=2000,memoryBytes=1048576").unwrap();
        assert_eq!((two.deadline_ms, two.memory_bytes, two.mutations), (Some(2000), Some(1 << 20), None));
        assert_eq!(limits(""), Ok(Limits::default()));
        for (text, why) in [
            ("deadlineMs", "\"deadlineMs\": write LIMIT=NUMBER, for example deadlineMs=2000"),
            ("deadlineMs=-1", "\"deadlineMs=-1\": write LIMIT=NUMBER, for example deadlineMs=2000"),
            ("mutations=1,mutations=2", "mutations stands twice"),
        ] {
            assert_eq!(limits(text), Err(why.to_owned()));
        }
        assert!(limits("cpu=1").unwrap_err().starts_with("unknown field `cpu`, expected one of `deadlineMs`"));
    }

    #[test]
    fn rates_are_finite() {
        assert_eq!((rate("20"), rate("0.5"), rate("-1")), (Ok(20.0), Ok(0.5), Ok(-1.0)));
        for text in ["nan", "inf", "x", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bundle_has_certificates_and_none_that_is_broken() {
        let block = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        let good = block("MAMCAQE=");
        assert!(is_bundle(&format!("# ours\n{good}{good}")));
        for text in ["", "hello", &block("AAAA"), &block("?"), &format!("{good}-----BEGIN CERTIFICATE-----\nMAMCAQE=")]
        {
            assert!(!is_bundle(text), "{text}");
        }
    }
}
