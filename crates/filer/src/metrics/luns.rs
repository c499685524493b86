//! The metrics of iSCSI by LUN and by initiator.

use std::sync::Arc;

use super::text::{Page, Type};
use crate::iscsi::Target;
use crate::luns::Lun;
use crate::server::Server;

/// The initiator label of the initiators that are not counted by name.
const OTHER_INITIATORS: &str = "other";

/// A LUN with its name in labels.
struct Named {
    name: String,
    lun: Arc<Lun>,
}

pub(super) fn write(page: &mut Page, server: &Server) {
    let targets = server.iscsi().all_targets();
    let luns: Vec<Named> = targets.values().flat_map(named).collect();
    let sessions = server.iscsi().sessions.all().len();
    page.single("millrace_iscsi_sessions", Type::Gauge, "Sessions of iSCSI, discovery included.", sessions);
    let load = server.iscsi_workers().load();
    page.single("millrace_iscsi_workers_busy", Type::Gauge, "Worker threads that carry out a SCSI command.", load.busy);
    page.single("millrace_iscsi_workers_queued", Type::Gauge, "SCSI commands that wait for a worker thread.", load.queued);
    state(page, &luns);
    commands(page, &luns);
    initiators(page, &luns);
}

fn named(target: &Arc<Target>) -> Vec<Named> {
    let volume = target.export.name();
    target.luns.all().into_iter().map(|lun| Named { name: format!("{volume}/{}", lun.name()), lun }).collect()
}

/// The names of the LUNs that refuse writes.
pub(super) fn failed(server: &Server) -> Vec<String> {
    let luns = server.iscsi().all_targets();
    let failed = luns.values().flat_map(named).filter(|of| of.lun.unit().has_failed());
    failed.map(|of| of.name).collect()
}

fn state(page: &mut Page, luns: &[Named]) {
    let mut sizes = page.family("millrace_lun_size_bytes", Type::Gauge, "Size of the LUN.");
    luns.iter().for_each(|of| sizes.sample(&[("lun", &of.name)], of.lun.device().size()));
    let help = "1 after writes of the LUN may have been lost: it refuses further ones until the filer is restarted.";
    let mut failed = page.family("millrace_lun_failed", Type::Gauge, help);
    luns.iter().for_each(|of| failed.sample(&[("lun", &of.name)], u8::from(of.lun.unit().has_failed())));
}

fn commands(page: &mut Page, luns: &[Named]) {
    let counted: Vec<_> = luns.iter().map(|of| (&of.name, of.lun.stats().rows())).collect();
    let rows = || counted.iter().flat_map(|(name, rows)| rows.iter().map(move |(operation, row)| (name, operation.name(), row)));
    let rows = || rows().filter(|(_, _, row)| row.latencies.count() > 0);
    let mut commands = page.family("millrace_lun_commands_total", Type::Counter, "SCSI commands that have ended.");
    rows().for_each(|(lun, operation, row)| commands.sample(&[("lun", lun), ("operation", operation)], row.latencies.count()));
    let help = "SCSI commands that ended with a status other than GOOD, unit attentions included.";
    let mut errors = page.family("millrace_lun_errors_total", Type::Counter, help);
    rows().for_each(|(lun, operation, row)| errors.sample(&[("lun", lun), ("operation", operation)], row.errors));
    let mut bytes = page.family("millrace_lun_bytes_total", Type::Counter, "Data of reads and writes.");
    let moves_data = |operation: &str| matches!(operation, "read" | "write");
    rows()
        .filter(|(_, operation, _)| moves_data(operation))
        .for_each(|(lun, operation, row)| bytes.sample(&[("lun", lun), ("operation", operation)], row.bytes));
    let help = "Time from when a command and its data were received until its reply was ready.";
    let mut latencies = page.family("millrace_lun_command_seconds", Type::Histogram, help);
    rows().for_each(|(lun, operation, row)| {
        let counted = &row.latencies;
        let labels = [("lun", lun.as_str()), ("operation", operation)];
        latencies.histogram(&labels, counted.by_octave(), counted.count(), counted.sum_s());
    });
}

fn initiators(page: &mut Page, luns: &[Named]) {
    let counted: Vec<_> = luns.iter().map(|of| (&of.name, of.lun.stats().initiators())).collect();
    let rows = || counted.iter().flat_map(|(name, rows)| rows.iter().map(move |row| (name, row)));
    let label = |initiator: &'_ String| if initiator.is_empty() { OTHER_INITIATORS.to_owned() } else { initiator.clone() };
    let mut commands = page.family("millrace_initiator_commands_total", Type::Counter, "SCSI commands of an initiator at a LUN.");
    rows().for_each(|(lun, (initiator, count, _))| commands.sample(&[("lun", lun), ("initiator", &label(initiator))], count));
    let mut bytes = page.family("millrace_initiator_bytes_total", Type::Counter, "Data of its reads and writes.");
    rows().for_each(|(lun, (initiator, _, count))| bytes.sample(&[("lun", lun), ("initiator", &label(initiator))], count));
}
