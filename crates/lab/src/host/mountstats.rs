//! Counters of the kernel's NFS client for each mount: `/proc/self/mountstats`.
//!
//! Source: fs/nfs/super.c `nfs_show_stats`, fs/nfs/iostat.h, net/sunrpc/stats.c of Linux. A mount begins with
//! `device WHAT mounted on POINT with fstype nfs statvers=1.1`. `bytes:` has eight numbers: read and written by calls through the
//! page cache, the same past it, received from and sent to the server, pages read and written. An operation's line has operations,
//! transmissions, timeouts, bytes sent and received, milliseconds in queue, to the reply, and in all.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ::host::mount_table::unescaped_text;

use crate::error::LabError;

const SOURCE: &str = "/proc/self/mountstats";

/// The counters of one mount since it was mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MountStats {
    /// Bytes that programs received from read calls, through the page cache or bypassing it.
    pub(crate) read_by_calls: u64,
    /// Payload bytes of READ replies.
    pub(crate) received_bytes: u64,
    /// Payload bytes of WRITE calls.
    pub(crate) sent_bytes: u64,
    /// By procedure, without those that were never called.
    pub(crate) operations: BTreeMap<String, Operation>,
    /// Largest number of slots in use at the same time, for each of its connections.
    pub(crate) slots_most: Vec<u32>,
}

/// One procedure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) calls: u64,
    /// Time before sending: waiting for a slot and for the connection.
    pub(crate) queue_ms: u64,
    /// Time from sending to the reply.
    pub(crate) reply_ms: u64,
}

impl MountStats {
    /// The counters of the mount at `point`.
    ///
    /// # Errors
    /// There is no NFS mount at this place.
    pub(crate) fn of(point: &Path) -> Result<Self, LabError> {
        let text = fs::read_to_string(SOURCE).map_err(LabError::file("read", SOURCE))?;
        parse(&text, point).ok_or_else(|| LabError::Program {
            program: format!("the NFS mount at {}", point.display()),
            outcome: format!("is not in {SOURCE}"),
            detail: String::new(),
        })
    }
}

/// The last mount in the text at `point`: it covers the earlier ones.
fn parse(text: &str, point: &Path) -> Option<MountStats> {
    let is_at_point = |line: &str| {
        let mounted = line.split_once(" mounted on ").and_then(|(_, rest)| rest.split_once(" with fstype nfs"));
        mounted.is_some_and(|(at, _)| Path::new(&unescaped_text(at)) == point)
    };
    let mut found = None;
    for section in text.split("device ").filter(|section| section.lines().next().is_some_and(is_at_point)) {
        found = Some(parse_section(section)?);
    }
    found
}

fn parse_section(section: &str) -> Option<MountStats> {
    let mut stats = MountStats::default();
    let mut is_operations = false;
    for line in section.lines().skip(1).map(str::trim) {
        if line == "per-op statistics" {
            is_operations = true;
        } else if let Some(rest) = line.strip_prefix("bytes:") {
            let bytes = numbers(rest);
            let [normal, _, direct, _, received, sent, ..] = bytes.as_slice() else { return None };
            stats.read_by_calls = normal + direct;
            (stats.received_bytes, stats.sent_bytes) = (*received, *sent);
        } else if let Some(rest) = line.strip_prefix("xprt:") {
            // The transport; then port, binds, connects, connect time, idle time, sends, receives, bad xids, sum of calls in
            // flight, sum of the backlog, maximum number of slots: only for TCP.
            let fields = numbers(rest.trim().strip_prefix("tcp").unwrap_or_default());
            stats.slots_most.extend(fields.get(10).and_then(|most| u32::try_from(*most).ok()));
        } else if let Some((name, rest)) = line.split_once(": ").filter(|_| is_operations) {
            let fields = numbers(rest);
            let [calls, _, _, _, _, queue_ms, reply_ms, ..] = fields.as_slice() else { continue };
            if *calls > 0 {
                let operation = Operation { calls: *calls, queue_ms: *queue_ms, reply_ms: *reply_ms };
                stats.operations.insert(name.to_owned(), operation);
            }
        }
    }
    is_operations.then_some(stats)
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernel 6.1: 50 blocks of 8 KiB written and committed, read from the page cache, read from the server after the cache was
    /// dropped, and 5 of them read with O_DIRECT.
    const CAPTURED: &str = include_str!("../../fixtures/mountstats-6.1");

    #[test]
    fn a_captured_mount_says_what_was_read_and_what_crossed_the_wire() {
        let stats = parse(CAPTURED, Path::new("/mnt/v")).unwrap();
        assert_eq!(stats.read_by_calls, (50 + 50 + 5) * 8192);
        assert_eq!((stats.received_bytes, stats.sent_bytes), ((50 + 5) * 8192, 50 * 8192));
        assert!(stats.operations["READ"].calls >= 5 && stats.operations["WRITE"].calls >= 1, "{stats:?}");
        assert!(!stats.operations.contains_key("MKDIR"), "never called: {stats:?}");
        assert_eq!(stats.slots_most.len(), 2, "nconnect=2");
        assert_eq!(parse(CAPTURED, Path::new("/mnt")), None);
        assert_eq!(parse(CAPTURED, Path::new("/")), None, "no NFS mount");
    }

    #[test]
    fn of_two_mounts_at_one_place_the_later_counts_and_half_a_text_does_not() {
        let old = CAPTURED.replace("bytes:\t", "bytes:\t9");
        assert_eq!(parse(&format!("{old}\n{CAPTURED}"), Path::new("/mnt/v")), parse(CAPTURED, Path::new("/mnt/v")));
        let cut = CAPTURED.split("per-op").next().unwrap();
        assert_eq!(parse(cut, Path::new("/mnt/v")), None);
    }
}
