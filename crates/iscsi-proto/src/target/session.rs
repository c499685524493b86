//! The session that results from a login.

use super::host::Tsih;
use crate::login::{Name, Parameters, SessionType};
use crate::pdu::Isid;

/// A session whose login has succeeded.
#[derive(Clone, Debug)]
pub struct Session {
    /// Discovery or SCSI.
    pub session_type: SessionType,
    /// The initiator's name.
    pub initiator: Name,
    /// The initiator's part of the session identifier.
    pub isid: Isid,
    /// The target's number of the session.
    pub tsih: Tsih,
    /// The target. `None` in a discovery session.
    pub target: Option<Name>,
    /// The portal group in which the initiator logged in.
    pub portal_group_tag: u16,
    /// The initiator's number of the connection.
    pub cid: u16,
    /// The CHAP name, if the initiator authenticated itself by CHAP.
    pub user: Option<String>,
    /// The negotiated parameters.
    pub parameters: Parameters,
}
