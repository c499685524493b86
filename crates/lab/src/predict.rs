//! What another load, more slots or another medium would give: a queueing model fitted to what one run measured.
//!
//! [`fit::fit`] takes processor time, reads, their latency, log flushes, slots and lock waits of one arm; whatever of the
//! measured round they don't explain becomes one more time of its own, so the model meets the run it comes from.
//! [`model::System::predict`] answers for another number of users or a changed part; [`ladder::ladder`] holds every
//! other point of a comparison against it. Nothing is fitted to the point that is predicted.

pub mod cache;
pub mod fit;
pub mod ladder;
pub mod locks;
pub mod model;
pub mod network;
pub mod what_if;

mod calibrate;
#[cfg(test)]
mod measured;
mod processors;
#[cfg(test)]
mod simulated;
mod steady;
