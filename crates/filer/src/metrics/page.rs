//! The metrics, each with its help text, in the order of docs/filer.md.

use nfs_proto::nfs3::NfsStatus;

use super::text::{Page, Type};
use crate::nfs::export::Export;
use crate::nfs::exports::{Entry, Exports};
use crate::nfs::stats::{CountedRow, MOUNT, Stats, row_names, status_name};
use crate::server::Server;

/// The export label of calls that belong to no export. Paths begin with a slash, so no export has this label.
const NO_EXPORT: &str = "none";
/// The client label of the clients that are not counted by address.
const OTHER_CLIENTS: &str = "other";

/// The page with the current counters.
pub(super) fn write(server: &Server) -> String {
    let mut page = Page::default();
    process(&mut page, server);
    let exports = server.filer().exports();
    calls(&mut page, &server.filer().stats, &exports);
    volumes(&mut page, &exports);
    quotas(&mut page, &exports);
    threads(&mut page, server);
    clients(&mut page, server);
    super::luns::write(&mut page, server);
    page.into_text()
}

fn process(page: &mut Page, server: &Server) {
    let mut build = page.family("millrace_build_info", Type::Gauge, "Always 1; the label is the version of the program.");
    build.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let uptime = server.uptime().as_secs_f64();
    page.single("millrace_uptime_seconds", Type::Gauge, "Time since the start.", uptime);
    page.single("millrace_connections", Type::Gauge, "Connections open now.", server.connection_count());
    let begun = server.connections().begun();
    page.single("millrace_connections_total", Type::Counter, "Connections accepted.", begun);
    let buffers = server.buffer_bytes();
    page.single("millrace_buffer_bytes", Type::Gauge, "Size of the buffers of all connections.", buffers);
    if let Some(validity) = server.filer().tls().and_then(|tls| tls.validity()) {
        let help = "When the certificate of TLS expires, in seconds since 1970.";
        page.single("millrace_certificate_expiry_timestamp_seconds", Type::Gauge, help, validity.until.as_secs());
    }
}

/// A procedure that clients have called at an export.
struct Called<'e> {
    export: &'e str,
    procedure: &'static str,
    row: CountedRow,
}

impl Called<'_> {
    const fn labels(&self) -> [(&'static str, &str); 2] {
        [("export", self.export), ("procedure", self.procedure)]
    }

    /// The name of a status (RFC 1813 2.6; for MOUNT, RFC 1813 appendix I 5.1.4).
    fn status(&self, status: Option<NfsStatus>) -> String {
        let of = if self.procedure == MOUNT { "MNT3ERR" } else { "NFS3ERR" };
        status.map_or_else(|| "refused".to_owned(), |status| format!("{of}_{}", status_name(status)))
    }
}

fn calls(page: &mut Page, of_none: &Stats, exports: &Exports) {
    let entries = exports.entries().iter().map(|entry| (entry.export.path(), entry.export.stats()));
    let mut called = Vec::new();
    for (export, stats) in [(NO_EXPORT, of_none)].into_iter().chain(entries) {
        let rows = row_names().zip(stats.rows()).filter(|(_, row)| row.latencies.count() > 0);
        called.extend(rows.map(|(procedure, row)| Called { export, procedure, row }));
    }
    let mut counts = page.family("millrace_nfs_calls_total", Type::Counter, "Calls answered, retransmitted ones included.");
    for of in &called {
        counts.sample(&of.labels(), of.row.latencies.count());
    }
    let mut errors = page.family("millrace_nfs_errors_total", Type::Counter, "Calls answered with a status other than OK.");
    for of in &called {
        let [export, procedure] = of.labels();
        for (status, count) in &of.row.errors {
            errors.sample(&[export, procedure, ("status", &of.status(*status))], count);
        }
    }
    let mut bytes = page.family("millrace_nfs_bytes_total", Type::Counter, "Payload of READ and WRITE.");
    for of in called.iter().filter(|of| matches!(of.procedure, "READ" | "WRITE")) {
        bytes.sample(&of.labels(), of.row.bytes);
    }
    let help = "Time from when a call was begun, or handed to a worker, until its reply was ready.";
    let mut latencies = page.family("millrace_nfs_call_seconds", Type::Histogram, help);
    for of in &called {
        let counted = &of.row.latencies;
        latencies.histogram(&of.labels(), counted.by_octave(), counted.count(), counted.sum_s());
    }
}

