//! What a login comes to.

use super::host::Tsih;
use crate::login::{Name, Parameters, SessionType};
use crate::pdu::Isid;

/// A session whose login is over.
#[derive(Clone, Debug)]
pub struct Session {
    /// Discovery or SCSI.
    pub session_type: SessionType,
    /// The initiator's name.
    pub initiator: Name,
    /// The initiator's number of the session.
    pub isid: Isid,
    /// The target's number of the session.
    pub tsih: Tsih,
    /// The target; none in a discovery session.
    pub target: Option<Name>,
    /// The portal group it was logged in to.
    pub portal_group_tag: u16,
    /// The initiator's number of the connection.
    pub cid: u16,
    /// The CHAP name, where one was proved.
    pub user: Option<String>,
    /// What was negotiated.
    pub parameters: Parameters,
}
