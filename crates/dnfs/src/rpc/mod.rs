//! Remote procedure calls over TCP (RFC 5531): one connection at a time, calls in flight on it, their replies, and what
//! happens when it breaks. Knows no NFS procedure but the layout of a READ reply.

pub(crate) mod attach;
pub(crate) mod channel;
pub(crate) mod connection;
pub(crate) mod io_slices;
pub(crate) mod pool;
pub(crate) mod receive;
pub(crate) mod retry;
pub(crate) mod service;
pub(crate) mod tls;
