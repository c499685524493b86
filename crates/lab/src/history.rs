//! Records of many comparisons: which of them may be compared, how their figures go on, and a comparison against its last one.
//!
//! A record is read, reduced to an [`Entry`] and dropped, so that a thousand records take no more memory than their runs' figures.

mod conditions;
mod entry;
mod find;
pub mod last;
mod points;
mod series;
pub mod store;
mod text;

pub use entry::Entry;
pub use find::{Found, find};
pub use series::{Choice, history};
pub use text::render as text;

#[cfg(test)]
pub(crate) mod seeded;
