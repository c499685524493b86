//! Path `iscsi`: an ext4 file system on a LUN, or btrfs over several. A filer of ours serves the LUN, our initiator makes it a block device of this host
//! by FUSE and a loop device.

mod placement;
mod storage;

use crate::error::LabError;
use crate::host::attached_lun;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, Layers, PageCache, StoragePath, WhyNot, not_measurable, refused};
use placement::Luns;

/// A LUN over iSCSI.
pub(crate) struct Iscsi;

impl StoragePath for Iscsi {
    fn name(&self) -> &'static str {
        "iscsi"
    }

    fn title(&self) -> &'static str {
        // The kernel's own initiator would do better: no verdict shall be taken for one on iSCSI.
        "iscsi/fuse-loop"
    }

    fn note(&self) -> Option<&'static str> {
        Some(
            "iscsi/fuse-loop: the LUN is a block device by FUSE and a loop device, whose kernel threads are in no process's CPU time; \
             millrace iscsi bench measures the protocol without them",
        )
    }

    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot> {
        if asked.target.is_some() {
            let reason = "not built yet: a comparison attaches LUNs of its own filer only; attach this one by millrace iscsi attach URL \
                          --mount DIR, then name it local=DIR";
            return Some(WhyNot::NotBuilt(reason));
        }
        attached_lun::why_not(asked.luns).map(WhyNot::Lacks)
    }

    fn layers(&self) -> Layers {
        Layers {
            file_system: Some("ext4"),
            client: "loop device, FUSE, initiator",
            network: Some("TCP, iSCSI"),
            server: Some("iSCSI target"),
        }
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        if target.starts_with("iscsi://") {
            return Ok(());
        }
        Err(refused(self.name(), target, "the URL of a LUN: iscsi=iscsi://filer/IQN/0"))
    }

    fn files_lie(&self, _named: bool) -> &'static str {
        "ext4 on LUNs of Millrace's own filers on this host, one for each volume"
    }

    fn striped(&self, luns: u32) -> Option<String> {
        Some(format!("btrfs over {luns} LUNs"))
    }

    fn page_cache(&self, _named: bool) -> PageCache {
        PageCache {
            may_answer: true,
            on_client: true,
            because: "the file system on the LUN keeps data in this host's page cache",
        }
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        if order.target.is_some() {
            return Err(not_measurable(self.title()));
        }
        Ok((Box::new(Luns::make(order)?), Vec::new()))
    }
}
