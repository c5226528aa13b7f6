//! Setting files that the host follows: a change reconfigures the same component.
//!
//! *Flow*: every minute, [`FollowedFiles`] reads the files; `Control::reconfigure` applies changes.
//!
//! *Invariants*:
//! 1. The last valid content stays in use while the file is missing, too large, not UTF-8, or not valid for the plugin.
//! 2. An unresponsive file blocks no thread that the host needs for anything else.
//!
//! *Source*: `dynamiccertificates/dynamic_cafile_content.go` of apiserver also polls every minute, in addition to file
//! events.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pintle_oci as oci;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::control::Control;
use crate::file_work::FileWork;
use crate::wire::{Refusal, reason};

/// Largest setting file: 1 MiB, the limit of Secrets and ConfigMaps, from which such files are mounted.
pub const MAX_SETTING_BYTES: usize = 1 << 20;
/// Polling interval of a file.
const PERIOD: Duration = Duration::from_secs(60);

/// The file of a command-line setting.
#[derive(Clone, Debug)]
pub struct FollowedFile {
    /// Name of the plugin.
    pub plugin: String,
    /// Name of the setting.
    pub setting: String,
    /// The file.
    pub path: PathBuf,
    /// Validates the content beyond the type of the setting.
    pub check: fn(&str) -> Result<(), String>,
    /// The content in use.
    pub content: String,
}

impl FollowedFile {
    /// The source in the list of problems.
    fn source(&self) -> String {
        format!("{} (setting {} of {})", self.path.display(), self.setting, self.plugin)
    }
}

/// Reads the text of a setting's file.
///
/// # Errors
/// It is missing, unreadable, not a regular file, longer than [`MAX_SETTING_BYTES`], or not UTF-8.
pub fn read_setting(path: &Path) -> Result<String, Refusal> {
    let bytes = oci::read(path, MAX_SETTING_BYTES)?;
    let text = String::from_utf8(bytes);
    text.map_err(|_| Refusal::new(reason::INVALID, format!("{} is not UTF-8; name a text file", path.display())))
}

/// The files that the host follows.
pub(crate) struct FollowedFiles {
    files: Vec<File>,
    control: Arc<Control>,
    work: FileWork,
}

struct File {
    file: FollowedFile,
    /// Content that the plugin rejected; it is not retried.
    rejected: Option<String>,
}

impl FollowedFiles {
    pub(crate) fn new(files: Vec<FollowedFile>, control: Arc<Control>) -> Self {
        let files = files.into_iter().map(|file| File { file, rejected: None }).collect();
        Self { files, control, work: FileWork::default() }
    }

    /// Follows the files.
    pub(crate) async fn follow(mut self) {
        if self.files.is_empty() {
            return std::future::pending().await;
        }
        let mut minutes = interval_at(Instant::now() + PERIOD, PERIOD);
        minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            minutes.tick().await;
            self.look().await;
        }
    }

    /// Reads each file once.
    pub(crate) async fn look(&mut self) {
        for File { file, rejected } in &mut self.files {
            let looked = look_at(file, rejected, &self.control, &self.work).await;
            let source = file.source();
            match looked {
                Ok(()) => self.control.solved(&source),
                // The next poll retries.
                Err(why) if why.is_busy() => {}
                Err(why) => {
                    self.control.followed_file_failed(&file.plugin, &file.setting);
                    self.control.problem(&source, &file.plugin, &why);
                }
            }
        }
    }
}

