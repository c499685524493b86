//! The tuner: what is set between a database and its disk, what should be, why, and how it is changed and changed back.
//!
//! Interfaces: [`facts::Facts`] (what is known of a host, live or from captures), [`rule::Rule`] (data, `rules/*.toml`), and
//! [`results::audit`] (what a judgement is stored as). This crate never decides by itself that a setting is good: every
//! sentence it prints stands in a rule with a source. What is not known is reported, never passed.
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
pub mod waivers;
