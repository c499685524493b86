//! Paths `fc` and `block`: an ext4 file system on a block device that the user named. Both do the same; the name says what lies below.

mod placement;

use std::path::Path;

use crate::error::LabError;
use crate::host::block_device::{self, BlockDevice};
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, Layers, PageCache, StoragePath, WhyNot, not_measurable, refused};
use crate::placement::target::TargetFacts;
use crate::sys::{self, User};
use placement::OnDevice;

/// A block device.
pub(crate) struct Device {
    name: &'static str,
    title: &'static str,
    /// Said where no device is named.
    unnamed: &'static str,
    form: &'static str,
    layers: Layers,
}

/// A Fibre Channel LUN.
pub(crate) static FC: Device = Device {
    name: "fc",
    title: "Fibre Channel",
    unnamed: "it measures a device that is named: --path fc=/dev/mapper/X",
    form: "a block device: fc=/dev/mapper/X",
    layers: Layers {
        file_system: Some("ext4"),
        client: "Kernel SCSI disk, HBA",
        network: Some("Fibre Channel fabric"),
        server: Some("Array"),
    },
};

/// Any other block device.
pub(crate) static BLOCK: Device = Device {
    name: "block",
    title: "block device",
    unnamed: "it measures a device that is named: --path block=/dev/sdX",
    form: "a block device: block=/dev/sdX",
    layers: Layers { file_system: Some("ext4"), client: "Kernel block device", network: None, server: None },
};

impl StoragePath for Device {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot> {
        if asked.target.is_none() {
            return Some(WhyNot::NotHere(self.unnamed));
        }
        if sys::effective_uid() != 0 {
            return Some(WhyNot::Lacks("making and mounting a file system on a device needs root; run it as root".to_owned()));
        }
        block_device::missing_program().map(WhyNot::Lacks)
    }

    fn layers(&self) -> Layers {
        self.layers
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        if Path::new(target).is_absolute() { Ok(()) } else { Err(refused(self.name, target, self.form)) }
    }

    fn examine_target(&self, target: &str, _user: &User, overwrite: bool) -> Result<TargetFacts, LabError> {
        let device = BlockDevice::examine(Path::new(target), overwrite)?;
        let size = results::sizes::bytes_text(device.bytes);
        // What a file system takes for itself.
        let free_bytes = device.bytes / 10 * 9;
        let what = format!("block device of {size}, on which ext4 is made for each run");
        Ok(TargetFacts { target: target.to_owned(), what, free_bytes, this_host: false })
    }

    fn files_lie(&self, _named: bool) -> &'static str {
        "ext4 on the device"
    }

    fn page_cache(&self, _named: bool) -> PageCache {
        PageCache {
            may_answer: true,
            on_client: true,
            because: "the file system on the device keeps data in this host's page cache",
        }
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        let Some(target) = order.target else { return Err(not_measurable(self.title)) };
        Ok((Box::new(OnDevice::make(Path::new(target), order)?), Vec::new()))
    }
}
