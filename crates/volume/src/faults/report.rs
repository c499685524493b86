//! Reports of faults that are set and of their injections: records of the admin socket.

use serde::{Deserialize, Serialize};

use super::spec::{FaultKind, FaultSpec};

/// A fault that is set, and how often it was injected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultStatus {
    /// Its number, with which it can be cleared.
    pub id: u64,
    /// The fault.
    pub fault: FaultSpec,
    /// Operations that matched it.
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
    /// The number of the operation among those that matched the fault, from 1.
    pub nth: u64,
    /// The operation: `write`, `READ`.
    pub on: String,
    /// File id of the file that it affected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<u64>,
    /// Offset of the operation in the file, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Length of the operation, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// What a random decision chose: the bit that was flipped, how many sectors arrived.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// The faults of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultReport {
    /// Those that are set, in the order in which they are tried.
    pub faults: Vec<FaultStatus>,
    /// Injections since the volume was opened, also of faults that were cleared.
    pub injected: u64,
    /// The latest of them, oldest first.
    pub injections: Vec<FaultInjection>,
}
