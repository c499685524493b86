//! Path `knfs`: the kernel's NFS client, on a directory that is mounted already.

use std::path::Path;

use crate::error::LabError;
use crate::paths::kernel_files::{self, KernelFiles};
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, Layers, PageCache, StoragePath, WhyNot, not_measurable, refused};
use crate::placement::target::{DirectoryFacts, TargetFacts};
use crate::sys::User;

/// The kernel's NFS client.
pub(crate) struct Knfs;

impl StoragePath for Knfs {
    fn name(&self) -> &'static str {
        "knfs"
    }

    fn title(&self) -> &'static str {
        "kernel NFS"
    }

    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot> {
        let reason = "not built yet: Millrace does not mount exports itself; name a directory on an NFS mount that is there \
                      already: knfs=DIR";
        asked.target.is_none().then_some(WhyNot::NotBuilt(reason))
    }

    fn layers(&self) -> Layers {
        Layers { file_system: None, client: "Kernel NFS client", network: Some("TCP, NFS"), server: Some("NFS filer") }
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        if Path::new(target).is_absolute() {
            return Ok(());
        }
        Err(refused(self.name(), target, "the full path of a directory that is mounted over NFS: knfs=/mnt/pg"))
    }

    fn examine_target(&self, target: &str, user: &User) -> Result<TargetFacts, LabError> {
        let facts = DirectoryFacts::of(Path::new(target), user)?;
        if facts.over_nfs() {
            return Ok(facts.of_target(target));
        }
        let (kind, point) = (&facts.file_system, facts.mount_point.display());
        Err(LabError::Missing {
            what: format!("measure knfs on {target}: it is no NFS mount ({kind} at {point})"),
            hint: "mount the export first, or measure it as --path local=DIR".to_owned(),
        })
    }

    fn files_lie(&self, _named: bool) -> &'static str {
        kernel_files::ON_A_TARGET
    }

    fn page_cache(&self, _named: bool) -> PageCache {
        PageCache { may_answer: true, on_client: true, because: "the kernel's client keeps data in this host's page cache" }
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        let Some(target) = order.target else { return Err(not_measurable(self.title())) };
        KernelFiles::below(Path::new(target), order)
    }
}
