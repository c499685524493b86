//! Path `iscsi`: a LUN over iSCSI. Named in plans and records; not built yet.

use crate::error::LabError;
use crate::paths::storage_path::{Asked, Layers, StoragePath, WhyNot, refused};

/// A LUN over iSCSI.
pub(crate) struct Iscsi;

impl StoragePath for Iscsi {
    fn name(&self) -> &'static str {
        "iscsi"
    }

    fn title(&self) -> &'static str {
        "iSCSI"
    }

    fn why_not(&self, _asked: &Asked<'_>) -> Option<WhyNot> {
        Some(WhyNot::NotBuilt("not built yet: this version has no iSCSI target and initiator"))
    }

    fn layers(&self) -> Layers {
        Layers { client: "iSCSI initiator, SCSI disk", network: Some("TCP, iSCSI"), server: Some("iSCSI target") }
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        if target.starts_with("iscsi://") {
            return Ok(());
        }
        Err(refused(self.name(), target, "the URL of a LUN: iscsi=iscsi://filer/IQN/0"))
    }
}
