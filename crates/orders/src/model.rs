//! Where transactions come from: the load models.

use crate::limits::DUE_QUEUE_DEFAULT;
use crate::open::{Arrivals, Rate};
use crate::pacing::TERMINALS_PER_WAREHOUSE;

/// When a transaction is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadModel {
    /// Each user sends its next transaction when the last one ended. A stall stops arrivals:
    /// throughput is right, the tail is what users in the loop saw.
    Closed,
    /// Users key and think as the specification says; the response clock starts when the keying
    /// ends, whether or not a session is free.
    Paced {
        /// What keying and think times are multiplied by; 1 is the specification's.
        time_scale: f64,
    },
    /// Transactions become due at a rate, whatever the database does; the response clock starts
    /// there.
    Open {
        /// Transactions of all kinds per second.
        rate: Rate,
        /// How they follow each other.
        arrivals: Arrivals,
        /// Due transactions that can wait for a session; what comes on top is refused and counted.
        queue_limit: u32,
    },
}

impl LoadModel {
    /// An open load with the usual queue.
    #[must_use]
    pub const fn open(rate: Rate, arrivals: Arrivals) -> Self {
        Self::Open { rate, arrivals, queue_limit: DUE_QUEUE_DEFAULT }
    }

    /// The part of it that `part` of `whole` users make, when several drivers share a run.
    #[must_use]
    pub fn share(self, part: u32, whole: u32) -> Self {
        match self {
            Self::Open { rate, arrivals, queue_limit } => Self::Open { rate: rate.share(part, whole), arrivals, queue_limit },
            Self::Closed | Self::Paced { .. } => self,
        }
    }

    /// Name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Paced { .. } => "paced",
            Self::Open { arrivals: Arrivals::Constant, .. } => "open-constant",
            Self::Open { arrivals: Arrivals::Poisson, .. } => "open-poisson",
        }
    }

    /// Sessions that are enough for so many users where nothing is said: one each in a closed loop
    /// and for the workers of an open load; one for a hundred paced terminals, which are idle for 20 s
    /// between two transactions, at least 4 and at most 64.
    #[must_use]
    pub const fn connections_for(self, users: u32) -> u32 {
        match self {
            Self::Closed | Self::Open { .. } => users,
            Self::Paced { .. } => {
                let share = users.div_ceil(100);
                let bounded = if share < 4 {
                    4
                } else if share > 64 {
                    64
                } else {
                    share
                };
                if bounded < users { bounded } else { users }
            }
        }
    }

    /// Where terminals stand when nothing is said.
    #[must_use]
    pub const fn usual_terminals(self) -> Terminals {
        match self {
            Self::Paced { .. } => Terminals::HomeWarehouse,
            Self::Closed | Self::Open { .. } => Terminals::AllWarehouses,
        }
    }
}

/// How a terminal chooses its warehouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminals {
    /// One per transaction, uniformly: a few users touch the whole database.
    AllWarehouses,
    /// Always its own; ten terminals share one.
    HomeWarehouse,
}

impl Terminals {
    /// Name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllWarehouses => "all-warehouses",
            Self::HomeWarehouse => "home-warehouse",
        }
    }

    /// Terminals that these warehouses have in the specification.
    #[must_use]
    pub const fn of_warehouses(warehouses: u32) -> u32 {
        warehouses.saturating_mul(TERMINALS_PER_WAREHOUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_paced_terminals_need_few_sessions_and_closed_users_one_each() {
        let paced = LoadModel::Paced { time_scale: 1.0 };
        let connections = [1, 3, 100, 1_000, 10_000, 1_000_000].map(|users| paced.connections_for(users));
        assert_eq!(connections, [1, 3, 4, 10, 64, 64]);
        assert_eq!(LoadModel::Closed.connections_for(200), 200);
    }
}
