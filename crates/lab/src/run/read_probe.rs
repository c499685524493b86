//! The paced read probe: reads blocks of the restored database over a path and its medium, without a database.

use std::path::{Path, PathBuf};
use std::time::Duration;

use results::compare::ReadProbe;

use crate::error::LabError;
use crate::limits::PROBE_SECONDS_MAX;
use crate::measure::probe::ProbeRecord;
use crate::paths::placement::Placement;
use crate::paths::storage::Storage;
use crate::placement::DATA;
use crate::placement::workdir;
use crate::run::setup::{Setup, Turn};

/// Starts the storage of a run, reads blocks over it and stops it again.
pub(super) fn probe(setup: &Setup<'_>, turn: Turn<'_>, placement: &dyn Placement) -> Result<ReadProbe, LabError> {
    let state = setup.kept_state();
    let Some(relative) = largest_file(&state.root.join(DATA), state.parts.tables) else { return Ok(ReadProbe::default()) };
    let storage = placement.start(&setup.start_order(&turn))?;
    let probe = read(setup, &*storage, &placement.data().join(relative))?;
    storage.stop()?;
    workdir::empty_directory(setup.work.runtime())?;
    Ok(probe)
}

fn read(setup: &Setup<'_>, storage: &dyn Storage, file: &Path) -> Result<ReadProbe, LabError> {
    let mut words = storage.command_prefix().to_vec();
    words.push(setup.program.clone().into());
    words.extend(["compare".into(), "--read-probe".into(), file.into()]);
    let before = storage.medium_counters()?.unwrap_or_default();
    let limit = Duration::from_secs(PROBE_SECONDS_MAX * 3);
    let text = setup.place.run("the read probe", &words, setup.work.path("logs").join("probe.log"), limit)?;
    let record: ProbeRecord =
        serde_json::from_str(&text).map_err(|source| LabError::Record { program: "the read probe", source })?;
    let medium_read_us = storage.medium_counters()?.and_then(|after| {
        let reads = after.reads.checked_sub(before.reads).filter(|reads| *reads > 0)?;
        Some(after.read_ns.saturating_sub(before.read_ns) as f64 / reads as f64 / 1e3)
    });
    Ok(ReadProbe { reads: record.reads, read_us: record.mean_us, error_us: record.error_us, medium_read_us })
}

/// The largest file of tables, relative to `directory`, over which a probe can spread its reads.
fn largest_file(directory: &Path, tables: &str) -> Option<PathBuf> {
    let mut best: Option<(u64, PathBuf)> = None;
    let mut waiting = vec![directory.join(tables)];
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
