//! The parameters that a login negotiates: the defaults of RFC 7143 13, and the values that a side offers.

use crate::limits::{DATA_SEGMENT_BYTES_MAX, OUTSTANDING_R2T_MAX};

/// The type of a session (RFC 7143 13.21).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionType {
    /// For SCSI commands.
    #[default]
    Normal,
    /// For SendTargets only.
    Discovery,
}

/// The result of a negotiation. The default values are those of RFC 7143 13 for keys that were not negotiated. A side's own limits
/// are in [`Offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Whether headers have digests.
    pub header_digest: bool,
    /// Whether data segments have digests.
    pub data_digest: bool,
    /// Connections that the session may have.
    pub connections_max: u32,
    /// Whether unsolicited Data-Out PDUs are forbidden.
    pub initial_r2t: bool,
    /// Whether commands may carry data.
    pub immediate_data: bool,
    /// The longest data segment that the peer accepts, in bytes.
    pub send_segment_bytes_max: u32,
    /// The longest data segment that this side accepts, in bytes.
    pub receive_segment_bytes_max: u32,
    /// The longest sequence of data PDUs, in bytes.
    pub max_burst_bytes: u32,
    /// The most unsolicited data of a command, in bytes.
    pub first_burst_bytes: u32,
    /// Seconds to wait before reconnecting.
    pub time2wait_s: u16,
    /// Seconds for which tasks stay after the end of their connection.
    pub time2retain_s: u16,
    /// R2Ts of one command that may be unanswered.
    pub outstanding_r2t_max: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            connections_max: 1,
            initial_r2t: true,
            immediate_data: true,
            send_segment_bytes_max: 8192,
            receive_segment_bytes_max: 8192,
            max_burst_bytes: 262_144,
            first_burst_bytes: 65_536,
            time2wait_s: 2,
            time2retain_s: 20,
            outstanding_r2t_max: 1,
        }
    }
}

/// Whether a side wants digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigestChoice {
    /// No digests, whatever the other side offers.
    Never,
    /// As a target: the initiator's first choice. As an initiator: no digests, unless the target requires them.
    #[default]
    Allowed,
    /// Digests, if the other side supports them.
    Preferred,
    /// Digests are required, otherwise the login fails.
    Required,
}

/// The limits that a side offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Digests of headers.
    pub header_digest: DigestChoice,
    /// Digests of data segments.
    pub data_digest: DigestChoice,
    /// Whether unsolicited Data-Out PDUs are refused.
    pub initial_r2t: bool,
    /// Whether commands may carry data.
    pub immediate_data: bool,
    /// The longest data segment this side accepts, in bytes.
    pub receive_segment_bytes_max: u32,
    /// The longest sequence of data PDUs, in bytes.
    pub max_burst_bytes: u32,
    /// The most unsolicited data of a command, in bytes.
    pub first_burst_bytes: u32,
    /// Seconds to wait before reconnecting. No wait is needed.
    pub time2wait_s: u16,
    /// Seconds for which tasks stay after the end of their connection: 0 at error recovery level 0.
    pub time2retain_s: u16,
    /// R2Ts of one command that may be unanswered.
    pub outstanding_r2t_max: u32,
}

impl Default for Offer {
    /// With these values, a write of up to 256 KiB takes one round trip.
    fn default() -> Self {
        Self {
            header_digest: DigestChoice::Allowed,
            data_digest: DigestChoice::Allowed,
            initial_r2t: false,
            immediate_data: true,
            receive_segment_bytes_max: 256 << 10,
            max_burst_bytes: 1 << 20,
            first_burst_bytes: 256 << 10,
            time2wait_s: 0,
            time2retain_s: 0,
            outstanding_r2t_max: 4,
        }
    }
}

impl Offer {
    /// The same offer within the limits of the crate and of RFC 7143.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.receive_segment_bytes_max = self.receive_segment_bytes_max.clamp(512, DATA_SEGMENT_BYTES_MAX as u32);
        self.max_burst_bytes = self.max_burst_bytes.clamp(512, (1 << 24) - 1);
        self.first_burst_bytes = self.first_burst_bytes.clamp(512, self.max_burst_bytes);
        self.outstanding_r2t_max = self.outstanding_r2t_max.clamp(1, OUTSTANDING_R2T_MAX as u32);
        self.time2wait_s = self.time2wait_s.min(3600);
        self.time2retain_s = self.time2retain_s.min(3600);
        self
    }
}
