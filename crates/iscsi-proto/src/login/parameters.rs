//! What a login settles: the defaults of RFC 7143 13, and what a side offers.

use crate::limits::{DATA_SEGMENT_BYTES_MAX, OUTSTANDING_R2T_MAX};

/// What a session is for (RFC 7143 13.21).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionType {
    /// SCSI commands.
    #[default]
    Normal,
    /// SendTargets alone.
    Discovery,
}

/// The result of a negotiation. Its default is what RFC 7143 13 sets for keys that were not negotiated; own limits are in [`Offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Headers carry digests.
    pub header_digest: bool,
    /// Data segments carry digests.
    pub data_digest: bool,
    /// Connections a session may have.
    pub connections_max: u32,
    /// No unsolicited Data-Out PDUs.
    pub initial_r2t: bool,
    /// Commands may carry data.
    pub immediate_data: bool,
    /// The longest data segment that the peer declared to accept, in bytes.
    pub send_segment_bytes_max: u32,
    /// The longest data segment that this side declared to accept, in bytes.
    pub receive_segment_bytes_max: u32,
    /// The longest sequence of data PDUs, in bytes.
    pub max_burst_bytes: u32,
    /// The most unsolicited data of a command, in bytes.
    pub first_burst_bytes: u32,
    /// Seconds to wait before reconnecting.
    pub time2wait_s: u16,
    /// Seconds that tasks outlive a connection.
    pub time2retain_s: u16,
    /// R2Ts of a command that may be unanswered.
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

/// Whether a side wants a digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigestChoice {
    /// None, whatever the other side asks for.
    Never,
    /// As the initiator would rather have it; as an initiator: none, if the target lets it.
    #[default]
    Allowed,
    /// One if the other side has it, none otherwise.
    Preferred,
    /// One, or no session.
    Required,
}

/// What a side offers: its own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Digests of headers.
    pub header_digest: DigestChoice,
    /// Digests of data.
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
    /// Seconds to wait before reconnecting: none are needed.
    pub time2wait_s: u16,
    /// Seconds that tasks outlive a connection: none at error recovery level 0.
    pub time2retain_s: u16,
    /// R2Ts of a command that may be unanswered.
    pub outstanding_r2t_max: u32,
}

impl Default for Offer {
    /// A write of up to 256 KiB takes one round trip.
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
    /// The same within the limits of the crate and of RFC 7143.
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
