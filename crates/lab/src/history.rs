//! Records of many comparisons: which of them may be compared, how their figures develop, and a comparison with its predecessor.
//!
//! A record is read, reduced to an [`Entry`] and dropped, so that a thousand records need only the memory of their runs' figures.

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
