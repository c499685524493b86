//! Status of the filer's volumes, reported over its admin socket.

use serde::{Deserialize, Serialize};

/// One served volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Its name, for commands and logs.
    pub name: String,
    /// The path that clients mount.
    pub path: String,
    /// The served directory.
    pub dir: String,
    /// File system id in attributes, 16 hexadecimal digits.
    pub fsid: String,
    /// How files are identified and found again: `handles`, `handles-by-name` or `birth-times`.
    pub identity: String,
    /// `sync` or `battery`.
    pub durability: String,
    /// `cached`, `write-around`, `direct` or `dropbehind`.
    pub cache: String,
    /// `host` or `minimal`; empty from an older filer.
    #[serde(default)]
    pub read_ahead: String,
    /// Whether only this filer changes the directory (`exclusive`). False from an older filer.
    #[serde(default)]
    pub exclusive: bool,
    /// The modelled medium, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
    /// Whether a power cut can be simulated.
    pub loss_layer: bool,
    /// Write verifier, 16 hexadecimal digits.
    pub verifier: String,
    /// Number of times that unstable data may have been lost.
    pub loss_epoch: u64,
    /// A flush failed: there is no durability guarantee until the filer is restarted.
    pub poisoned: bool,
    /// Maximum total size of its files; `None` for the size of the store.
    pub quota_bytes: Option<u64>,
    /// Total size of its files. Absent without a quota, because the filer counts it only for a quota.
    pub used_bytes: Option<u64>,
    /// Size that clients see; `None` if the store does not report it.
    pub total_bytes: Option<u64>,
    /// Available space that clients see.
    pub available_bytes: Option<u64>,
    /// NFS calls since the filer has served the volume.
    pub calls: u64,
    /// Of these, calls that returned an error.
    pub errors: u64,
    /// Export rules. The first rule that matches a client applies.
    pub rules: Vec<RuleStatus>,
}

/// Rights of some clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// The clients of the rule, as written in the configuration.
    pub clients: Vec<String>,
    /// `ro` or `rw`.
    pub access: String,
    /// `root`, `all` or `none`.
    pub squash: String,
    /// User id of squashed users.
    pub anonymous_uid: u32,
    /// Group id of squashed users.
    pub anonymous_gid: u32,
    /// Whether only requests from ports below 1024 are served.
    pub privileged_ports: bool,
    /// `off`, `allowed`, `required` or `mutual`.
    pub tls: String,
}
