//! Counters during a measured run, and the proof that the database used its path.

pub mod metrics;
pub mod probe;

pub(crate) mod buffer_warm_up;
pub(crate) mod cache_class;
pub(crate) mod client_activity;
pub(crate) mod kernel_counters;
pub(crate) mod proof;
pub(crate) mod traffic;
