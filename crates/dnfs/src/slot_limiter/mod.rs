//! Old clients' limits: so many calls outstanding for the whole mount, one writer at a time on each file.
//!
//! Both are locks that several processes share and that any holder may die with. A holder is named by a word: its sign of
//! life (a byte of a file whose lock the kernel takes back), how often that sign was taken before, and the thread. Whoever
//! waits sleeps on a futex and looks now and then whether the holder still lives. Who holds something and asks again, as a
//! signal handler inside a call does, is let through: it would wait for itself.

mod limiter;
mod members;
#[cfg(test)]
mod tests;
mod writer_lock;

pub(crate) use limiter::{Gate, Held};
pub(crate) use members::Members;
pub(crate) use writer_lock::Writing;
