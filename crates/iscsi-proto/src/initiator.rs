//! One connection of an initiator, which is a complete session (RFC 7143, ErrorRecoveryLevel 0).
//!
//! [`Initiator`] writes requests into a buffer of the caller and processes PDUs one by one. It keeps no data. It returns data of
//! reads with its offset ([`Event::Data`]), and requests data of writes that was not sent with the command ([`Event::Wanted`]).

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
