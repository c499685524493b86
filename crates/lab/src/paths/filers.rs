//! The filers of the volumes of one run, and their counters.

use std::path::Path;

use results::compare::ProcedureCount;

use crate::error::LabError;
use crate::paths::filer::{Filer, FilerOrder};
use crate::paths::medium;
use crate::paths::storage::{StartOrder, StorageCounters, add_calls};
use crate::placement::directories::Directories;
use crate::placement::part::Part;
use crate::plan::{FILER, Knob};

/// Starts a filer over NFS for the directory of each part.
///
/// # Errors
/// A filer does not start. Those that did are stopped.
pub(super) fn serve(directories: &Directories, order: &StartOrder<'_>) -> Result<Vec<(Part, Filer)>, LabError> {
    let start = |part: &Part| Ok((*part, start(&directories.of(*part), &part.name(), 1, order)?));
    directories.parts().iter().map(start).collect()
}

/// Starts one filer for the directories of all parts, as one volume, at this number of addresses.
///
/// # Errors
/// The filer does not start.
pub(super) fn serve_together(
    directories: &Directories,
    addresses: u32,
    order: &StartOrder<'_>,
) -> Result<Vec<(Part, Filer)>, LabError> {
    Ok(vec![(Part::Data, start(directories.root(), "all", addresses, order)?)])
}

fn start(directory: &Path, name: &str, addresses: u32, order: &StartOrder<'_>) -> Result<Filer, LabError> {
    let filer = FilerOrder {
        directory,
        state: &order.work.path("state").join(name),
        log: order.work.path("logs").join(format!("filer-{}-{name}.log", order.sequence)),
        addresses,
        medium: order.medium,
        options: &Knob::arguments(order.tuning.of(FILER)),
    };
    Filer::start(order.program, filer)
}

/// Adds their counters since their start.
pub(super) fn count(filers: &[(Part, Filer)], all: &mut StorageCounters) -> Result<(), LabError> {
    for (part, filer) in filers {
        let stats = filer.stats()?;
        if part.holds_data() {
            all.connections = Some(all.connections.unwrap_or(0) + stats.connections);
        }
        for (name, count) in stats.procedures.iter().chain(&stats.scsi) {
            add_calls(&mut all.server_calls, name, &ProcedureCount { calls: count.calls, bytes: count.bytes });
        }
        all.durability.get_or_insert(stats.durability);
    }
    Ok(())
}

/// Sum of the counters of their modelled media; `None` without one.
pub(super) fn medium_counters(filers: &[(Part, Filer)]) -> Result<Option<media::Counters>, LabError> {
    let mut all = None;
    for (_, filer) in filers {
        all = medium::add(all, medium::of_filer(&filer.stats()?));
    }
    Ok(all)
}

/// Pid of each filer, with its part.
pub(super) fn pids(filers: &[(Part, Filer)]) -> Vec<(Part, u32)> {
    filers.iter().map(|(part, filer)| (*part, filer.pid())).collect()
}

/// An error if one of them has ended.
pub(super) fn expect_alive(filers: &mut [(Part, Filer)]) -> Result<(), LabError> {
    filers.iter_mut().try_for_each(|(_, filer)| filer.expect_alive())
}
