//! What the paths on a block device share: an ext4 file system is made on a device for each run.

mod placement;

use std::path::Path;

use crate::error::LabError;
use crate::host::block_device::{self, BlockDevice, DiskStats};
use crate::host::serving::Serving;
use crate::paths::storage_path::{PageCache, WhyNot, refused};
use crate::placement::target::TargetFacts;
use crate::sys;

pub(super) use placement::OnDevice;

/// Location of the files.
pub(super) const FILES_LIE: &str = "ext4 on the device";

/// What is below a device that no user named: settings and counters of its maker.
pub(super) trait Below {
    /// Applies a medium below the device; `None` for no delay.
    fn set_medium(&self, medium: Option<&str>) -> Result<(), LabError>;

    /// Sets how many commands may be in flight. Returns the number for all paths to the device together.
    fn limit_commands(&self, device: &Path) -> Result<u32, LabError>;

    /// Counters of all paths to the device together.
    fn stats(&self, device: &Path) -> Result<DiskStats, LabError>;
}

/// Why no device can be used here.
pub(super) fn why_not() -> Option<WhyNot> {
    if sys::effective_uid() != 0 {
        return Some(WhyNot::Lacks("making and mounting a file system on a device needs root; run it as root".to_owned()));
    }
    block_device::missing_program().map(WhyNot::Lacks)
}

/// Fails unless the target is the full path of a device. `example` is the path that the error suggests.
pub(super) fn accept_target(path: &str, target: &str, example: &str) -> Result<(), LabError> {
    if Path::new(target).is_absolute() { Ok(()) } else { Err(refused(path, target, "the full path of a block device", example)) }
}

/// Facts of a device that the user named.
pub(super) fn examine_target(target: &str, overwrite: bool) -> Result<TargetFacts, LabError> {
    let device = BlockDevice::examine(Path::new(target), overwrite)?;
    let size = results::sizes::bytes_text(device.bytes);
    // The rest is for the file system's own structures.
    let free_bytes = device.bytes / 10 * 9;
    let serving = Serving::of_device(Path::new(target));
    let (this_host, by) = (serving.is_on_this_host(), serving.clause());
    let what = format!("block device of {size}{by}, on which ext4 is made for each run");
    Ok(TargetFacts { target: target.to_owned(), what, free_bytes, this_host })
}

/// The page cache above the device.
pub(super) fn page_cache(above_medium: bool) -> PageCache {
    PageCache {
        may_answer: true,
        on_client: true,
        above_medium,
        filled: false,
        because: "the file system on the device keeps data in this host's page cache, which is empty when a run begins",
    }
}
