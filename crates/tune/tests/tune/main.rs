//! Rules, captures, plans of changes and reports.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, reason = "a panic is a test's verdict")]

mod agreement;
mod beside_programs;
mod captures;
mod captures_hostile;
mod change;
mod change_apply;
mod change_captures;
mod change_diff;
mod change_interrupted;
mod change_plan;
mod collect;
mod coverage;
mod facts_known;
mod fixtures;
mod layouts;
mod removed_entries;
mod report;
mod reports_aix_rhel4;
mod reports_rhel5;
mod reports_unix;
#[path = "../../src/report/sample.rs"]
mod sample;
mod sarif;
mod secret_corpus;
mod secrets;
mod titles;
mod without_site;
mod wrong_before;