async fn look_at(
    file: &mut FollowedFile,
    rejected: &mut Option<String>,
    control: &Control,
    work: &FileWork,
) -> Result<(), Refusal> {
    let path = file.path.clone();
    let content = work.run(&file.path, move || read_setting(&path)).await?;
    if content == file.content {
        *rejected = None;
        return Ok(());
    }
    (file.check)(&content).map_err(|why| Refusal::new(reason::INVALID, format!("{} {why}", file.path.display())))?;
    if rejected.as_ref() == Some(&content) {
        let text = format!("the plugin rejects the content of {}; the content before is in use", file.path.display());
        return Err(Refusal::new(reason::INVALID, text));
    }
    match control.reconfigure(&file.plugin, &file.setting, &content).await {
        Ok(()) => {
            tracing::info!(plugin = file.plugin, setting = file.setting, path = %file.path.display(), "the file has changed");
            (file.content, *rejected) = (content, None);
            Ok(())
        }
        Err(why) if why.retry_after().is_some() => Err(why),
        Err(why) => {
            let text =
                format!("the plugin rejects the content of {}; the content before is in use", file.path.display());
            tracing::warn!(plugin = file.plugin, setting = file.setting, "{text}: {why}");
            *rejected = Some(content);
            Err(Refusal::new(reason::INVALID, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use oci::Evidence;
    use pintle_core::lifecycle::Spec;
    use serde_json::json;

    use super::*;
    use crate::control::testing::Fixture;
    use crate::control::{Base, PluginSource, Wanted};
    use crate::wire::Overrides;

    /// A host with the command-line plugin `p`, whose setting `a` comes from a file.
    struct Followed {
        fixture: Fixture,
        files: FollowedFiles,
        path: PathBuf,
        n_loaded: usize,
        _folder: tempfile::TempDir,
    }

    impl Followed {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ca");
            fs::write(&path, "one").unwrap();
            let settings = json!({"a": "one"});
            let base = Base {
                spec: Spec { config: settings.clone(), ..Spec::default() },
                settings: settings.as_object().cloned().unwrap(),
                ..Fixture::base("p 1")
            };
            let fixture = Fixture::new().and(base).await;
            let file = FollowedFile {
                plugin: "p".into(),
                setting: "a".into(),
                path: path.clone(),
                check: |text| if text.contains("good") { Ok(()) } else { Err("contains nothing good".into()) },
                content: "one".into(),
            };
            let files = FollowedFiles::new(vec![file], fixture.control.clone());
            Self { fixture, files, path, n_loaded: 0, _folder: folder }
        }

        fn config(&self) -> serde_json::Value {
            self.fixture.spec("p").config["a"].clone()
        }

        /// Number of components applied since the start.
        fn n_applied(&mut self) -> usize {
            self.n_loaded += self.fixture.loaded().len();
            self.n_loaded
        }

        /// The file's problems in `pintle plugin list`.
        fn problems(&self) -> Vec<String> {
            self.fixture.control.listing().problems.into_iter().map(|problem| problem.message).collect()
        }

        fn n_errors(&self) -> usize {
            let text = self.fixture.manager.metrics_text();
            let line = "pintle_followed_file_errors_total{plugin=\"p\",setting=\"a\"} ";
            text.lines().find_map(|of| of.strip_prefix(line)).map_or(0, |n| n.parse().unwrap())
        }
    }

    #[tokio::test]
    async fn a_changed_file_is_a_new_configuration_of_the_same_component() {
        let mut followed = Followed::new().await;
        followed.files.look().await;
        assert_eq!((followed.config(), followed.n_applied()), (json!("one"), 0), "it has not changed");
        fs::write(&followed.path, "two, good").unwrap();
        followed.files.look().await;
        assert_eq!((followed.config(), followed.n_applied()), (json!("two, good"), 1));
        followed.files.look().await;
        assert_eq!((followed.n_applied(), followed.n_errors()), (1, 0));
        assert_eq!(followed.problems(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn the_last_good_content_stays_while_the_file_is_missing_or_not_valid() {
        let mut followed = Followed::new().await;
        let shown = followed.path.display().to_string();
        let mut n = 0;
        let mut wrong = async |followed: &mut Followed, expected: &str| {
            // Two polls: one problem with two occurrences.
            followed.files.look().await;
            followed.files.look().await;
            n += 2;
            let problems = followed.problems();
            assert!(
                problems.len() == 1 && problems[0].contains(expected) && problems[0].contains(&shown),
                "{problems:?}"
            );
            assert_eq!((followed.config(), followed.n_applied(), followed.n_errors()), (json!("one"), 0, n));
        };
        fs::remove_file(&followed.path).unwrap();
        wrong(&mut followed, "No such file").await;
        fs::write(&followed.path, [0xff]).unwrap();
        wrong(&mut followed, "is not UTF-8").await;
        fs::write(&followed.path, "x".repeat(MAX_SETTING_BYTES + 1)).unwrap();
        wrong(&mut followed, "has more than 1048576 bytes").await;
        fs::write(&followed.path, "bad").unwrap();
        wrong(&mut followed, "contains nothing good").await;
        // The largest content.
        fs::write(&followed.path, format!("good{}", "x".repeat(MAX_SETTING_BYTES - 4))).unwrap();
        followed.files.look().await;
        assert_eq!(followed.problems(), Vec::<String>::new());
        assert_eq!((followed.config().as_str().map(str::len), followed.n_applied()), (Some(MAX_SETTING_BYTES), 1));
    }

    #[tokio::test]
    async fn a_plugin_that_another_source_provides_gets_the_content_when_it_is_released() {
        let mut followed = Followed::new().await;
        let wanted = Wanted {
            origin: "a registry".into(),
            bytes: b"p 2".to_vec(),
            spec: Some(Spec::default()),
            overrides: &Overrides::NONE,
            evidence: Evidence::Own,
        };
        followed.fixture.control.apply(PluginSource::Resource, "p", wanted).await.unwrap();
        fs::write(&followed.path, "two, good").unwrap();
        followed.files.look().await;
        assert_eq!(followed.config(), json!("one"), "the resource runs on");
        followed.fixture.control.release(PluginSource::Resource, "p").await.unwrap();
        assert_eq!(followed.config(), json!("two, good"));
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_looked_at_every_minute() {
        let followed = Followed::new().await;
        fs::remove_file(&followed.path).unwrap();
        let Followed { fixture, files, .. } = followed;
        let following = tokio::spawn(files.follow());
        let n = |fixture: &Fixture| fixture.control.listing().problems.len();
        tokio::time::sleep(PERIOD - Duration::from_millis(1)).await;
        assert_eq!(n(&fixture), 0);
        tokio::time::sleep(Duration::from_millis(2)).await;
        // The read is on another thread, for which the paused clock waits.
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(n(&fixture), 1);
        following.abort();
    }
}
