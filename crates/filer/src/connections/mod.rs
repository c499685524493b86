//! Connections, whatever protocol is spoken on them.
//!
//! What every service shares: accepting ([`acceptor`]) and admission ([`admission`], [`table`]), the socket and TLS over it ([`transport`]),
//! receive and reply buffers, threads beside the connections for requests that wait for the medium ([`workers`]), bounds on
//! what waits ([`connection::Reservation`]), replies that leave in order and whole ([`connection`]), replies that leave at a
//! set time ([`delayed_replies`]), stopping. A protocol is a [`service::Service`]; nothing here knows one.
//!
//! # A service
//! A service finds frames (RPC records, PDUs) in [`receive_buffer::ReceiveBuffer`] and serves all that came with one receive in
//! [`service::Service::serve`]: one static call each turn, none each request. There it
//! - appends replies to the buffer of the turn, which leaves in one send at its end, or before a request that waits;
//! - sends something of its own to ask for more (an R2T), by appending it in the same way and serving what comes with a later
//!   turn;
//! - hands a request that waits for the medium to a worker, whose reply leaves by [`connection::Connection::queue`], in the
//!   order in which replies are handed over, whichever thread does it: messages that nobody asked for (an asynchronous message)
//!   leave likewise;
//! - ends one connection ([`connection::Connection::drop_now`]) or lets it end after what is under way
//!   ([`connection::Connection::finish`]); a session over several connections keeps them and ends each.
//!
//! When the filer stops, connections receive nothing more; [`service::Service::ending`] may still send, as a request to log out.

pub(crate) mod acceptor;
pub(crate) mod admission;
mod buffers;
pub(crate) mod connection;
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
