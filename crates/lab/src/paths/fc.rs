//! Path `fc`: a Fibre Channel block device. Named in plans and records; not built yet.

use std::path::Path;

use crate::error::LabError;
use crate::paths::storage_path::{Asked, Layers, StoragePath, WhyNot, refused};

/// A Fibre Channel block device.
pub(crate) struct Fc;

impl StoragePath for Fc {
    fn name(&self) -> &'static str {
        "fc"
    }

    fn title(&self) -> &'static str {
        "Fibre Channel"
    }

    fn why_not(&self, _asked: &Asked<'_>) -> Option<WhyNot> {
        Some(WhyNot::NotBuilt("not built yet: this version has no Fibre Channel path"))
    }

    fn layers(&self) -> Layers {
        Layers {
            file_system: None,
            client: "Kernel SCSI disk, HBA",
            network: Some("Fibre Channel fabric"),
            server: Some("Array"),
        }
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        if Path::new(target).is_absolute() {
            return Ok(());
        }
        Err(refused(self.name(), target, "a block device: fc=/dev/mapper/X"))
    }
}
