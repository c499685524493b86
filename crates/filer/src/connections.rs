//! Connections, independent of the protocol.
//!
//! All services share this code: accepting ([`acceptor`]), admission ([`admission`], [`table`]), the socket and TLS over it
//! ([`transport`]), receive and reply buffers, threads for requests that wait for the medium ([`workers`]), limits of memory
//! ([`connection::Reservation`]), sends of whole replies in order ([`connection`]), replies that leave at a set time ([`delayed_replies`]),
//! and stopping. A protocol implements [`service::Service`]. This module depends on no protocol.
//!
//! # A service
//! A service finds frames (RPC records, PDUs) in [`receive_buffer::ReceiveBuffer`]. [`service::Service::serve`] executes all frames of one
//! receive. It is called statically, once each turn. The service
//! - appends replies to the buffer of the turn, which is sent at the end of the turn, or before a request that waits;
//! - appends requests for more data in the same way (an R2T), and serves the data in a later turn;
//! - hands a request that waits for the medium to a worker, whose reply is sent by [`connection::Connection::queue`] in the order of the
//!   calls of that function, from any thread; unsolicited messages (an asynchronous message) are sent in the same way;
//! - ends a connection at once ([`connection::Connection::drop_now`]) or after the requests in progress
//!   ([`connection::Connection::finish`]). A session over several connections ends each of them.
//!
//! When the filer stops, connections receive nothing more. [`service::Service::ending`] may still send, for example a request to log out.

pub(crate) mod acceptor;
pub(crate) mod admission;
mod buffers;
pub(crate) mod connection;
mod crowd;
pub(crate) mod delayed_replies;
pub(crate) mod delivery;
pub(crate) mod driver;
pub(crate) mod ended;
mod frame_timer;
mod idle_workers;
pub(crate) mod parking;
pub(crate) mod queue;
pub mod receive_buffer;
mod refusals;
mod replies;
pub(crate) mod service;
pub(crate) mod shares;
pub(crate) mod table;
mod totals;
mod transport;
pub(crate) mod turn;
pub(crate) mod workers;

pub use receive_buffer::ReceiveBuffer;
pub(crate) use totals::Totals;
