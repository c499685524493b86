//! `counters`: what the segments of this host's mounts count.

use crate::error_printing::refusal;
use anyhow::Context;
use dnfs::activity::{Activity, Operations, SlotUse, size_of_place};
use dnfs::mount::{Observer, Retained, runtime_root};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Longest interval that can be asked for, in seconds.
const SECONDS_MAX: f64 = 86_400.0;

#[derive(clap::Args)]
pub(super) struct Counters {
    /// Runtime directory of a mount [default: every mount of this user, below MILLRACE_RUNTIME_DIR]
    runtime_dir: Option<PathBuf>,
    /// Count for so many seconds from now, instead of everything so far
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Print one JSON array on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct MountReport {
    runtime_dir: String,
    /// Length of the interval; none when everything so far is counted.
    seconds: Option<f64>,
    reads: OperationReport,
    writes: OperationReport,
    commits: OperationReport,
    /// Reads, writes and COMMITs of programs in progress, on average; waits for a slot included.
    in_progress_mean: Option<f64>,
    slots: Option<SlotReport>,
    writer_waits: u64,
    writer_wait_us: f64,
    /// Written data that is not stable yet, kept to be sent again, and most that is; now.
    retained_bytes: u64,
    retained_bytes_max: u64,
}

#[derive(Serialize)]
struct OperationReport {
    calls: u64,
    bytes: u64,
    /// Largest payload in bytes to calls of at most that, and more than half of it.
    sizes: BTreeMap<u64, u64>,
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

/// Slots of a mount with a limit.
#[derive(Serialize)]
pub(super) struct SlotReport {
    limit: u32,
    in_use_mean: Option<f64>,
    most: u32,
    calls: u64,
    waits: u64,
    wait_us_mean: f64,
    beyond: u64,
    reclaimed: u64,
}

pub(super) fn run(args: &Counters) -> anyhow::Result<()> {
    let directories = match &args.runtime_dir {
        Some(directory) => vec![directory.clone()],
        None => Observer::directories(&runtime_root()),
    };
    if directories.is_empty() {
        let what = format!("show counters: no mount of this user found below {}", runtime_root().display());
        return Err(refusal(what, "run a program with millrace exec first; root sees its own mounts, not those of other users"));
    }
    let mut observers = Vec::new();
    for directory in &directories {
        let path = directory.display();
        let observer = Observer::at(directory).with_context(|| format!("read the counters in {path}"))?;
        let hint = "leave it out for all mounts of this user; it is a directory in /dev/shm/millrace-UID";
        observers.push(observer.ok_or_else(|| refusal(format!("read the counters in {path}: no mount was made there"), hint))?);
    }
    let read = || observers.iter().map(Observer::activity).collect::<Vec<_>>();
    let before = match args.seconds {
        Some(seconds) => {
            let before = read();
            std::thread::sleep(Duration::from_secs_f64(seconds));
            Some(before)
        }
        None => None,
    };
    let mut reports = Vec::new();
    for (index, now) in read().iter().enumerate() {
        let earlier = before.as_ref().and_then(|before| before.get(index));
        let elapsed = earlier.map(|earlier| Duration::from_nanos(now.at_ns - earlier.at_ns));
        let counted = earlier.map_or_else(|| now.clone(), |earlier| now.since(earlier));
        let directory = directories.get(index).map(|path| path.display().to_string()).unwrap_or_default();
        let retained = observers.get(index).map_or(Retained { bytes: 0, bytes_max: 0 }, Observer::retained);
        reports.push(MountReport::new(directory, &counted, retained, elapsed));
    }
    if args.json {
        println!("{}", serde_json::to_string(&reports)?);
    } else {
        reports.iter().for_each(|report| print!("{report}"));
    }
    Ok(())
}

impl MountReport {
    fn new(runtime_dir: String, activity: &Activity, retained: Retained, elapsed: Option<Duration>) -> Self {
        Self {
            runtime_dir,
            seconds: elapsed.map(|elapsed| elapsed.as_secs_f64()),
            reads: OperationReport::new(&activity.reads),
            writes: OperationReport::new(&activity.writes),
            commits: OperationReport::new(&activity.commits),
            in_progress_mean: elapsed.map(|elapsed| activity.in_progress_mean(elapsed)),
            slots: activity.slots.map(|slots| {
                let mut report = SlotReport::new(&slots, elapsed.unwrap_or(Duration::MAX));
                report.in_use_mean = report.in_use_mean.filter(|_| elapsed.is_some());
                report
            }),
            writer_waits: activity.writer_waits,
            writer_wait_us: activity.writer_wait_ns as f64 / 1e3,
            retained_bytes: retained.bytes,
            retained_bytes_max: retained.bytes_max,
        }
    }
}

impl OperationReport {
    fn new(operations: &Operations) -> Self {
        let sizes = operations.sizes.iter().enumerate().filter(|(_, count)| **count > 0);
        let count = operations.latency.count();
        let us = |share| operations.latency.quantile(share).map(|time| time.as_secs_f64() * 1e6);
        Self {
            calls: operations.calls,
            bytes: operations.bytes,
            sizes: sizes.map(|(place, count)| (size_of_place(place), *count)).collect(),
            mean_us: (count > 0).then(|| operations.ns as f64 / 1e3 / count as f64),
            p50_us: us(0.5),
            p99_us: us(0.99),
        }
    }
}

impl SlotReport {
    pub(super) fn new(slots: &SlotUse, elapsed: Duration) -> Self {
        Self {
            limit: slots.limit,
            in_use_mean: Some(slots.in_use_mean(elapsed)),
            most: slots.most,
            calls: slots.calls,
            waits: slots.waits,
            wait_us_mean: slots.wait_ns as f64 / 1e3 / slots.waits.max(1) as f64,
            beyond: slots.beyond,
            reclaimed: slots.reclaimed,
        }
    }
}

impl fmt::Display for MountReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = self.seconds.map_or_else(|| "so far".to_owned(), |seconds| format!("in {seconds:.1} s"));
        writeln!(f, "{} {span}", self.runtime_dir)?;
        for (name, operations) in [("reads", &self.reads), ("writes", &self.writes), ("commits", &self.commits)] {
            write!(f, "  {name}: {} calls, {:.1} MiB", operations.calls, operations.bytes as f64 / f64::from(1 << 20))?;
            if let (Some(mean), Some(p50), Some(p99)) = (operations.mean_us, operations.p50_us, operations.p99_us) {
                write!(f, ", mean {mean:.0} us, p50 {p50:.0} us, p99 {p99:.0} us")?;
            }
            for (bytes, count) in &operations.sizes {
                write!(f, "; {count} of <= {bytes} B")?;
            }
            writeln!(f)?;
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(f, "  kept until COMMIT: {:.1} MiB of {:.0} MiB", mib(self.retained_bytes), mib(self.retained_bytes_max))?;
        if let Some(mean) = self.in_progress_mean {
            writeln!(f, "  in progress: {mean:.2} on average")?;
        }
        if let Some(slots) = &self.slots {
            writeln!(f, "  {slots}")?;
        }
        if self.writer_waits > 0 {
            let mean = self.writer_wait_us / self.writer_waits as f64;
            writeln!(f, "  writers: {} waits for the one writer of a file, {mean:.0} us each", self.writer_waits)?;
        }
        Ok(())
    }
}

impl fmt::Display for SlotReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slots: {} at most, ", self.limit)?;
        if let Some(mean) = self.in_use_mean {
            write!(f, "{mean:.2} in use on average, ")?;
        }
        write!(f, "{} at once, {} waits, {:.0} us each", self.most, self.waits, self.wait_us_mean)
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text} is not a number of seconds"))?;
    if seconds > 0.0 && seconds <= SECONDS_MAX { Ok(seconds) } else { Err(format!("{text} is not between 0 and 86400 seconds")) }
}
