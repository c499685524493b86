//! Placement of the database's files on LUNs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::client::{AttachOrder, Attached, Client};
use super::settings::{IscsiClient, IscsiSettings, NAME};
use super::storage::IscsiStorage;
use crate::error::LabError;
use crate::limits::{LUN_BYTES_MIN, LUN_PER_STATE, STRIPED_LUN_BYTES_MIN};
use crate::paths::filer::{Filer, FilerOrder};
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage::{StartOrder, Storage};
use crate::placement::KeptState;
use crate::placement::directories::Directories;
use crate::placement::part::Part;
use crate::placement::restore::{Method, tree_size};
use crate::placement::workdir::{make_directory, own, remove_tree};
use crate::plan::{FILER, Knob};
use crate::sys::User;

/// One filer for each part, with the LUNs of its file system.
pub(super) struct Luns {
    /// Their mount points.
    mounts: Directories,
    client: Client,
    settings: IscsiSettings,
    program: PathBuf,
    /// Volumes that contain the LUNs; the states of their filers are beside them.
    volumes: PathBuf,
    logs: PathBuf,
    /// Number of LUNs of one file system, numbered from 0.
    count: u32,
}

impl Luns {
    pub(super) fn make(order: PlacementOrder<'_>, client: IscsiClient) -> Result<Self, LabError> {
        let mounts = Directories::within(order.work, NAME, order.parts, order.user)?;
        let client = Client::new(client, order.program, order.work)?;
        let settings = IscsiSettings::parse(order.tuning.of(NAME), "of this configuration")?;
        let (volumes, logs) = (order.work.path("luns"), order.work.path("logs"));
        Ok(Self { mounts, client, settings, program: order.program.to_owned(), volumes, logs, count: order.layout.luns() })
    }

    fn volume(&self, part: Part) -> PathBuf {
        self.volumes.join(part.name()).join("volume")
    }

    fn serve(&self, part: Part, medium: Option<&str>, options: &[String], log: &str) -> Result<Filer, LabError> {
        let portals = (0..self.settings.portals_of(self.client.kind())).flat_map(|_| ["--iscsi", "127.0.0.1:0"]);
        let options: Vec<String> = options.iter().cloned().chain(portals.map(str::to_owned)).collect();
        let order = FilerOrder {
            directory: &self.volume(part),
            state: &self.volumes.join(part.name()).join("state"),
            log: self.logs.join(format!("{log}-{}.log", part.name())),
            addresses: 1,
            medium,
            options: &options,
        };
        Filer::start(&self.program, order)
    }

    fn attach(&self, part: Part, filer: &Filer, make_bytes: Option<u64>, log: &str) -> Result<Attached, LabError> {
        let log = self.logs.join(format!("{log}-{}.log", part.name()));
        let (luns, mount, settings) = (self.count, &self.mounts.of(part), &self.settings);
        self.client.attach(AttachOrder { filer, luns, mount, settings, make_bytes, log })
    }

    /// Creates LUNs of `bytes` in total, with a new file system that belongs to `user`, and attaches them.
    fn create(&self, part: Part, bytes: u64, user: &User) -> Result<(Attached, Filer), LabError> {
        std::fs::create_dir_all(self.volume(part)).map_err(LabError::file("create directory", self.volume(part)))?;
        let filer = self.serve(part, None, &[], "restore")?;
        for number in 0..self.count {
            let lun = format!("{}/db-{number}", filer.volume());
            // Like a disk with a cache: the file system flushes it when necessary.
            let size = lun_bytes(bytes, self.count);
            let request = json!({"op": "lun-create", "lun": lun, "size_bytes": size, "number": number, "write_cache": true});
            filer.ask("a LUN", &request)?;
        }
        let attached = self.attach(part, &filer, Some(bytes), "restore-attach")?;
        let root = self.mounts.of(part);
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&root, private).map_err(LabError::file("set permissions of", &root))?;
        own(&root, user)?;
        Ok((attached, filer))
    }
}

/// The size of each of `count` LUNs that have `together` bytes in total.
fn lun_bytes(together: u64, count: u32) -> u64 {
    let least = if count > 1 { STRIPED_LUN_BYTES_MIN } else { 0 };
    together.div_ceil(u64::from(count.max(1))).max(least).next_multiple_of(1 << 20)
}

impl Placement for Luns {
    fn parts(&self) -> &[Part] {
        self.mounts.parts()
    }

    fn database_finds(&self, part: Part) -> PathBuf {
        self.mounts.of(part)
    }

    fn method(&self, _own: Method) -> &'static str {
        Method::Copy.name()
    }

    fn restore(&mut self, state: &KeptState, _own: Method, user: &User, progress: &mut dyn FnMut(u64)) -> Result<(), LabError> {
        self.clear()?;
        make_directory(&self.volumes, 0o700)?;
        let bytes = LUN_BYTES_MIN.max(tree_size(&state.root).bytes.saturating_mul(LUN_PER_STATE));
        let mut luns = Vec::new();
        for part in self.parts() {
            luns.push(self.create(*part, bytes, user)?);
        }
        self.mounts.restore(state, &|part| self.mounts.of(part), Method::Copy, user, progress)?;
        for (attached, filer) in luns {
            attached.detach()?;
            filer.stop()?;
        }
        Ok(())
    }

    fn cached_files(&self) -> Option<&Path> {
        Some(&self.volumes)
    }

    fn start(&self, order: &StartOrder<'_>) -> Result<Box<dyn Storage>, LabError> {
        let mut storage = IscsiStorage::new(self.settings.depth);
        for part in self.parts() {
            let log = |what: &str| format!("{what}-{}", order.sequence);
            let filer = self.serve(*part, order.medium, &Knob::arguments(order.tuning.of(FILER)), &log("filer"))?;
            let attached = self.attach(*part, &filer, None, &log("attach"))?;
            storage.push(*part, attached, filer);
        }
        Ok(Box::new(storage))
    }

    fn clear(&mut self) -> Result<(), LabError> {
        remove_tree(&self.volumes)
    }

    fn remove(self: Box<Self>) -> Result<(), LabError> {
        remove_tree(&self.volumes).and_then(|()| self.mounts.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luns_have_an_equal_share_of_the_size_and_what_btrfs_wants_of_each() {
        assert_eq!(lun_bytes((8 << 30) + 1, 1), (8 << 30) + (1 << 20));
        assert_eq!(lun_bytes(8 << 30, 8), 1 << 30);
        assert_eq!(lun_bytes(256 << 20, 8), 128 << 20);
    }
}
