//! What serves the files of one run: filers of ours, and the words put before a program so
//! that it comes to its files over the arm's path and medium.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use media::{Counters, Profile, state_file_name};
use results::compare::{MediumCounts, ReadProbe};

use crate::error::LabError;
use crate::limits::PROBE_SECONDS_MAX;
use crate::measure::probe::ProbeRecord;
use crate::placement::{Ground, Mounting, Part};
use crate::plan::{Arm, Tuning};
use crate::run::Bench;
use crate::run::filer::{self, Filer, FilerOrder};

/// The storage of one run, at work.
pub(crate) struct Storage {
    pub(crate) filers: Vec<(Part, Filer)>,
    pub(crate) mountings: Vec<Mounting>,
    /// Put before a program: `millrace exec … --`, or nothing.
    pub(crate) prefix: Vec<OsString>,
    /// States of the media of directories of this host.
    media: Vec<PathBuf>,
}

impl Storage {
    /// Starts the filers of an arm, with the knobs of its tuning. `sequence` goes into the names of their logs.
    pub(crate) fn start(bench: &Bench<'_>, arm: &Arm, sequence: u32, ground: &Ground) -> Result<Self, LabError> {
        let tuning = bench.plan.tuning_of(arm);
        let mut filers = Vec::new();
        for (part, directory) in ground.to_serve() {
            let order = FilerOrder {
                directory: &directory,
                state: &bench.work.path("state").join(part.name()),
                log: bench.work.path("logs").join(format!("filer-{sequence}-{}.log", part.name())),
                medium: arm.medium.as_deref(),
                options: &Tuning::arguments(&tuning.filer),
            };
            filers.push((part, Filer::start(&bench.program, order)?));
        }
        let served = filers.iter().map(|(part, filer)| (*part, filer.url().to_owned()));
        let mountings: Vec<Mounting> =
            served.chain(ground.exports()).map(|(part, url)| Mounting { part, url: tuning.on_url(&url) }).collect();
        let mut words: Vec<OsString> = Vec::new();
        for mounting in &mountings {
            words.extend(["--mount".into(), mounting.argument()]);
        }
        let mut media = Vec::new();
        if let Some(medium) = &arm.medium {
            for directory in ground.host_directories() {
                let directory = std::fs::canonicalize(&directory).map_err(LabError::file("find", &directory))?;
                media.push(bench.work.runtime().join(state_name(&directory, medium)?));
                let mut argument = directory.into_os_string();
                argument.push(format!("={medium}"));
                words.extend(["--local-medium".into(), argument]);
            }
        }
        if !words.is_empty() {
            words.splice(0..0, [bench.program.clone().into(), "exec".into()]);
            words.push("--".into());
        }
        Ok(Self { filers, mountings, prefix: words, media })
    }

    /// What the modelled media counted so far, all volumes together; none without one.
    pub(crate) fn medium_counters(&self) -> Result<Option<Counters>, LabError> {
        let mut all: Option<Counters> = None;
        for (_, filer) in &self.filers {
            all = add(all, filer::medium(&filer.stats()?));
        }
        for state in &self.media {
            // Made by the first program that comes to its files this way.
            let bytes = std::fs::read(state).unwrap_or_default();
            all = add(all, Some(Counters::of_bytes(&bytes).unwrap_or_default()));
        }
        Ok(all)
    }

    /// Runs the paced read probe over this path, on the file `relative` to the cluster's directory.
    pub(crate) fn probe(&self, bench: &Bench<'_>, data: &Path, relative: &Path) -> Result<ReadProbe, LabError> {
        let file = data.join(relative);
        let mut words = self.prefix.clone();
        words.push(bench.program.clone().into());
        words.extend(["compare".into(), "--read-probe".into(), file.into()]);
        let before = self.medium_counters()?.unwrap_or_default();
        let limit = std::time::Duration::from_secs(PROBE_SECONDS_MAX * 3);
        let text = bench.place.run("the read probe", &words, bench.work.path("logs").join("probe.log"), limit)?;
        let record: ProbeRecord =
            serde_json::from_str(&text).map_err(|source| LabError::Record { program: "the read probe", source })?;
        let medium_read_us = self.medium_counters()?.and_then(|after| {
            let reads = after.reads.checked_sub(before.reads).filter(|reads| *reads > 0)?;
            Some(after.read_ns.saturating_sub(before.read_ns) as f64 / reads as f64 / 1e3)
        });
        Ok(ReadProbe { reads: record.reads, read_us: record.mean_us, error_us: record.error_us, medium_read_us })
    }

    /// Clean stop of the filers.
    pub(crate) fn stop(self) -> Result<(), LabError> {
        self.filers.into_iter().try_for_each(|(_, filer)| filer.stop())
    }
}

/// What media did between two readings.
pub(crate) fn medium_counts(before: &Counters, after: &Counters) -> MediumCounts {
    let gained = |pick: fn(&Counters) -> u64| pick(after).saturating_sub(pick(before));
    let mean_us = |time: fn(&Counters) -> u64, count: u64| gained(time) as f64 / count.max(1) as f64 / 1e3;
    let (reads, writes, flushes) = (gained(|c| c.reads), gained(|c| c.writes), gained(|c| c.flushes));
    MediumCounts {
        reads,
        writes,
        flushes,
        cache_hits: gained(|c| c.cache_hits),
        read_us: mean_us(|c| c.read_ns, reads),
        write_us: mean_us(|c| c.write_ns, writes),
        flush_us: mean_us(|c| c.flush_ns, flushes),
        busy_s: gained(|c| c.busy_ns) as f64 / 1e9,
        queued_s: gained(|c| c.queued_ns) as f64 / 1e9,
    }
}

/// The largest file below `directory`, relative to it: the one a probe can spread its reads over.
pub(crate) fn largest_file(directory: &Path) -> Option<PathBuf> {
    let mut best: Option<(u64, PathBuf)> = None;
    let mut waiting = vec![directory.join("base")];
    while let Some(path) = waiting.pop() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            let Ok(facts) = entry.metadata() else { continue };
            if facts.is_dir() {
                waiting.push(entry.path());
            } else if best.as_ref().is_none_or(|(bytes, _)| facts.len() > *bytes) {
                best = Some((facts.len(), entry.path()));
            }
        }
    }
    best.and_then(|(_, path)| path.strip_prefix(directory).map(Path::to_owned).ok())
}

fn state_name(directory: &Path, medium: &str) -> Result<String, LabError> {
    use std::os::unix::ffi::OsStrExt;
    let profile = Profile::parse(medium).map_err(|error| LabError::medium(medium, &error))?;
    Ok(state_file_name(directory.as_os_str().as_bytes(), &profile.to_string()))
}

fn add(all: Option<Counters>, more: Option<Counters>) -> Option<Counters> {
    let Some(more) = more else { return all };
    let all = all.unwrap_or_default();
    Some(Counters {
        reads: all.reads + more.reads,
        writes: all.writes + more.writes,
        flushes: all.flushes + more.flushes,
        cache_hits: all.cache_hits + more.cache_hits,
        busy_ns: all.busy_ns + more.busy_ns,
        waiting_max: all.waiting_max.max(more.waiting_max),
        queued_ns: all.queued_ns + more.queued_ns,
        read_ns: all.read_ns + more.read_ns,
        write_ns: all.write_ns + more.write_ns,
        flush_ns: all.flush_ns + more.flush_ns,
        nvram_full: all.nvram_full + more.nvram_full,
    })
}