fn volumes(page: &mut Page, exports: &Exports) {
    let mut infos = page.family("millrace_volume_info", Type::Gauge, "Always 1; the labels describe the volume.");
    for Entry { export, .. } in exports.entries() {
        let options = export.volume().options();
        let (durability, cache) = (options.durability.as_str(), options.cache.as_str());
        let medium = if export.medium().is_some() { "modelled" } else { "none" };
        let (path, volume) = (export.path(), export.name());
        infos
            .sample(&[("export", path), ("volume", volume), ("durability", durability), ("cache", cache), ("medium", medium)], 1);
    }
    let mut each = |name, kind, help, value: fn(&Export) -> u64| {
        let mut family = page.family(name, kind, help);
        for Entry { export, .. } in exports.entries() {
            family.sample(&[("export", export.path())], value(export));
        }
    };
    let help = "READs that had to wait for the store: their data was not in the page cache.";
    each("millrace_cold_reads_total", Type::Counter, help, |export| export.stats().cold_reads());
    let help = "Flushes and durable writes issued to the store.";
    each("millrace_flushes_total", Type::Counter, help, |export| export.volume().counters().flushes);
    let help = "Of the flushes, those for stable WRITEs and COMMITs.";
    each("millrace_data_flushes_total", Type::Counter, help, |export| export.volume().counters().data_flushes);
    let help = "Flushes saved because another one covered them.";
    each("millrace_shared_flushes_total", Type::Counter, help, |export| export.volume().counters().shared_flushes);
    let help = "Stable WRITEs (DATA_SYNC or FILE_SYNC) carried out.";
    each("millrace_stable_writes_total", Type::Counter, help, |export| export.volume().counters().stable_writes);
    let help = "Of the stable WRITEs, those that bypassed the page cache (direct I/O).";
    each("millrace_direct_writes_total", Type::Counter, help, |export| export.volume().counters().direct_writes);
    let help = "READs that bypassed the page cache (direct I/O).";
    each("millrace_direct_reads_total", Type::Counter, help, |export| export.volume().counters().direct_reads);
    let help = "Times that unstable data may have been lost since the volume was created.";
    each("millrace_loss_epoch", Type::Gauge, help, |export| export.volume().loss_epoch());
    let help = "Injected faults that are set.";
    each("millrace_faults", Type::Gauge, help, |export| export.volume().faults().report().faults.len() as u64);
    let help = "Operations and calls that an injected fault has affected.";
    each("millrace_fault_injections_total", Type::Counter, help, |export| export.volume().faults().report().injected);
    let help = "1 after a failed flush: the volume refuses changes until it is reopened.";
    each("millrace_poisoned", Type::Gauge, help, |export| export.volume().is_poisoned().into());
}

fn quotas(page: &mut Page, exports: &Exports) {
    let quotas = || exports.entries().iter().filter_map(|Entry { export, .. }| Some((export.path(), export.volume().quota()?)));
    let mut limits = page.family("millrace_quota_bytes", Type::Gauge, "Quota of the volume, if it has one.");
    quotas().for_each(|(path, quota)| limits.sample(&[("export", path)], quota.limit_bytes));
    let mut used = page.family("millrace_quota_used_bytes", Type::Gauge, "Bytes of the quota in use.");
    quotas().for_each(|(path, quota)| used.sample(&[("export", path)], quota.used_bytes));
}

fn threads(page: &mut Page, server: &Server) {
    let (load, delayed) = (server.workers().load(), server.workers().delayed());
    page.single("millrace_workers_busy", Type::Gauge, "Worker threads that carry out a call.", load.busy);
    page.single("millrace_workers_queued", Type::Gauge, "Calls that wait for a worker thread.", load.queued);
    page.single(
        "millrace_held_replies",
        Type::Gauge,
        "Replies delayed by a modelled medium and not sent yet.",
        delayed.waiting(),
    );
    page.single(
        "millrace_held_replies_sent_total",
        Type::Counter,
        "Replies sent after a delay by a modelled medium.",
        delayed.counts().0,
    );
    let cache = server.filer().once.contents();
    let help = "Retransmitted calls answered from the reply cache.";
    page.single("millrace_reply_cache_hits_total", Type::Counter, help, cache.hits);
    page.single("millrace_reply_cache_replies", Type::Gauge, "Replies in the reply cache.", cache.replies);
    page.single("millrace_reply_cache_bytes", Type::Gauge, "Size of the replies in the reply cache.", cache.bytes);
}

fn clients(page: &mut Page, server: &Server) {
    let (named, others) = server.filer().clients.counted();
    let mut rows: Vec<_> = named.into_iter().map(|(client, row)| (client.to_string(), row)).collect();
    rows.push((OTHER_CLIENTS.to_owned(), others));
    let mut bytes = page.family("millrace_client_bytes_total", Type::Counter, "Payload of READ and WRITE.");
    for (client, row) in &rows {
        bytes.sample(&[("client", client)], row.bytes);
    }
    let help = "Latency of NFS and MOUNT calls as in millrace_nfs_call_seconds, by client address.";
    let mut latencies = page.family("millrace_client_call_seconds", Type::Histogram, help);
    for (client, row) in &rows {
        let counted = &row.latencies;
        latencies.histogram(&[("client", client)], counted.by_octave(), counted.count(), counted.sum_s());
    }
}
