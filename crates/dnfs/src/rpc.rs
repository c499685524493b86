//! Remote procedure calls over TCP (RFC 5531): one connection at a time, calls in flight on it, their replies, and what
//! happens when it breaks. The engine knows no file protocol: [`calls::Calls`] and
//! [`program::Procedures`] supply what it needs.

mod answers;
mod attach;
mod call_table;
pub(crate) mod calls;
pub(crate) mod channel;
mod channel_support;
pub(crate) mod connection;
mod denial;
pub(crate) mod early_lane;
mod endpoints;
pub(crate) mod events;
pub(crate) mod fault;
pub(crate) mod gone_report;
pub(crate) mod io_slices;
pub(crate) mod lane;
mod membership;
pub(crate) mod pool;
mod probe;
pub(crate) mod program;
mod receive;
mod receive_buffer;
mod response_timer;
mod retry;
pub(crate) mod route;
mod send_queue;
pub(crate) mod silence;
mod stream;
mod tls;
pub(crate) mod tls_config;
mod tls_handshake;
mod unanswered;
