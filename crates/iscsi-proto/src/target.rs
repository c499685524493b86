//! One connection of a target (RFC 7143, ErrorRecoveryLevel 0, one connection per session).
//!
//! A connection has three parts, which [`connect`] creates:
//! - [`Receiver`]: the connection's thread owns it. It finds PDUs in the received bytes ([`Receiver::frame`]), processes them one
//!   by one ([`Receiver::receive`]), answers those that need no decision of the caller, and returns [`Event`]s for the rest.
//! - [`Replies`]: any number of threads write replies with it, without a lock, each into its own buffer.
//! - [`Sender`]: protected by a lock of the caller and called in the order in which buffers leave. [`Sender::stamp`] sets StatSN,
//!   ExpCmdSN, MaxCmdSN and the header digests of the PDUs in a buffer. Every buffer to which `Receiver` or `Replies` wrote is
//!   stamped exactly once.
//!
//! A read costs no copy: [`Replies::begin`] reserves space for a header, the caller appends the data, and [`Replies::finish`]
//! writes the header. Data that is longer than the peer accepts in one PDU is moved to make space for further headers.
//!
//! The connection knows a task by its tag until the status of the task is stamped. The command window, aborts and resets depend on
//! that. [`Sender::stamp`] removes the reply of an aborted task from the buffer, and holds the response to a task management
//! function until the tasks that the function aborted have ended.

mod authentication;
mod connection;
mod data_in;
mod data_out;
mod event;
mod host;
mod keep_alive;
mod login;
mod mark;
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
