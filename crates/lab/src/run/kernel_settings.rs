//! The kernel settings of a configuration's tuning during one run.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::host::changed_settings::ChangedSettings;
use crate::paths::placement::Placement;
use crate::plan::{KERNEL, KernelSettings, Tuning};

/// Changes the settings of the network, which a connection reads when it is created: before the storage starts.
pub(super) fn set_network(tuning: &Tuning, root: &Path) -> Result<Option<ChangedSettings>, LabError> {
    let wanted = KernelSettings::parse(tuning.of(KERNEL), "of this configuration")?.network;
    (!wanted.is_empty()).then(|| ChangedSettings::set(&wanted, root, "network")).transpose()
}

/// Changes the read-ahead of the file systems of the parts, after they are mounted. A part that is on no file system of this host, as
/// with Direct NFS, has no such setting.
pub(super) fn set_read_ahead(
    tuning: &Tuning,
    placement: &dyn Placement,
    root: &Path,
) -> Result<Option<ChangedSettings>, LabError> {
    let Some(kib) = KernelSettings::parse(tuning.of(KERNEL), "of this configuration")?.read_ahead_kb else { return Ok(None) };
    let places = placement.parts().iter().map(|part| placement.database_finds(*part)).filter(|place| place.exists());
    let mut files = places.map(|place| setting_of(&place)).collect::<Result<Vec<_>, _>>()?;
    files.sort();
    files.dedup();
    let wanted: Vec<(PathBuf, String)> = files.into_iter().map(|file| (file, kib.to_string())).collect();
    (!wanted.is_empty()).then(|| ChangedSettings::set(&wanted, root, "read-ahead")).transpose()
}

/// The setting of the file system that contains a directory.
fn setting_of(directory: &Path) -> Result<PathBuf, LabError> {
    let device = fs::metadata(directory).map_err(LabError::file("inspect", directory))?.dev();
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    // A partition uses the setting of its disk, which is in the parent directory.
    let places = [format!("/sys/class/bdi/{number}"), format!("/sys/dev/block/{number}/../bdi")];
    let found = places.iter().map(|place| Path::new(place).join("read_ahead_kb")).find(|file| file.exists());
    found.ok_or_else(|| {
        let what = format!("set read_ahead_kb for {}: its file system has no /sys/class/bdi/{number}", directory.display());
        LabError::plan(what, "leave read_ahead_kb out on this path, or put the files on another file system")
    })
}

/// Why this host does not support a tuning's settings of its kernel.
pub(crate) fn why_not(tuning: &Tuning) -> Option<String> {
    let wanted = KernelSettings::parse(tuning.of(KERNEL), "of this configuration").ok().filter(|wanted| !wanted.is_empty())?;
    if crate::sys::effective_uid() != 0 {
        return Some("settings of the kernel ([tuning.NAME.kernel]) are changed by root alone; run it as root".to_owned());
    }
    let is_closed = |(path, _): &&(PathBuf, String)| fs::OpenOptions::new().write(true).open(path).is_err();
    let closed = wanted.network.iter().find(is_closed)?;
    Some(format!("{} cannot be written: this kernel has no such setting, or a container may not change it", closed.0.display()))
}
