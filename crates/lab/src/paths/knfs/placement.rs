//! Where the files lie that a database finds on exports of ours, mounted by the kernel.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::storage::KnfsStorage;
use crate::error::LabError;
use crate::host::kernel_mount::KernelMount;
use crate::host::rpc_slots::{self, ChangedSlots};
use crate::host::{cgroup, interrupt};
use crate::paths::filer::Filer;
use crate::paths::filers;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage::{StartOrder, Storage};
use crate::placement::KeptState;
use crate::placement::directories::Directories;
use crate::placement::part::Part;
use crate::placement::restore::Method;
use crate::plan::KernelNfs;
use crate::sys::User;

/// Slots of a connection where the kernel does not say: none is known.
const NOT_KNOWN: u32 = 0;

/// Directories of this host that filers of ours serve, one filer for each part, and where they are mounted during a run.
pub(super) struct Mounted {
    /// What the filers serve, the same as on path `dnfs`.
    exports: Directories,
    points: Directories,
}

impl Mounted {
    pub(super) fn make(order: PlacementOrder<'_>) -> Result<Self, LabError> {
        let exports = Directories::within(order.work, "export", order.parts.clone(), order.user)?;
        let points = Directories::within(order.work, "knfs", order.parts, order.user)?;
        Ok(Self { exports, points })
    }

    fn mount(&self, part: Part, filer: &Filer, settings: &KernelNfs, order: &StartOrder<'_>) -> Result<KernelMount, LabError> {
        let port = filer.port()?;
        let log = order.work.path("logs").join(format!("mount-{}-{}.log", order.sequence, part.name()));
        let what = format!("127.0.0.1:/{}", filer.volume());
        KernelMount::mount("nfs", &settings.mount_options(port), OsStr::new(&what), &self.points.of(part), log)
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

    fn drop_page_cache(&self) -> Result<(), LabError> {
        cgroup::forget_pages(self.exports.root())
    }

    fn start(&self, order: &StartOrder<'_>) -> Result<Box<dyn Storage>, LabError> {
        let settings = KernelNfs::parse(&order.tuning.knfs, "of this arm")?;
        let mut storage = KnfsStorage { mounts: Vec::new(), filers: filers::serve(&self.exports, order)?, slots: NOT_KNOWN };
        let changed = settings.slots.map(|slots| ChangedSlots::set(slots, order.work.root())).transpose()?;
        storage.slots = rpc_slots::at_most().unwrap_or(NOT_KNOWN);
        for (part, filer) in &storage.filers {
            interrupt::check()?;
            storage.mounts.push((*part, self.mount(*part, filer, &settings, order)?));
        }
        // A connection has taken them when it is mounted.
        drop(changed);
        Ok(Box::new(storage))
    }

    fn clear(&mut self) -> Result<(), LabError> {
        self.exports.clear()
    }

    fn remove(self: Box<Self>) -> Result<(), LabError> {
        let Self { exports, points } = *self;
        exports.remove().and(points.remove())
    }
}
