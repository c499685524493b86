//! `counters --prometheus`: the counters of the mounts as a page for node_exporter's textfile
//! collector. A program under `millrace exec` has no port that could be scraped. Its counters are
//! in the segment, which outlives it.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Context;
use dnfs::CallInProgress;
use dnfs::activity::{Activity, Operations, SlotUse};
use dnfs::mount::{MountPath, Observer, Retained};
use filer::metrics::text::{Page, Type};

use crate::cmd::runtime;

/// The counters of one mount, and its directory.
struct Mount {
    runtime_dir: String,
    paths: Vec<MountPath>,
    activity: Activity,
    retained: Retained,
    /// Calls that have waited for a second or longer.
    waiting: Vec<CallInProgress>,
}

impl Mount {
    fn new(runtime_dir: String, observer: &Observer) -> Self {
        Self {
            runtime_dir,
            paths: observer.paths(),
            activity: observer.activity(),
            retained: observer.retained(),
            waiting: observer.calls_in_progress(),
        }
    }
}

/// The page for one mount, or for every mount of this user and its groups. For a collector it is not an error if
/// no mount exists. Mounts that another version of this program made are only counted.
pub(super) fn page(runtime_dir: Option<&Path>) -> anyhow::Result<String> {
    let (mut mounts, mut unreadable) = (Vec::new(), 0);
    // A mount that is being made or removed has no segment.
    if let Some(directory) = runtime_dir {
        let path = directory.display();
        runtime::check(directory.parent().unwrap_or(directory))?;
        let observer = Observer::at(directory).with_context(|| format!("read the counters in {path}"))?;
        mounts.extend(observer.map(|observer| Mount::new(path.to_string(), &observer)));
    } else {
        for directory in runtime::searched()?.iter().flat_map(|runtime| Observer::directories(runtime)) {
            match Observer::at(&directory) {
                Ok(observer) => mounts.extend(observer.map(|observer| Mount::new(directory.display().to_string(), &observer))),
                Err(_) => unreadable += 1,
            }
        }
    }
    Ok(write(&mounts, unreadable, SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()))
}

fn write(mounts: &[Mount], unreadable: usize, now: f64) -> String {
    let mut page = Page::default();
    let help = "Time at which the counters were read, in seconds since 1970: an old one means that nothing writes this page.";
    page.single("millrace_mount_read_timestamp_seconds", Type::Gauge, help, now);
    page.single("millrace_mounts", Type::Gauge, "Mounts of this user.", mounts.len());
    let help = "Mounts of this user that another version of this program made.";
    page.single("millrace_mounts_unreadable", Type::Gauge, help, unreadable);
    let mut info = page.family("millrace_mount_info", Type::Gauge, "1 for each path at which programs have a mount.");
    for (mount, path) in mounts.iter().flat_map(|mount| mount.paths.iter().map(move |path| (mount, path))) {
        info.sample(&[("runtime_dir", &mount.runtime_dir), ("path", &path.path), ("url", &path.url)], 1);
    }
    operations(&mut page, mounts);
    slots(&mut page, mounts);
    let mut each = |name, kind, help, value: fn(&Mount) -> f64| {
        let mut family = page.family(name, kind, help);
        mounts.iter().for_each(|mount| family.sample(&[("runtime_dir", &mount.runtime_dir)], value(mount)));
    };
    let help = "Calls that have waited for an answer for a second or longer.";
    each("millrace_mount_calls_waiting", Type::Gauge, help, |mount| mount.waiting.len() as f64);
    let help = "How long the longest of them has waited.";
    each("millrace_mount_call_wait_seconds_max", Type::Gauge, help, |mount| {
        mount.waiting.iter().map(|call| call.waited.as_secs_f64()).fold(0.0, f64::max)
    });
    let help = "Written data that is not stable yet, kept to be resent.";
    each("millrace_mount_retained_bytes", Type::Gauge, help, |mount| mount.retained.bytes as f64);
    let help = "Most data that is kept so.";
    each("millrace_mount_retained_limit_bytes", Type::Gauge, help, |mount| mount.retained.bytes_max as f64);
    let help = "Times a program waited for the one writer of a file (writers=one).";
    each("millrace_mount_writer_waits_total", Type::Counter, help, |mount| mount.activity.writer_waits as f64);
    let help = "Time of these waits.";
    each("millrace_mount_writer_wait_seconds_total", Type::Counter, help, |mount| seconds(mount.activity.writer_wait_ns));
    page.into_text()
}

fn operations(page: &mut Page, mounts: &[Mount]) {
    let of = |mount: &Mount| {
        let Activity { reads, writes, commits, .. } = mount.activity.clone();
        [("READ", reads), ("WRITE", writes), ("COMMIT", commits)]
    };
    let rows: Vec<(&str, &str, Operations)> = mounts
        .iter()
        .flat_map(|mount| of(mount).map(|(procedure, counted)| (mount.runtime_dir.as_str(), procedure, counted)))
        .collect();
    let mut calls = page.family("millrace_mount_calls_total", Type::Counter, "Calls sent, by procedure.");
    for (runtime_dir, procedure, counted) in &rows {
        calls.sample(&[("runtime_dir", runtime_dir), ("procedure", procedure)], counted.calls);
    }
    let mut bytes = page.family("millrace_mount_bytes_total", Type::Counter, "Payload of READ and WRITE.");
    for (runtime_dir, procedure, counted) in rows.iter().filter(|(_, procedure, _)| *procedure != "COMMIT") {
        bytes.sample(&[("runtime_dir", runtime_dir), ("procedure", procedure)], counted.bytes);
    }
    let help = "Time of reads, writes and COMMITs of programs, which may be several calls; waits for a slot included.";
    let mut times = page.family("millrace_mount_operation_seconds", Type::Histogram, help);
    for (runtime_dir, procedure, counted) in &rows {
        let (bounds, count) = (counted.latency.by_octave(), counted.latency.count());
        times.histogram(&[("runtime_dir", runtime_dir), ("procedure", procedure)], bounds, count, seconds(counted.ns));
    }
}

/// The metrics of mounts with a limit (`slots=`).
fn slots(page: &mut Page, mounts: &[Mount]) {
    let limited: Vec<(&str, SlotUse)> =
        mounts.iter().filter_map(|mount| Some((mount.runtime_dir.as_str(), mount.activity.slots?))).collect();
    let mut each = |name, kind, help, value: fn(&SlotUse) -> f64| {
        let mut family = page.family(name, kind, help);
        limited.iter().for_each(|(runtime_dir, slots)| family.sample(&[("runtime_dir", runtime_dir)], value(slots)));
    };
    each("millrace_mount_slots", Type::Gauge, "Most calls outstanding (slots=).", |slots| f64::from(slots.limit));
    each("millrace_mount_slots_in_use", Type::Gauge, "Calls outstanding now.", |slots| f64::from(slots.in_use));
    each("millrace_mount_slot_waits_total", Type::Counter, "Calls that waited for a slot.", |slots| slots.waits as f64);
    each("millrace_mount_slot_wait_seconds_total", Type::Counter, "Time of these waits.", |slots| seconds(slots.wait_ns));
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
