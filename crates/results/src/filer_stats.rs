//! Statistics that the filer reports over its admin socket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counters of a running filer since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilerStats {
    /// Process id.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Connections that are open now.
    pub connections: u64,
    /// Write verifier, 16 hexadecimal digits.
    pub verifier: String,
    /// Number of times that unstable data may have been lost since the volume was created.
    pub loss_epoch: u64,
    /// By procedure of NFS version 3 (`READ`, `WRITE`, …, all 22), and `MOUNT` for all of MOUNT version 3.
    pub procedures: BTreeMap<String, ProcedureStats>,
    /// By kind of SCSI command (`SCSI-READ`, `SCSI-WRITE`, `SCSI-FLUSH`, `SCSI-UNMAP`,
    /// `SCSI-OTHER`), for all LUNs together. Empty if there are no LUNs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scsi: BTreeMap<String, ProcedureStats>,
    /// READs that had to wait for the store because the page cache did not have their data. 0 if the served file system
    /// does not report this.
    #[serde(default)]
    pub cold_reads: u64,
    /// Flushes to the store that the volumes carried out.
    pub flushes: u64,
    /// Of these, flushes for durable WRITEs and COMMITs.
    #[serde(default)]
    pub data_flushes: u64,
    /// Requested flushes that a concurrent flush covered.
    #[serde(default)]
    pub shared_flushes: u64,
    /// Durable WRITEs that the volumes acknowledged.
    #[serde(default)]
    pub stable_writes: u64,
    /// Of these, those that bypassed the host's page cache.
    #[serde(default)]
    pub direct_writes: u64,
    /// READs that bypassed the host's page cache.
    #[serde(default)]
    pub direct_reads: u64,
    /// How acknowledged writes survive a power cut: `sync` flushes before each reply, `battery` relies on the host's
    /// memory, `mixed` if volumes differ. Empty from an older filer, which supports only `sync`.
    #[serde(default)]
    pub durability: String,
    /// How data use the page cache: `cached`, `write-around`, `direct`, `dropbehind`, or `mixed`.
    /// Empty from an older filer: `cached`.
    #[serde(default)]
    pub cache: String,
    /// A flush failed: a volume gives no durability guarantee until it is reopened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub poisoned: bool,
    /// Kinds of the faults that are injected. Measurements made while they are active do not describe the storage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The modelled medium, if the filer has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<MediumStats>,
}

impl FilerStats {
    /// Flushes per acknowledged durable WRITE and COMMIT; `None` before the first one.
    #[must_use]
    pub fn flushes_per_acknowledged_write(&self) -> Option<f64> {
        let commits = self.procedures.get("COMMIT").map_or(0, |row| row.calls.saturating_sub(row.errors));
        let acknowledged = self.stable_writes + commits;
        #[expect(clippy::cast_precision_loss, reason = "counters of calls stay far below 2^52")]
        (acknowledged > 0).then(|| self.data_flushes as f64 / acknowledged as f64)
    }
}

/// Counters of a modelled medium: totals since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediumStats {
    /// The medium with all its keys; the same text describes the same medium.
    pub medium: String,
    /// Reads.
    pub reads: u64,
    /// Writes, both those that were stable when acknowledged and the others.
    pub writes: u64,
    /// Flushes and changes of names or attributes.
    pub flushes: u64,
    /// Of the reads, those served from the medium's own cache.
    pub cache_hits: u64,
    /// Busy time of the spindles, summed over spindles, in nanoseconds.
    pub busy_ns: u64,
    /// Largest number of operations that were waiting at a spindle when another one arrived.
    pub waiting_max: u64,
    /// Time that operations waited for their spindle, in nanoseconds.
    #[serde(default)]
    pub queued_ns: u64,
    /// Sum of the times of reads, in nanoseconds.
    #[serde(default)]
    pub read_ns: u64,
    /// Sum of the times until writes were acknowledged, in nanoseconds.
    #[serde(default)]
    pub write_ns: u64,
    /// Sum of the times of flushes, in nanoseconds.
    #[serde(default)]
    pub flush_ns: u64,
    /// Writes that waited because the NVRAM was full.
    #[serde(default)]
    pub nvram_full: u64,
    /// Replies that the filer delayed until the medium was done.
    #[serde(default)]
    pub replies_held: u64,
    /// CPU time of these delays, without sending, in nanoseconds.
    #[serde(default)]
    pub waiting_cpu_ns: u64,
}

/// Counters of one procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcedureStats {
    /// Calls answered, including repeated ones.
    pub calls: u64,
    /// Of these, those that were refused or returned a status other than NFS3_OK.
    pub errors: u64,
    /// Payload of READ and WRITE, in bytes; 0 for other procedures.
    pub bytes: u64,
    /// Duration of its calls; `None` before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySummary>,
}

/// Duration of calls in the filer, from the start of a call, or its hand-over to a worker, until its reply is ready. In
/// microseconds; the quantiles come from a histogram and are accurate to an eighth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Arithmetic mean, exact.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_are_told_per_acknowledged_write() {
        let mut stats = FilerStats { data_flushes: 6, stable_writes: 20, ..FilerStats::default() };
        stats.procedures.insert("COMMIT".into(), ProcedureStats { calls: 5, errors: 1, ..ProcedureStats::default() });
        assert_eq!(stats.flushes_per_acknowledged_write(), Some(0.25));
        assert_eq!(FilerStats::default().flushes_per_acknowledged_write(), None);
    }

    #[test]
    fn a_record_survives_json_and_further_fields_do_not_hurt() {
        let mut stats = FilerStats { pid: 7, verifier: "00ff".into(), ..FilerStats::default() };
        stats.procedures.insert("READ".into(), ProcedureStats { calls: 1, errors: 0, bytes: 8192, latency: None });
        let mut json = serde_json::to_value(&stats).unwrap();
        json["ok"] = true.into();
        assert_eq!(serde_json::from_value::<FilerStats>(json).unwrap(), stats);
    }
}
