//! What the filer says of its LUNs over its admin socket.

use serde::{Deserialize, Serialize};

/// One LUN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LunStatus {
    /// Its volume and its name there: `VOLUME/NAME`.
    pub name: String,
    /// `iscsi://HOST:PORT/IQN/LUN`; none where iSCSI is not served, or the LUN is not.
    pub url: Option<String>,
    /// Bytes.
    pub size_bytes: u64,
    /// Bytes of the store that it takes.
    pub used_bytes: Option<u64>,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// The number that initiators address it by.
    pub lun: u16,
    /// The target it belongs to.
    pub target: String,
    /// Its space is taken from the store as it is written.
    pub thin: bool,
    /// Writes are refused.
    pub read_only: bool,
    /// Its write cache is on now: a write is durable behind the next SYNCHRONIZE CACHE.
    pub write_cache: bool,
    /// Unit serial number.
    pub serial: String,
    /// NAA identifier, 16 hexadecimal digits, as in `/dev/disk/by-id/wwn-0x…`.
    pub naa: String,
    /// Initiators and groups it is mapped to; `*` is everybody.
    pub initiators: Vec<String>,
    /// Sessions that see it.
    pub sessions: Vec<LunSession>,
    /// Commands since it is served.
    pub commands: u64,
    /// Of these, those that did not end with status GOOD.
    pub errors: u64,
    /// Why it is not served, if it is not.
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
