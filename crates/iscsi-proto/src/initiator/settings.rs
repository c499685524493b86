//! Who logs in to what, and how.

use crate::chap::Credential;
use crate::login::{Name, Offer};
use crate::pdu::Isid;
use crate::target::Challenge;

/// Who logs in to what, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The initiator's name.
    pub name: Name,
    /// Its number of the session.
    pub isid: Isid,
    /// The target; none for a discovery session.
    pub target: Option<Name>,
    /// What is offered.
    pub offer: Offer,
    /// What this side proves itself by.
    pub credential: Option<Credential>,
    /// What the target has to prove itself by, in mutual CHAP.
    pub target_credential: Option<Credential>,
    /// For mutual CHAP: random bytes, drawn for this login alone.
    pub challenge: Challenge,
}
