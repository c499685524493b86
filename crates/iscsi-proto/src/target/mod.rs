//! One connection of a target (RFC 7143, ErrorRecoveryLevel 0, one connection a session).
//!
//! A connection has three parts, made together by [`connect`]:
//! - [`Receiver`]: the thread of the connection owns it. It finds PDUs in the received bytes ([`Receiver::frame`]), takes them one
//!   by one ([`Receiver::receive`]), answers what it can alone and gives [`Event`]s for the rest.
//! - [`Replies`]: many threads write replies with it, without a lock, each into a buffer of its own.
//! - [`Sender`]: behind the caller's lock, in the order in which buffers leave: [`Sender::stamp`] gives the PDUs of a buffer their
//!   StatSN, ExpCmdSN, MaxCmdSN and header digests. Every buffer that `Receiver` or `Replies` wrote to is stamped exactly once.
//!
//! A read costs no copy: [`Replies::begin`] keeps space for a header, the caller appends the data, [`Replies::finish`] writes the
//! header. Data longer than the peer takes in one PDU is moved apart by the headers between.
//!
//! Tasks are known to the connection by their tag until their status was stamped: that is what the command window, aborts and
//! resets go by. The reply of an aborted task is removed from the buffer when that is stamped, and the answer to a task management
//! function is held back until the tasks it ended are gone.

mod authentication;
mod connection;
mod data_in;
mod data_out;
mod event;
mod host;
mod keep_alive;
mod login;
mod receiver;
mod registry;
mod replies;
mod sender;
mod session;
mod settings;
mod target_list;
mod tasks;

pub use connection::connect;
pub use event::{Command, End, Event, TaskAnswer, TaskManagement};
pub use host::{Access, Authentication, AuthenticationFault, Challenge, Ending, Host, Opening, Purpose, Tsih};
pub use keep_alive::{KeepAlive, Pulse};
pub use receiver::Receiver;
pub use registry::{Admission, Registry, SessionKey};
pub use replies::{Begun, Outcome, Replies};
pub use sender::Sender;
pub use session::Session;
pub use settings::Settings;
pub use tasks::{Task, Tasks};

pub use crate::fault::Fault;
