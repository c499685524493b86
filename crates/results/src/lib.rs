//! Every stored record, histograms, statistics; the schema of results.json.
//!
//! This crate holds bytes and records only: no sockets, no files, no clocks, no threads.
#![forbid(unsafe_code)]

pub mod audit;
pub mod compare;
pub mod curves;
pub mod environment;
pub mod filer_stats;
pub mod histogram;
pub mod history;
pub mod judgement;
pub mod luns;
mod names;
pub mod orders_run;
pub mod rule_effects;
pub mod sizes;
pub mod statistics;
pub mod volumes;
