//! Partitions of a disk, by sysfs.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a sector in sysfs, independent of the logical block.
const SECTOR: u64 = 512;

fn system(disk: &str) -> PathBuf {
    Path::new("/sys/block").join(disk)
}

/// The partitions of a disk, as in `loop3p1` of `loop3`.
pub(crate) fn partitions_of(disk: &str) -> Vec<String> {
    let entries = fs::read_dir(system(disk)).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").is_file());
    partitions.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Partitions that do not begin at a multiple of `bytes`, with their starts in bytes.
pub(crate) fn misaligned_partitions(disk: &str, bytes: u64) -> Vec<(String, u64)> {
    let start = |name: &String| fs::read_to_string(system(disk).join(name).join("start")).ok()?.trim().parse::<u64>().ok();
    let starts =
        partitions_of(disk).into_iter().filter_map(|name| start(&name).map(|start| (name, start.saturating_mul(SECTOR))));
    starts.filter(|(_, start)| !start.is_multiple_of(bytes.max(1))).collect()
}
