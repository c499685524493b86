//! Path `block`: an ext4 file system on any block device that the user named.

use std::path::Path;

use crate::error::LabError;
use crate::paths::device::{self, OnDevice};
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, Layers, PageCache, StoragePath, WhyNot, not_measurable};
use crate::placement::target::TargetFacts;
use crate::sys::User;

/// Any block device.
pub(crate) struct Block;

impl StoragePath for Block {
    fn name(&self) -> &'static str {
        "block"
    }

    fn title(&self) -> &'static str {
        "block device"
    }

    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot> {
        match asked.target {
            Some(_) => device::why_not(),
            None => Some(WhyNot::NotHere("it needs a block device: compare --path block=/dev/NAME")),
        }
    }

    fn layers(&self) -> Layers {
        Layers { file_system: Some("ext4"), client: "Kernel block device", network: None, server: None }
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        device::accept_target(self.name(), target, "/dev/sdX")
    }

    fn takes_device(&self) -> bool {
        true
    }

    fn examine_target(&self, target: &str, _user: &User, overwrite: bool) -> Result<TargetFacts, LabError> {
        device::examine_target(target, overwrite)
    }

    fn files_lie(&self, _named: bool) -> &'static str {
        device::FILES_LIE
    }

    fn page_cache(&self, _named: bool) -> PageCache {
        device::page_cache(false)
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        let Some(target) = order.target else { return Err(not_measurable(self.title())) };
        Ok((Box::new(OnDevice::make(Path::new(target), None, order)?), Vec::new()))
    }
}
