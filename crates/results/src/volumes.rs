//! What the filer says of its volumes over its admin socket.

use serde::{Deserialize, Serialize};

/// One volume as it is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Its name, for commands and logs.
    pub name: String,
    /// The path clients mount.
    pub path: String,
    /// The served directory.
    pub dir: String,
    /// File system id in attributes, 16 hexadecimal digits.
    pub fsid: String,
    /// How files are told apart and found again: `handles`, `handles-by-name` or `birth-times`.
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
    /// Whether a power cut can be tried.
    pub loss_layer: bool,
    /// Write verifier, 16 hexadecimal digits.
    pub verifier: String,
    /// Times that unstable data may have been lost.
    pub loss_epoch: u64,
    /// A flush failed: nothing is promised until the filer is started again.
    pub poisoned: bool,
    /// How large its files may be together; none: as large as the store.
    pub quota_bytes: Option<u64>,
    /// How large they are, where that is counted: there is a quota.
    pub used_bytes: Option<u64>,
    /// Size that clients are told; none when the store does not answer.
    pub total_bytes: Option<u64>,
    /// Room that clients are told.
    pub available_bytes: Option<u64>,
    /// NFS calls since the volume is served.
    pub calls: u64,
    /// Of these, those with an error as answer.
    pub errors: u64,
    /// Who may use it; the first that names a client counts.
    pub rules: Vec<RuleStatus>,
}

/// What some clients may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// Whom it is about, as written.
    pub clients: Vec<String>,
    /// `ro` or `rw`.
    pub access: String,
    /// `root`, `all` or `none`.
    pub squash: String,
    /// Who those become.
    pub anonymous_uid: u32,
    /// Group of the same.
    pub anonymous_gid: u32,
    /// Only ports below 1024 are served.
    pub privileged_ports: bool,
    /// `off`, `allowed`, `required` or `mutual`.
    pub tls: String,
}
