//! What is said of faults that are set, and of what they affected: records of the admin socket.

use serde::{Deserialize, Serialize};

use super::spec::{FaultKind, FaultSpec};

/// A fault that is set, and how often it was injected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultStatus {
    /// Its number, by which it is cleared.
    pub id: u64,
    /// The fault.
    pub fault: FaultSpec,
    /// Operations that that it could have been injected into.
    pub matched: u64,
    /// Operations that it was injected into.
    pub injected: u64,
}

/// One injection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultInjection {
    /// The fault's number.
    pub id: u64,
    /// What it is.
    pub kind: FaultKind,
    /// Which of the operations it matched, from 1.
    pub nth: u64,
    /// What it affected: `write`, `READ`.
    pub on: String,
    /// File id, where it affected a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<u64>,
    /// Where in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// What exactly, as far as chance decided it: the bit that was flipped, the sectors that arrived.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// The faults of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultReport {
    /// Those that are set, in the order in which they are tried.
    pub faults: Vec<FaultStatus>,
    /// Injections since the volume was opened, of faults cleared meanwhile too.
    pub injected: u64,
    /// The latest of them, oldest first.
    pub injections: Vec<FaultInjection>,
}
