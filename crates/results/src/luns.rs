//! Status of the filer's LUNs, reported over its admin socket.

use serde::{Deserialize, Serialize};

/// One LUN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LunStatus {
    /// Its volume, and its name in it: `VOLUME/NAME`.
    pub name: String,
    /// `iscsi://HOST:PORT/IQN/LUN`; `None` if iSCSI or this LUN is not served.
    pub url: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes that it occupies in the store.
    pub used_bytes: Option<u64>,
    /// Bytes per logical block.
    pub block_bytes: u32,
    /// Its logical unit number.
    pub lun: u16,
    /// The target it belongs to.
    pub target: String,
    /// Whether the store allocates its space on writing.
    pub thin: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether its write cache is enabled: a write is durable after the next SYNCHRONIZE CACHE.
    pub write_cache: bool,
    /// Unit serial number.
    pub serial: String,
    /// NAA identifier, 16 hexadecimal digits, as in `/dev/disk/by-id/wwn-0x…`.
    pub naa: String,
    /// Initiators and groups that it is mapped to; `*` means all.
    pub initiators: Vec<String>,
    /// Sessions that see it.
    pub sessions: Vec<LunSession>,
    /// Commands since the filer has served it.
    pub commands: u64,
    /// Of these, those that did not end with status GOOD.
    pub errors: u64,
    /// Why it is not served; `None` if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A session that sees a LUN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LunSession {
    /// The initiator's name.
    pub initiator: String,
    /// Its address.
    pub address: String,
    /// The portal group it is logged in to.
    pub portal_group_tag: u16,
}
