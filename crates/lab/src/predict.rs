//! Predicts the effect of another load, more slots or another medium: a queueing model fitted to the measurements of one run.
//!
//! [`fit::fit`] uses processor time, reads, their latency, log flushes, slots and lock waits of one configuration. The part of the
//! measured cycle that they do not explain becomes a separate time, so that the model reproduces its own run.
//! [`model::System::predict`] predicts another number of users or a changed part; [`ladder::ladder`] compares every
//! other point of a comparison with it. Nothing is fitted to the predicted point.

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
