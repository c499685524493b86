//! Path `knfs`: the kernel's NFS client. Without a target, Millrace's filer serves directories of the work directory, as on path
//! `dnfs`, and the kernel mounts them; a target is a directory that is already mounted.

mod placement;
mod settings;
mod storage;

use std::path::Path;

use crate::error::LabError;
use crate::paths::kernel_files::{self, KernelFiles};
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, Layers, PageCache, StoragePath, WhyNot, refused};
use crate::placement::target::{DirectoryFacts, TargetFacts};
use crate::plan::Knobs;
use crate::sys::{self, User};
use placement::Mounted;
use settings::{KernelNfs, NAME};

/// The kernel's NFS client.
pub(crate) struct Knfs;

impl StoragePath for Knfs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "kernel NFS"
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "kernel NFS: what the client does in threads of the kernel is in no process's CPU time or context switches; the host's \
             time has it",
        )
    }

    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot> {
        // A directory that is already mounted needs neither privileges nor programs.
        if asked.target.is_some() {
            return None;
        }
        if sys::effective_uid() != 0 {
            let reason = "mounting an export needs root; run it as root, or name a directory that is mounted already: knfs=DIR";
            return Some(WhyNot::Lacks(reason.to_owned()));
        }
        if !::host::has_file_system("nfs") {
            return Some(WhyNot::NotHere(
                "this host's kernel has no NFS client: no nfs in /proc/filesystems, and no module nfs. The kernel of a guest has one: compare --guest",
            ));
        }
        let lacks = !::host::has_program("mount.nfs");
        lacks.then(|| WhyNot::Lacks("mount.nfs is not in PATH; install nfs-common (Debian, Ubuntu) or nfs-utils".to_owned()))
    }

    fn has_settings(&self) -> bool {
        true
    }

    fn check_settings(&self, settings: &Knobs, tuning: &str) -> Result<(), LabError> {
        KernelNfs::parse(settings, tuning).map(drop)
    }

    fn tuned_settings(&self) -> Knobs {
        settings::tuned()
    }

    fn more_in_flight(&self) -> Option<&'static str> {
        Some("kernel NFS: sunrpc.tcp_slot_table_entries")
    }

    fn more_connections(&self) -> Option<&'static str> {
        Some("kernel NFS: nconnect=N")
    }

    fn layers(&self) -> Layers {
        Layers { file_system: None, client: "Kernel NFS client", network: Some("TCP, NFS"), server: Some("NFS filer") }
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        if Path::new(target).is_absolute() {
            return Ok(());
        }
        Err(refused(self.name(), target, "the full path of a directory", "/mnt/pg, which is mounted over NFS"))
    }

    fn examine_target(&self, target: &str, user: &User, _overwrite: bool) -> Result<TargetFacts, LabError> {
        let facts = DirectoryFacts::of(Path::new(target), user)?;
        if facts.over_nfs() {
            return Ok(facts.of_target(target));
        }
        let (kind, point) = (&facts.file_system, facts.mount_point.display());
        Err(LabError::Missing {
            what: format!("measure knfs on {target}: it is not an NFS mount ({kind} at {point})"),
            hint: "mount the export first, or measure it as --path local=DIR".to_owned(),
        })
    }

    fn files_lie(&self, named: bool) -> &'static str {
        if named {
            kernel_files::ON_A_TARGET
        } else {
            "exports of Millrace's own filers on this host, one for each volume, mounted by the kernel"
        }
    }

    fn mounts_by_address(&self) -> bool {
        true
    }

    fn page_cache(&self, named: bool) -> PageCache {
        let because = "the kernel's client keeps data in this host's page cache";
        PageCache { may_answer: true, on_client: true, above_medium: !named, filled: true, because }
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        match order.target {
            Some(target) => KernelFiles::below(Path::new(target), order),
            None => Ok((Box::new(Mounted::make(order)?), Vec::new())),
        }
    }
}
