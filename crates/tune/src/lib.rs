//! The tuner: it reads what is set between a database and its disk, says what should be set and
//! why, and makes and reverts changes.
//!
//! Interfaces: [`facts::Facts`] (what is known about a host, live or from captures), [`rule::Rule`]
//! (data in `rules/*.toml`), and [`results::audit`] (the stored form of a judgement). Whether a
//! setting is good is said only by a rule with a source. What is not known is reported as unknown
//! and never as passed.
#![forbid(unsafe_code)]

pub mod baseline;
mod builtin;
pub mod change;
pub mod collect;
pub mod describe;
pub mod difference;
pub mod expression;
mod fact_name;
pub mod facts;
pub mod judge;
pub mod limits;
pub mod measured;
mod quantity;
pub mod reference;
pub mod report;
pub mod rule;
pub mod rules;
pub mod rules_page;
mod shown_value;
pub mod stored;
pub mod stored_audit;
pub mod template;
pub mod test_case;
pub mod title;
pub mod toml_error;
pub mod waivers;
