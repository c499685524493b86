//! Measures the effect of the tuner's rules on the order load: a ladder from a database's own defaults, each rule's settings alone
//! and all accumulated, and which of them are worth keeping.
//!
//! A change is kept if the 99 % interval of its difference is above zero (docs/lab.md, What may be concluded): compared with the
//! start, or with the changes before it if all of them are kept, because one bottleneck may hide another. A change that loses
//! when added to those is not kept, even if it gains alone. A change without a shown gain is not kept, whatever its mean.

mod change;
mod choose;
mod effect;
mod ladder;
mod record;
mod server;
mod target;

pub use change::RuleChange;
pub use choose::{Chosen, choose};
pub use effect::{Effect, Percent, effects};
pub use ladder::{Terms, plan};
pub use record::record;
pub use server::{Given, give};
