//! Placement of the database's files on exports of Millrace's filers, mounted by the kernel.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::settings::{KernelNfs, NAME};
use super::storage::KnfsStorage;
use crate::error::LabError;
use crate::host::kernel_mount::KernelMount;
use crate::host::{interrupt, rpc_slots};
use crate::paths::filer::Filer;
use crate::paths::filers;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage::{StartOrder, Storage};
use crate::placement::KeptState;
use crate::placement::directories::Directories;
use crate::placement::part::Part;
use crate::placement::restore::Method;
use crate::sys::User;

/// Slots of a connection if the kernel does not report them.
const NOT_KNOWN: u32 = 0;

/// Directories of this host that Millrace's filers serve, and their mount points during a run. A filer serves one part; or, if the
/// layout mounts one volume by several addresses, one filer serves all parts, each mounted by its own address.
pub(super) struct Mounted {
    /// The served directories, the same as on path `dnfs`.
    exports: Directories,
    points: Directories,
    /// Number of addresses of the single filer; 1 for a filer for each part.
    addresses: u32,
}

impl Mounted {
    pub(super) fn make(order: PlacementOrder<'_>) -> Result<Self, LabError> {
        let addresses = order.layout.addresses();
        let exports = Directories::within(order.work, "export", order.parts.clone(), order.user)?;
        let points = Directories::within(order.work, "knfs", order.parts, order.user)?;
        Ok(Self { exports, points, addresses })
    }

    /// Starts the filers of a run.
    fn serve(&self, order: &StartOrder<'_>) -> Result<Vec<(Part, Filer)>, LabError> {
        if self.addresses > 1 {
            filers::serve_together(&self.exports, self.addresses, order)
        } else {
            filers::serve(&self.exports, order)
        }
    }

    /// The mounts, each with its server address and export.
    fn exported(&self, filers: &[(Part, Filer)]) -> Vec<(Part, SocketAddr, String)> {
        let at = |part: Part, filer: &Filer, address: SocketAddr, below: &str| {
            (part, address, format!("{}:/{}{below}", address.ip(), filer.volume()))
        };
        match filers {
            [(_, filer)] if self.addresses > 1 => {
                let parts = self.exports.parts().iter().zip(filer.addresses());
                parts.map(|(part, address)| at(*part, filer, *address, &format!("/{}", part.name()))).collect()
            }
            each => each
                .iter()
                .flat_map(|(part, filer)| filer.addresses().first().map(|address| at(*part, filer, *address, "")))
                .collect(),
        }
    }

    fn mount(
        &self,
        (part, address, what): (Part, SocketAddr, String),
        settings: &KernelNfs,
        order: &StartOrder<'_>,
    ) -> Result<KernelMount, LabError> {
        let log = order.work.path("logs").join(format!("mount-{}-{}.log", order.sequence, part.name()));
        KernelMount::mount("nfs", &settings.mount_options(address.port()), OsStr::new(&what), &self.points.of(part), log)
    }
}

impl Placement for Mounted {
    fn parts(&self) -> &[Part] {
        self.exports.parts()
    }

    fn database_finds(&self, part: Part) -> PathBuf {
        self.points.of(part)
    }

    fn method(&self, own: Method) -> &'static str {
        self.exports.method(own).name()
    }

    fn restore(&mut self, state: &KeptState, own: Method, user: &User, progress: &mut dyn FnMut(u64)) -> Result<(), LabError> {
        self.exports.restore(state, &|part| self.points.of(part), own, user, progress)
    }

    fn cached_files(&self) -> Option<&Path> {
        Some(self.exports.root())
    }

    fn start(&self, order: &StartOrder<'_>) -> Result<Box<dyn Storage>, LabError> {
        let settings = KernelNfs::parse(order.tuning.of(NAME), "of this configuration")?;
        let mut storage = KnfsStorage { mounts: Vec::new(), filers: self.serve(order)?, slots: NOT_KNOWN };
        let changed = settings.slots.map(|slots| rpc_slots::set(slots, order.work.root())).transpose()?;
        storage.slots = rpc_slots::at_most().unwrap_or(NOT_KNOWN);
        for exported in self.exported(&storage.filers) {
            interrupt::check()?;
            let part = exported.0;
            storage.mounts.push((part, self.mount(exported, &settings, order)?));
        }
        // A connection reads these settings at its mount.
        drop(changed);
        Ok(Box::new(storage))
    }

    fn clear(&mut self) -> Result<(), LabError> {
        self.exports.clear()
    }

    fn remove(self: Box<Self>) -> Result<(), LabError> {
        let Self { exports, points, .. } = *self;
        exports.remove().and(points.remove())
    }
}
