//! The load models: closed, paced and open.

use crate::limits::DUE_QUEUE_DEFAULT;
use crate::open::{Arrivals, Rate};
use crate::pacing::TERMINALS_PER_WAREHOUSE;

/// When transactions are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadModel {
    /// Each user sends its next transaction when the last one has ended. A stall stops arrivals, so the
    /// throughput is right, but the highest response times are only those that the users in the loop saw.
    Closed,
    /// Users key and think as the specification requires. The response time is measured from the end of the
    /// keying, whether or not a session is free.
    Paced {
        /// Factor for keying and think times; 1 is the specification's.
        time_scale: f64,
    },
    /// Transactions become due at a rate that does not depend on the database. The response time is measured from
    /// the time at which they are due.
    Open {
        /// Transactions of all kinds per second.
        rate: Rate,
        /// How they follow each other.
        arrivals: Arrivals,
        /// Due transactions that can wait for a session; further ones are refused and counted.
        queue_limit: u32,
    },
}

impl LoadModel {
    /// An open load with the default queue.
    #[must_use]
    pub const fn open(rate: Rate, arrivals: Arrivals) -> Self {
        Self::Open { rate, arrivals, queue_limit: DUE_QUEUE_DEFAULT }
    }

    /// The load of `part` of `whole` users, if several drivers share a run.
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

    /// Default number of sessions for this number of users: one each in a closed loop
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

    /// Default terminals of this model.
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
    /// A new one for each transaction, drawn uniformly: a few users touch the complete database.
    AllWarehouses,
    /// Always its home warehouse; ten terminals share one.
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

    /// The specification's number of terminals for these warehouses.
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
