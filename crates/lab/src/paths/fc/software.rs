//! Software Fibre Channel inside a guest: the kernel's initiator and target with software FCoE on two pairs of virtual interfaces,
//! dm-multipath above, and a disk of the guest with dm-delay below. `guest/storage_clients.sh` starts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use media::{Nvram, Profile};

use super::settings::FcSettings;
use crate::error::LabError;
use crate::guest;
use crate::host::block_device::{DiskStats, parse_stats};
use crate::paths::device::Below;

/// File with the path of the multipath device, once it exists.
const PLACE: &str = "/run/millrace/fibre-channel";
/// Name of the device with the delay, below the target.
const DELAYED: &str = "millrace-fc";
/// Default for the commands in flight on a path. Source: `FC_FCP_DFLT_QUEUE_DEPTH` in drivers/scsi/libfc/fc_fcp.c of Linux.
const UNTUNED_DEPTH: u32 = 32;

/// Fibre Channel of this guest.
pub(super) struct SoftwareFc {
    pub(super) settings: FcSettings,
}

impl Below for SoftwareFc {
    fn set_medium(&self, medium: Option<&str>) -> Result<(), LabError> {
        set_medium(medium)
    }

    fn limit_commands(&self, device: &Path) -> Result<u32, LabError> {
        set_depth(device, self.settings.depth)
    }

    fn stats(&self, device: &Path) -> Result<DiskStats, LabError> {
        path_stats(device)
    }
}

/// The device of this guest; `None` outside a guest, or if it did not start.
pub(super) fn device() -> Option<PathBuf> {
    guest::label()?;
    let named = fs::read_to_string(PLACE).ok()?;
    Some(PathBuf::from(named.trim()))
}

/// Sets how many commands may be in flight on each path. Returns the number for all paths together.
fn set_depth(device: &Path, depth: Option<u32>) -> Result<u32, LabError> {
    let mut all = 0;
    for disk in disks(device)? {
        let setting = disk.join("device/queue_depth");
        let depth = depth.unwrap_or(UNTUNED_DEPTH);
        fs::write(&setting, depth.to_string()).map_err(LabError::file("write", &setting))?;
        all += depth;
    }
    Ok(all)
}

/// Sum over all paths. Unlike that of the device above them, the time of their requests excludes the wait for a place on a path.
fn path_stats(device: &Path) -> Result<DiskStats, LabError> {
    let one = |disk: PathBuf| {
        let counters = disk.join("stat");
        fs::read_to_string(&counters).map(|text| parse_stats(&text)).map_err(LabError::file("read", counters))
    };
    disks(device)?.into_iter().map(one).sum()
}

/// Directories in /sys of the disks below a multipath device, one for each path.
fn disks(device: &Path) -> Result<Vec<PathBuf>, LabError> {
    let real = fs::canonicalize(device).map_err(LabError::file("find", device))?;
    let slaves = Path::new("/sys/block").join(real.file_name().unwrap_or_default()).join("slaves");
    let listed = fs::read_dir(&slaves).map_err(LabError::file("list", &slaves))?;
    Ok(listed.flatten().map(|disk| disk.path()).collect())
}

/// Delays each read and each write by the mean time of a medium; `None` for no delay.
fn set_medium(medium: Option<&str>) -> Result<(), LabError> {
    let profile = medium.map(|text| Profile::parse(text).map_err(|error| LabError::medium(text, &error))).transpose()?;
    let now = dmsetup(&["table", DELAYED])?;
    let wanted = table(&now, profile.as_ref().map_or((0, 0), delays_ms)).ok_or_else(|| failed(&["table"], now.trim()))?;
    dmsetup(&["reload", DELAYED, "--table", &wanted])?;
    dmsetup(&["suspend", DELAYED])?;
    dmsetup(&["resume", DELAYED]).map(drop)
}

/// Mean times of a read and of a write, in whole milliseconds as dm-delay requires.
fn delays_ms(profile: &Profile) -> (u64, u64) {
    let spindle = profile.service.mean_ms();
    let read = profile.overhead_ms + profile.cache_hit * profile.cache_ms + (1.0 - profile.cache_hit) * spindle;
    let write = profile.overhead_ms + profile.nvram.map_or(spindle, |Nvram { answer_ms, .. }| answer_ms);
    (read.round() as u64, write.round() as u64)
}

/// The table of dm-delay with new delays: `0 SECTORS delay DEVICE OFFSET MS`, the last three again for writes and again for flushes,
/// which are not delayed.
fn table(now: &str, (read_ms, write_ms): (u64, u64)) -> Option<String> {
    let mut words = now.split_whitespace();
    let (_, sectors, kind, device) = (words.next()?, words.next()?, words.next()?, words.next()?);
    (kind == "delay").then(|| format!("0 {sectors} delay {device} 0 {read_ms} {device} 0 {write_ms} {device} 0 0"))
}

fn dmsetup(words: &[&str]) -> Result<String, LabError> {
    let output = Command::new("dmsetup").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|source| LabError::Start { program: "dmsetup".to_owned(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(words, String::from_utf8_lossy(&output.stderr).trim()))
}

fn failed(words: &[&str], detail: &str) -> LabError {
    let program = format!("dmsetup {}", words.join(" "));
    LabError::Program { program, outcome: "failed".to_owned(), detail: format!("\n    {detail}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_medium_becomes_the_mean_of_its_reads_and_writes() {
        let of = |text: &str| delays_ms(&Profile::parse(text).unwrap());
        assert_eq!(of("spindles=64,service_ms=8,nvram=on").0, 8);
        assert!(of("spindles=64,service_ms=8,nvram=on").1 <= 1, "memory answers a write");
        assert_eq!(of("spindles=1,service_ms=7"), (7, 7));
    }

    #[test]
    fn delays_are_changed_on_the_same_device() {
        // From kernel 6.1.
        let now = "0 67108864 delay 254:16 0 0 254:16 0 0 254:16 0 0\n";
        assert_eq!(table(now, (8, 1)).unwrap(), "0 67108864 delay 254:16 0 8 254:16 0 1 254:16 0 0");
        assert_eq!(table("0 8 linear 254:16 0\n", (8, 1)), None);
    }
}
