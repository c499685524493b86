//! Connections: accepted, admitted, received from, served and sent to.

pub(crate) mod admission;
pub(crate) mod buffers;
pub(crate) mod connection;
pub(crate) mod delayed_replies;
pub(crate) mod frame_timer;
pub(crate) mod queue;
pub mod receive_buffer;
pub(crate) mod replies;
pub(crate) mod transport;
pub(crate) mod workers;
