//! Path `local`: files of the host's own file systems.

use std::path::Path;

use crate::error::LabError;
use crate::paths::kernel_files::{self, KernelFiles};
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, Layers, PageCache, StoragePath, WhyNot, refused};
use crate::placement::directories::Directories;
use crate::placement::target::{DirectoryFacts, TargetFacts};
use crate::sys::User;

/// Files of the host's own file systems.
pub(crate) struct Local;

impl StoragePath for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn title(&self) -> &'static str {
        "local disk"
    }

    fn why_not(&self, _asked: &Asked<'_>) -> Option<WhyNot> {
        None
    }

    fn is_target(&self, text: &str) -> bool {
        text.starts_with('/')
    }

    fn layers(&self) -> Layers {
        Layers { file_system: None, client: "Kernel file system", network: None, server: None }
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        if Path::new(target).is_absolute() {
            return Ok(());
        }
        Err(refused(self.name(), target, "the full path of a directory", "/mnt/nvme"))
    }

    fn examine_target(&self, target: &str, user: &User, _overwrite: bool) -> Result<TargetFacts, LabError> {
        let facts = DirectoryFacts::of(Path::new(target), user)?;
        if !facts.over_nfs() {
            return Ok(facts.of_target(target));
        }
        let (kind, point) = (&facts.file_system, facts.mount_point.display());
        Err(LabError::Missing {
            what: format!("measure local on {target}: it is an NFS mount of the kernel ({kind} at {point})"),
            hint: format!("call it what it is: --path knfs={target}"),
        })
    }

    fn files_lie(&self, named: bool) -> &'static str {
        if named { kernel_files::ON_A_TARGET } else { "directories of the host's file system" }
    }

    fn page_cache(&self, _named: bool) -> PageCache {
        let because = "reads may be served from this host's page cache";
        PageCache { may_answer: true, on_client: true, above_medium: false, filled: true, because }
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        match order.target {
            Some(target) => KernelFiles::below(Path::new(target), order),
            None => {
                let directories = Directories::within(order.work, "local", order.parts, order.user)?;
                Ok((Box::new(KernelFiles { directories }), Vec::new()))
            }
        }
    }
}
