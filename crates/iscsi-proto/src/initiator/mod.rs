//! One connection of an initiator, which is a whole session (RFC 7143, ErrorRecoveryLevel 0).
//!
//! [`Initiator`] writes requests into a buffer of the caller and takes PDUs one by one. It keeps no data: what is read is given with
//! its place ([`Event::Data`]), what is written is asked for ([`Event::Wanted`]) where it did not go with the command.

mod event;
mod login;
mod requests;
mod responses;
mod session;
mod settings;
mod tasks;

pub use crate::fault::Fault;
pub use event::{DataRequest, Event, Refusal, Residual, Status};
pub use requests::{Request, Transfer};
pub use session::Initiator;
pub use settings::Settings;
