//! Path `fc`: an ext4 file system on a Fibre Channel LUN that the user named. In a guest, without a device, it is a disk over Fibre
//! Channel that the guest creates.

mod settings;
mod software;

use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::guest;
use crate::paths::device::{self, OnDevice};
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, LUN_IN_FLIGHT, Layers, PageCache, PathRef, StoragePath, WhyNot, not_measurable};
use crate::placement::target::TargetFacts;
use crate::plan::Knobs;
use crate::sys::User;
use settings::FcSettings;
use software::SoftwareFc;

/// A Fibre Channel LUN.
pub(crate) struct FibreChannel {
    title: &'static str,
    note: Option<&'static str>,
    /// The service that creates the device, if it need not be named.
    maker: Option<&'static str>,
    layers: Layers,
}

/// A LUN that the user named.
pub(crate) static FC: FibreChannel = FibreChannel {
    title: "Fibre Channel",
    note: None,
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
static SOFTWARE_FC: FibreChannel = FibreChannel {
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
};

impl StoragePath for FibreChannel {
    fn name(&self) -> &'static str {
        "fc"
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn note(&self) -> Option<&'static str> {
        self.note
    }

    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot> {
        match (asked.target, made(asked.target)) {
            (None, None) if guest::label().is_some() => {
                Some(WhyNot::Lacks("the guest's Fibre Channel did not come up; `dmesg` in it says why".to_owned()))
            }
            (None, None) => Some(WhyNot::NotHere(
                "it needs the device of a LUN: compare --path fc=/dev/mapper/NAME. A guest makes one by software: compare --guest",
            )),
            (Some(_), _) if !asked.tuning.of(self.name()).is_empty() => {
                let reason = "tuning fc.depth is of the Fibre Channel that a guest makes: a device that is named keeps its own";
                Some(WhyNot::Lacks(reason.to_owned()))
            }
            _ => device::why_not(),
        }
    }

    fn client(&self) -> Option<&'static str> {
        self.maker
    }

    fn with_client(&self, client: &str) -> Option<PathRef> {
        (client == SOFTWARE).then_some(&SOFTWARE_FC)
    }

    fn chosen(&self, asked: &Asked<'_>) -> Option<PathRef> {
        made(asked.target).map(|_| &SOFTWARE_FC as PathRef)
    }

    fn started_by_guest(&self) -> Option<&'static str> {
        Some(self.name())
    }

    fn has_settings(&self) -> bool {
        true
    }

    fn check_settings(&self, settings: &Knobs, tuning: &str) -> Result<(), LabError> {
        FcSettings::parse(settings, tuning).map(drop)
    }

    fn never_ranked_with(&self) -> Option<(&'static str, &'static str)> {
        self.maker.map(|_| ("iscsi", "Fibre Channel over an emulated wire is never ranked against iSCSI"))
    }

    fn more_in_flight(&self) -> Option<&'static str> {
        Some(LUN_IN_FLIGHT)
    }

    fn layers(&self) -> Layers {
        self.layers
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        device::accept_target(self.name(), target, "/dev/mapper/X")
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
        device::page_cache(self.maker.is_some())
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        let placed = match (order.target, made(order.target)) {
            (Some(target), _) => OnDevice::make(Path::new(target), None, order)?,
            (None, Some(device)) => {
                let settings = FcSettings::parse(order.tuning.of(self.name()), "of this configuration")?;
                OnDevice::make(&device, Some(Box::new(SoftwareFc { settings })), order)?
            }
            (None, None) => return Err(not_measurable(self.title())),
        };
        Ok((Box::new(placed), Vec::new()))
    }
}

/// The device that a guest created, if the user named none.
fn made(target: Option<&str>) -> Option<PathBuf> {
    if target.is_none() { software::device() } else { None }
}
