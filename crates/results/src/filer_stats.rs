//! What the filer says of itself over its admin socket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counters of a running filer since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilerStats {
    /// Process id.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Connections open now.
    pub connections: u64,
    /// Write verifier, 16 hexadecimal digits.
    pub verifier: String,
    /// Times that unstable data may have been lost since the volume was made.
    pub loss_epoch: u64,
    /// By procedure of NFS version 3 (`READ`, `WRITE`, …, all 22) and `MOUNT` for all of MOUNT version 3.
    pub procedures: BTreeMap<String, ProcedureStats>,
    /// Flushes to the store that the volume carried out.
    pub flushes: u64,
}

/// Counters of one procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcedureStats {
    /// Calls answered, repeated ones included.
    pub calls: u64,
    /// Of these, answered with a status other than NFS3_OK or refused.
    pub errors: u64,
    /// Payload of READ and WRITE, in bytes; 0 for others.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_json_and_further_fields_do_not_hurt() {
        let mut stats = FilerStats { pid: 7, verifier: "00ff".into(), ..FilerStats::default() };
        stats.procedures.insert("READ".into(), ProcedureStats { calls: 1, errors: 0, bytes: 8192 });
        let mut json = serde_json::to_value(&stats).unwrap();
        json["ok"] = true.into();
        assert_eq!(serde_json::from_value::<FilerStats>(json).unwrap(), stats);
    }
}
