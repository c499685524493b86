//! The limits of old clients: a maximum of calls in flight for the whole mount (the slot table of a kernel client), and one
//! writer at a time for each file. Also one COMMIT at a time for each file, which its callers share.
//!
//! All of them are locks that several processes share and whose holder may die at any instruction. A word names the holder: its
//! liveness lock (a byte of a file, which the kernel unlocks at exit), how often that byte was locked before, and the thread or
//! its lease. A waiter sleeps on a futex and checks now and then whether the holder is alive. A thread does not wait for what
//! it already holds, as a signal handler inside a call would: it would wait for itself.

mod call_frames;
mod commit_turn;
mod kept;
mod lease_lock;
mod leases;
mod limiter;
mod members;
pub(crate) mod records;
#[cfg(test)]
mod tests;
mod writer_lock;

pub use call_frames::{CallFrame, begin_call, is_inside_call};
pub(crate) use commit_turn::CommitTurn;
pub(crate) use kept::{KeptConnections, KeptPlace};
pub(crate) use lease_lock::{LeaseLock, Locked};
pub(crate) use leases::{Lease, Strength};
pub(crate) use limiter::{SlotLimiter, SlotPermit};
pub(crate) use members::{Fence, Members, Owner};
pub(crate) use writer_lock::WriterGuard;
