//! What rules of the tuner bring on the order load: a ladder from a database's own defaults, each rule's settings alone and all
//! added up, and which of them are worth keeping.
//!
//! A change is kept when the 99 % interval of its difference lies above zero (docs/lab.md, What may be concluded): from the start,
//! or from those before it where all of them are kept, for a bottleneck may hide behind another. One that loses on top of those
//! is not kept though it gains alone. What is not shown is not kept, whatever the mean says.

mod change;
mod choose;
mod effect;
mod ladder;
mod record;
mod server;

pub use change::RuleChange;
pub use choose::{Chosen, choose};
pub use effect::{Effect, Percent, effects};
pub use ladder::{Terms, plan};
pub use record::record;
pub use server::{Given, give};
