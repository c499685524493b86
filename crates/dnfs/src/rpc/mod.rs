//! Remote procedure calls over TCP (RFC 5531): one connection at a time, calls in flight on it, their replies, and what
//! happens when it breaks. Of NFS it knows the layout of a READ reply, whose data goes straight to the caller.

pub(crate) mod attach;
pub(crate) mod channel;
pub(crate) mod channel_support;
pub(crate) mod connection;
pub(crate) mod events;
pub(crate) mod fault;
pub(crate) mod io_slices;
pub(crate) mod pool;
pub(crate) mod receive;
pub(crate) mod response_timer;
pub(crate) mod retry;
pub(crate) mod service;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod tls_config;
pub(crate) mod tls_handshake;
