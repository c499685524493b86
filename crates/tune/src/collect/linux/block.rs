//! Block devices and partitions of Linux.

use crate::collect::collected::Collected;
use crate::collect::text::{bracketed, integer, lines, pair, telling, unquoted, words};
use crate::facts::Facts;

/// Kinds of devices on which no database is stored.
const PASSED_OVER: &[&str] = &["loop", "ram", "zram", "sr", "fd", "nbd"];

/// Queue attributes, nearly all of which are numbers.
const QUEUE: &[&str] = &[
    "nr_requests",
    "read_ahead_kb",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "rotational",
    "rq_affinity",
    "nomerges",
    "add_random",
    "physical_block_size",
    "logical_block_size",
    "iostats",
    "write_cache",
];

/// All facts of block devices.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    let mut any = false;
    for (path, text) in collected.files_under("/sys/block/") {
        let Some((disk, rest)) = path.trim_start_matches("/sys/block/").split_once('/') else { continue };
        if PASSED_OVER.iter().any(|begin| disk.starts_with(begin)) {
            continue;
        }
        any = true;
        let text = text.trim();
        match rest.split_once('/') {
            Some(("queue", "scheduler")) => facts.put_of("block", disk, "scheduler", bracketed(text), path),
            Some(("queue", name)) if QUEUE.contains(&name) => match (name, integer(text)) {
                ("rotational", Some(number)) => facts.put_of("block", disk, name, number != 0, path),
                (_, Some(number)) => facts.put_of("block", disk, name, number, path),
                (_, None) => facts.put_of("block", disk, name, text, path),
            },
            Some(("device", name @ ("queue_depth" | "timeout"))) => {
                if let Some(number) = integer(text) {
                    facts.put_of("block", disk, name, number, path);
                }
            }
            Some(("device", name @ ("vendor" | "model"))) => facts.put_of("block", disk, name, text, path),
            Some((part, name @ ("start" | "alignment_offset"))) if part.starts_with(disk) => {
                if let Some(number) = integer(text) {
                    let name = if name == "start" { "start_sector" } else { name };
                    facts.put_of("partition", part, name, number, path);
                    facts.put_of("partition", part, "disk", disk, path);
                }
            }
            None if rest == "alignment_offset" => {
                if let Some(number) = integer(text) {
                    facts.put_of("block", disk, rest, number, path);
                }
            }
            _ => {}
        }
    }
    for (_, output) in collected.outputs("sfdisk") {
        sfdisk(&output.text, &output.line, facts);
    }
    for (path, text) in collected.files_under("/sys/class/nvme-subsystem/") {
        if let Some((subsystem, name @ ("iopolicy" | "model"))) =
            path.trim_start_matches("/sys/class/nvme-subsystem/").split_once('/')
        {
            facts.put_of("nvme_subsystem", subsystem, name, text.trim(), path);
        }
    }
    for (_, output) in collected.outputs("fdisk") {
        fdisk(&output.text, &output.line, facts);
    }
    for (_, output) in collected.outputs("lsblk") {
        any |= lsblk(&output.text, &output.line, facts);
    }
    if !any {
        facts.put_unknown("block", &collected.why("/sys/block"));
    }
}

/// `sfdisk -d`: `/dev/sda1 : start=       63, size= …`.
fn sfdisk(text: &str, origin: &str, facts: &mut Facts) {
    for (_, line) in telling(text, &['#']) {
        let Some((device, rest)) = line.split_once(" : ") else { continue };
        let start = rest
            .split(',')
            .find_map(|part| pair(part, '=').filter(|(key, _)| *key == "start"))
            .and_then(|(_, value)| integer(value));
        let size = rest
            .split(',')
            .find_map(|part| pair(part, '=').filter(|(key, _)| *key == "size"))
            .and_then(|(_, value)| integer(value));
        // The list includes unused entries of the partition table.
        if let Some(start) = start.filter(|start| *start > 0 && size != Some(0)) {
            partition(device.trim(), start, origin, facts);
        }
    }
}

/// `fdisk -lu` prints `/dev/sdb1   *   63  …` with the starts in sectors.
fn fdisk(text: &str, origin: &str, facts: &mut Facts) {
    if !text.contains("Units = sectors") && !text.contains("Units: sectors") {
        return;
    }
    for (_, line) in telling(text, &[]).filter(|(_, line)| line.starts_with("/dev/")) {
        let mut all = words(line).filter(|word| *word != "*");
        if let (Some(device), Some(start)) = (all.next(), all.next().and_then(integer)) {
            partition(device, start, origin, facts);
        }
    }
}

fn partition(device: &str, start: i64, origin: &str, facts: &mut Facts) {
    let name = device.rsplit('/').next().unwrap_or(device);
    facts.put_of("partition", name, "start_sector", start, origin);
    let disk = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let disk = disk.strip_suffix('p').filter(|disk| disk.ends_with(|letter: char| letter.is_ascii_digit())).unwrap_or(disk);
    facts.put_of("partition", name, "disk", disk, origin);
}

/// `lsblk -P` and `lsblk -O -P`: `NAME="sda" RQ-SIZE="64" …`.
fn lsblk(text: &str, origin: &str, facts: &mut Facts) -> bool {
    const COLUMNS: &[(&str, &str)] = &[
        ("SCHED", "scheduler"),
        ("RQ-SIZE", "nr_requests"),
        ("RA", "read_ahead_kb"),
        ("VENDOR", "vendor"),
        ("MODEL", "model"),
        ("ALIGNMENT", "alignment_offset"),
    ];
    let mut any = false;
    for (_, line) in lines(text).filter(|(_, line)| line.contains("NAME=\"")) {
        let cells: Vec<(&str, &str)> = line
            .split("\" ")
            .filter_map(|cell| pair(cell, '='))
            .map(|(key, value)| (key, unquoted(value).trim_matches('"').trim()))
            .collect();
        let of =
            |name: &str| cells.iter().find(|(key, _)| *key == name).map(|(_, value)| *value).filter(|value| !value.is_empty());
        let Some(name) = of("NAME").filter(|name| !PASSED_OVER.iter().any(|begin| name.starts_with(begin))) else { continue };
        if of("TYPE").is_some_and(|kind| kind != "disk") {
            continue;
        }
        any = true;
        if let Some(rotates) = of("ROTA").and_then(integer) {
            facts.put_of("block", name, "rotational", rotates != 0, origin);
        }
        for (column, attribute) in COLUMNS {
            match of(column) {
                Some(cell) if matches!(*attribute, "scheduler" | "vendor" | "model") => {
                    facts.put_of("block", name, attribute, cell, origin)
                }
                Some(cell) => {
                    if let Some(number) = integer(cell) {
                        facts.put_of("block", name, attribute, number, origin);
                    }
                }
                None => {}
            }
        }
    }
    any
}
