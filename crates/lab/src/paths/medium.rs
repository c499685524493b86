//! Counters of modelled media, below Millrace's filers and below directories of this host.

use std::path::{Path, PathBuf};

use media::{Counters, Profile, state_file_name};
use results::compare::MediumCounts;
use results::filer_stats::FilerStats;

use crate::error::LabError;

/// Name of the file with the state of a medium below a directory of this host.
pub(super) fn state_name(directory: &Path, medium: &str) -> Result<String, LabError> {
    use std::os::unix::ffi::OsStrExt;
    let profile = Profile::parse(medium).map_err(|error| LabError::medium(medium, &error))?;
    Ok(state_file_name(directory.as_os_str().as_bytes(), &profile.to_string()))
}

/// The counters in the state files of media of this host; `None` if there are no state files.
pub(super) fn of_states(states: &[PathBuf]) -> Option<Counters> {
    let read = |state: &PathBuf| {
        // The first program that uses its files in this way creates it.
        let bytes = std::fs::read(state).unwrap_or_default();
        Some(Counters::of_bytes(&bytes).unwrap_or_default())
    };
    states.iter().map(read).fold(None, add)
}

/// The counters of a filer's medium; `None` without one.
pub(super) fn of_filer(stats: &FilerStats) -> Option<Counters> {
    stats.medium.as_ref().map(|found| Counters {
        reads: found.reads,
        writes: found.writes,
        flushes: found.flushes,
        cache_hits: found.cache_hits,
        busy_ns: found.busy_ns,
        waiting_max: found.waiting_max,
        queued_ns: found.queued_ns,
        read_ns: found.read_ns,
        write_ns: found.write_ns,
        flush_ns: found.flush_ns,
        nvram_full: found.nvram_full,
    })
}

/// Adds the counters of two media.
pub(super) fn add(all: Option<Counters>, more: Option<Counters>) -> Option<Counters> {
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

/// Work of media between two readings.
pub(crate) fn between(before: &Counters, after: &Counters) -> MediumCounts {
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
