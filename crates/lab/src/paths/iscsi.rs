//! Path `iscsi`: an ext4 file system on a LUN, or btrfs over several LUNs, served by Millrace's filer. Two clients make it a block
//! device of this host: the kernel's (open-iscsi, with dm-multipath) if available, and Millrace's initiator with FUSE and a loop device.

mod attached_lun;
mod client;
mod open_iscsi;
mod placement;
mod settings;
mod storage;

use std::path::Path;

use crate::error::LabError;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, LUN_IN_FLIGHT, Layers, PageCache, PathRef, StoragePath, WhyNot, not_measurable};
use crate::plan::Knobs;
use placement::Luns;
use settings::{IscsiClient, IscsiSettings, NAME};

/// A LUN over iSCSI.
pub(crate) struct Iscsi {
    client: IscsiClient,
    title: &'static str,
    note: &'static str,
    layers: Layers,
}

/// With Millrace's initiator. The name of the path alone means this one, because every kernel supports it.
pub(crate) static MILLRACE: Iscsi = Iscsi {
    client: IscsiClient::Millrace,
    // The kernel's own initiator would perform better, so a verdict on this client must not be read as one on iSCSI.
    title: "iscsi/fuse-loop",
    note: "iscsi/fuse-loop: the LUN is a block device by FUSE and a loop device, whose kernel threads are in no process's CPU time; \
           millrace iscsi bench measures the protocol without them",
    layers: Layers {
        file_system: Some("ext4"),
        client: "loop device, FUSE, initiator",
        network: Some("TCP, iSCSI"),
        server: Some("iSCSI target"),
    },
};

/// With the kernel's initiator.
pub(crate) static OPEN_ISCSI: Iscsi = Iscsi {
    client: IscsiClient::OpenIscsi,
    title: "iscsi/open-iscsi",
    note: "iscsi/open-iscsi: what the initiator does in threads of the kernel is in no process's CPU time or context switches; the \
           host's time has it",
    layers: Layers {
        file_system: Some("ext4"),
        client: "dm-multipath, SCSI disk, open-iscsi",
        network: Some("TCP, iSCSI"),
        server: Some("iSCSI target"),
    },
};

impl StoragePath for Iscsi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn note(&self) -> Option<&'static str> {
        Some(self.note)
    }

    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot> {
        if asked.target.is_some() {
            let reason = "not built yet: a comparison does not attach a LUN by its URL; attach it by millrace iscsi attach URL --mount DIR, \
                          and measure it as --path local:iscsi=DIR";
            return Some(WhyNot::NotBuilt(reason));
        }
        choose(asked).err().map(WhyNot::Lacks)
    }

    fn client(&self) -> Option<&'static str> {
        Some(self.client.name())
    }

    /// Records of older versions contain none; their LUNs used Millrace's.
    fn unnamed_client(&self) -> &'static str {
        IscsiClient::Millrace.name()
    }

    fn with_client(&self, client: &str) -> Option<PathRef> {
        IscsiClient::named(client).map(path_of)
    }

    fn chosen(&self, asked: &Asked<'_>) -> Option<PathRef> {
        choose(asked).ok().map(path_of)
    }

    fn has_settings(&self) -> bool {
        true
    }

    fn check_settings(&self, settings: &Knobs, tuning: &str) -> Result<(), LabError> {
        IscsiSettings::parse(settings, tuning).map(drop)
    }

    fn tuned_settings(&self) -> Knobs {
        settings::tuned()
    }

    fn end_left_behind(&self, program: &Path, directory: &Path) -> Result<(), LabError> {
        attached_lun::end_left_behind(program, directory)?;
        open_iscsi::end_left_behind(directory)
    }

    fn started_by_guest(&self) -> Option<&'static str> {
        Some(NAME)
    }

    fn more_in_flight(&self) -> Option<&'static str> {
        Some(LUN_IN_FLIGHT)
    }

    fn layers(&self) -> Layers {
        self.layers
    }

    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        if target.starts_with("iscsi://") {
            return Ok(());
        }
        Err(LabError::plan(
            format!("use \"{target}\" as the target of path {}: it is not the URL of a LUN", self.name()),
            "attach the LUN by millrace iscsi attach URL --mount DIR, and measure it as --path local:iscsi=DIR",
        ))
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
            above_medium: true,
            filled: true,
            because: "the file system on the LUN keeps data in this host's page cache",
        }
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        if order.target.is_some() {
            return Err(not_measurable(self.title()));
        }
        Ok((Box::new(Luns::make(order, self.client)?), Vec::new()))
    }
}

fn path_of(client: IscsiClient) -> PathRef {
    match client {
        IscsiClient::OpenIscsi => &OPEN_ISCSI,
        IscsiClient::Millrace => &MILLRACE,
    }
}

/// The client of a configuration: the one in its tuning, else the kernel's if available, else Millrace's. An error if it cannot be used.
fn choose(asked: &Asked<'_>) -> Result<IscsiClient, String> {
    let settings = IscsiSettings::parse(asked.tuning.of(NAME), "of this configuration").map_err(|error| error.to_string())?;
    let lacks = |client: IscsiClient| match client {
        IscsiClient::OpenIscsi if asked.luns > 1 => {
            Some("layout luns=N needs the initiator of Millrace: leave client = \"open-iscsi\" out".to_owned())
        }
        IscsiClient::OpenIscsi => open_iscsi::why_not(settings.portals_of(client)),
        IscsiClient::Millrace => attached_lun::why_not(asked.luns),
    };
    if let Some(client) = settings.client {
        return lacks(client).map_or(Ok(client), Err);
    }
    if settings.only_ours().is_none() && lacks(IscsiClient::OpenIscsi).is_none() {
        return Ok(IscsiClient::OpenIscsi);
    }
    lacks(IscsiClient::Millrace).map_or(Ok(IscsiClient::Millrace), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Tuning;

    #[test]
    fn a_client_that_is_asked_for_is_used_or_the_reason_is_said_and_none_stands_in_for_it() {
        let tuning: Tuning = toml::from_str("[iscsi]\nclient = \"open-iscsi\"").unwrap();
        let asked = Asked { program: Path::new("/millrace"), target: None, medium: false, luns: 2, tuning: &tuning };
        assert!(choose(&asked).unwrap_err().contains("luns=N needs the initiator of Millrace"));
        assert!(matches!(MILLRACE.why_not(&asked), Some(WhyNot::Lacks(_))) && MILLRACE.chosen(&asked).is_none());
    }

    #[test]
    fn each_client_is_the_same_path_with_layers_of_its_own_and_is_found_by_its_name_in_records() {
        for path in [&MILLRACE, &OPEN_ISCSI] {
            let found = MILLRACE.with_client(path.client().unwrap()).unwrap();
            assert_eq!((found.name(), found.title(), found.note()), ("iscsi", path.title, Some(path.note)));
        }
        assert!(MILLRACE.with_client("libiscsi").is_none());
    }
}
