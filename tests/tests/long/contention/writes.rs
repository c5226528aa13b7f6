//! Who wrote when, and clocks of processes that a test moves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use pintle_tests::ControlPlane;
use pintle_tests::controlplane::{AuditEntry, AuditObject, TimedEntry};

/// A write that the API server has carried out.
#[derive(Clone, Debug)]
pub(super) struct Write {
    user: String,
    what: String,
    received: Timestamp,
    answered: Timestamp,
    is_of_lease: bool,
    is_of_pods: bool,
}

impl Write {
    pub(super) fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn is_of_pods(&self) -> bool {
        self.is_of_pods && self.is_of_contender()
    }

    fn is_of_contender(&self) -> bool {
        self.user == "kcm" || self.user.starts_with("host-")
    }
}

/// A write of a contender that did not hold the Lease.
#[derive(Debug)]
#[allow(dead_code, reason = "shown as a whole")]
pub(super) struct Overlap {
    pub(super) user: String,
    what: String,
    received: Timestamp,
    /// Who had taken the Lease, and when.
    holder: String,
    since: Timestamp,
}

/// All writes that succeeded, in the order of their answers.
pub(super) struct Writes(Vec<Write>);

impl Writes {
    /// Reads the audit log of a control plane.
    pub(super) fn read(plane: &ControlPlane) -> Result<Self> {
        let mut writes: Vec<Write> = plane.timed_audit_log()?.into_iter().filter_map(write_of).collect();
        writes.sort_by_key(|write| write.answered);
        Ok(Self(writes))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The writes after the first `n`.
    pub(super) fn after(&self, n: usize) -> impl Iterator<Item = &Write> {
        self.0.iter().skip(n)
    }

    pub(super) fn n_of_contenders(&self) -> usize {
        self.0.iter().filter(|write| write.is_of_contender() && !write.is_of_lease).count()
    }

    /// How often the Lease came to another contender.
    pub(super) fn n_terms(&self) -> usize {
        let mut holders: Vec<&str> = self.takings().map(|write| write.user.as_str()).collect();
        holders.dedup();
        holders.len()
    }

    fn takings(&self) -> impl Iterator<Item = &Write> {
        self.0.iter().filter(|write| write.is_of_lease && write.is_of_contender())
    }

    /// The writes of contenders that were received after another one had taken the Lease.
    pub(super) fn overlaps(&self) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        for write in self.0.iter().filter(|write| write.is_of_contender() && !write.is_of_lease) {
            let holder = self.takings().take_while(|taking| taking.answered <= write.received).last();
            if let Some(holder) = holder.filter(|holder| holder.user != write.user) {
                overlaps.push(Overlap {
                    user: write.user.clone(),
                    what: write.what.clone(),
                    received: write.received,
                    holder: holder.user.clone(),
                    since: holder.answered,
                });
            }
        }
        overlaps
    }
}

/// Only what succeeded, and no Events: those about the Lease are written after a term.
fn write_of(TimedEntry { entry, received, answered }: TimedEntry) -> Option<Write> {
    let succeeded = entry.succeeded();
    let AuditEntry { verb, user, object_ref: AuditObject { resource, name, .. }, .. } = entry;
    let is_write = matches!(&*verb, "create" | "update" | "patch" | "delete" | "deletecollection");
    if !is_write || !succeeded || resource == "events" {
        return None;
    }
    Some(Write {
        user: user.username,
        received,
        answered,
        is_of_lease: resource == "leases" && name == "kube-controller-manager",
        is_of_pods: resource == "pods" && matches!(&*verb, "create" | "delete"),
        what: format!("{verb} {resource} {name}"),
    })
}

/// The wall clock of a process, by Debian's libfaketime.
pub(super) struct Clock {
    file: PathBuf,
    library: PathBuf,
}

impl Clock {
    /// A clock that is right.
    pub(super) fn new(folder: &Path, name: &str) -> Result<Self> {
        let clock = Self { file: folder.join(format!("clock-{name}")), library: library()? };
        clock.set("+0")?;
        Ok(clock)
    }

    /// Lets it jump by so many hours.
    pub(super) fn jump(&self, hours: i32) -> Result<()> {
        self.set(&format!("{hours:+}h"))
    }

    fn set(&self, offset: &str) -> Result<()> {
        fs::write(&self.file, offset).context("write the offset of the clock")
    }

    /// Environment of the process.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            // The monotonic clock stays as it is, and so do the deadlines of the kernel.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
        ]
    }
}

/// The library, installed if it is missing.
fn library() -> Result<PathBuf> {
    // Tests run beside each other, and apt-get refuses to.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let find = || {
        ["x86_64", "aarch64"]
            .map(|machine| PathBuf::from(format!("/usr/lib/{machine}-linux-gnu/faketime/libfaketimeMT.so.1")))
            .into_iter()
            .find(|path| path.exists())
    };
    if find().is_none() {
        let status =
            Command::new("apt-get").args(["install", "-y", "-q", "faketime"]).status().context("run apt-get")?;
        ensure!(status.success(), "apt-get install faketime fails: {status}; the test moves clocks with libfaketime");
    }
    find().context("Debian's package faketime has no libfaketimeMT.so.1")
}
