//! Paths `fc` and `block`: an ext4 file system on a block device that the user named. Both work in the same way; the name states the
//! kind of device. In a guest, `fc` without a device is a disk over Fibre Channel that the guest creates.

mod placement;
mod software_fc;

use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::guest;
use crate::host::block_device::{self, BlockDevice};
use crate::host::serving::Serving;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, Layers, PageCache, PathRef, StoragePath, WhyNot, not_measurable, refused};
use crate::placement::target::TargetFacts;
use crate::plan::FcSettings;
use crate::sys::{self, User};
use placement::OnDevice;

/// A block device.
pub(crate) struct Device {
    name: &'static str,
    title: &'static str,
    note: Option<&'static str>,
    /// Reason if no device is named.
    unnamed: &'static str,
    form: &'static str,
    /// The service that creates the device, if it need not be named.
    maker: Option<&'static str>,
    layers: Layers,
}

/// A Fibre Channel LUN that the user named.
pub(crate) static FC: Device = Device {
    name: "fc",
    title: "Fibre Channel",
    note: None,
    unnamed: "it needs the device of a LUN: compare --path fc=/dev/mapper/NAME. A guest makes one by software: compare --guest",
    form: "a block device: fc=/dev/mapper/X",
    maker: None,
    layers: Layers {
        file_system: Some("ext4"),
        client: "Kernel SCSI disk, HBA",
        network: Some("Fibre Channel fabric"),
        server: Some("Array"),
    },
};

/// Client name, in records, of Fibre Channel in a guest.
const SOFTWARE: &str = "software-fcoe";

/// Fibre Channel that a guest creates.
pub(crate) static SOFTWARE_FC: Device = Device {
    title: "Fibre Channel over an emulated wire",
    note: Some(
        "Fibre Channel over an emulated wire: real FCP of the kernel's initiator and target, by software FCoE between interfaces of the \
         guest, never ranked against iSCSI; a medium below it is dm-delay with the mean of the model, in whole milliseconds, without \
         spindles or a queue",
    ),
    maker: Some(SOFTWARE),
    layers: Layers {
        file_system: Some("ext4"),
        client: "dm-multipath, SCSI disk, libfc",
        network: Some("FCoE, emulated wire"),
        server: Some("Kernel FC target"),
    },
    ..FC
};

/// Any other block device.
pub(crate) static BLOCK: Device = Device {
    name: "block",
    title: "block device",
    note: None,
    unnamed: "it needs a block device: compare --path block=/dev/NAME",
    form: "a block device: block=/dev/sdX",
    maker: None,
    layers: Layers { file_system: Some("ext4"), client: "Kernel block device", network: None, server: None },
};

impl StoragePath for Device {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn note(&self) -> Option<&'static str> {
        self.note
    }

    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot> {
        match (asked.target, self.made(asked.target)) {
            (None, None) if self.is_fc() && guest::label().is_some() => {
                return Some(WhyNot::Lacks("the guest's Fibre Channel did not come up; `dmesg` in it says why".to_owned()));
            }
            (None, None) => return Some(WhyNot::NotHere(self.unnamed)),
            (Some(_), _) if self.is_fc() && !asked.tuning.fc.is_empty() => {
                let reason = "tuning fc.depth is of the Fibre Channel that a guest makes: a device that is named keeps its own";
                return Some(WhyNot::Lacks(reason.to_owned()));
            }
            _ => {}
        }
        if sys::effective_uid() != 0 {
            return Some(WhyNot::Lacks("making and mounting a file system on a device needs root; run it as root".to_owned()));
        }
        block_device::missing_program().map(WhyNot::Lacks)
    }

    fn client(&self) -> Option<&'static str> {
        self.maker
    }

    fn with_client(&self, client: &str) -> Option<PathRef> {
        (self.is_fc() && client == SOFTWARE).then_some(&SOFTWARE_FC)
    }

    fn chosen(&self, asked: &Asked<'_>) -> Option<PathRef> {
        self.made(asked.target).map(|_| &SOFTWARE_FC as PathRef)
    }

    fn started_by_guest(&self) -> Option<&'static str> {
        self.is_fc().then_some(self.name)
    }

    fn never_ranked_with(&self) -> Option<(&'static str, &'static str)> {
        self.maker.map(|_| ("iscsi", "Fibre Channel over an emulated wire is never ranked against iSCSI"))
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
        // The rest is for the file system's own structures.
        let free_bytes = device.bytes / 10 * 9;
        let serving = Serving::of_device(Path::new(target));
        let (this_host, by) = (serving.is_on_this_host(), serving.clause());
        let what = format!("block device of {size}{by}, on which ext4 is made for each run");
        Ok(TargetFacts { target: target.to_owned(), what, free_bytes, this_host })
    }

    fn files_lie(&self, _named: bool) -> &'static str {
        "ext4 on the device"
    }

    fn page_cache(&self, _named: bool) -> PageCache {
        PageCache {
            may_answer: true,
            on_client: true,
            above_medium: self.maker.is_some(),
            filled: false,
            because: "the file system on the device keeps data in this host's page cache, which is empty when a run begins",
        }
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        let placed = match (order.target, self.made(order.target)) {
            (Some(target), _) => OnDevice::make(Path::new(target), None, order)?,
            (None, Some(device)) => {
                let settings = FcSettings::parse(&order.tuning.fc, "of this configuration")?;
                OnDevice::make(&device, Some(settings), order)?
            }
            (None, None) => return Err(not_measurable(self.title)),
        };
        Ok((Box::new(placed), Vec::new()))
    }
}

impl Device {
    fn is_fc(&self) -> bool {
        self.name == FC.name
    }

    /// The device that a guest created, if the user named none.
    fn made(&self, target: Option<&str>) -> Option<PathBuf> {
        if self.is_fc() && target.is_none() { software_fc::device() } else { None }
    }
}
