//! Processor time, by owner.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Processor time in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub sys_s: f64,
}

impl CpuTime {
    /// User and kernel time together.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.user_s + self.sys_s
    }
}

/// Processor time of a path over all measured intervals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// User time of every owner.
    pub user_s: f64,
    /// Kernel time of every owner.
    pub sys_s: f64,
    /// Both, per 1,000 orders.
    pub s_per_1000_orders: f64,
    /// The same without the filer: the time of the database's host, including the driver. Absent in records of older versions.
    #[serde(default)]
    pub s_per_1000_orders_without_filer: Option<f64>,
    /// `database` (with the Direct NFS client inside it), `filer`, `driver`.
    pub by_owner: BTreeMap<String, OwnerCpu>,
    /// Busy share of the host's processors, by all processes, 0 to 1.
    pub host_busy_share: f64,
    /// Share used by processes that this comparison did not start, 0 to 1.
    pub others_busy_share: f64,
    /// Share of the requested processor time of this host that the hypervisor gave to other machines (steal time
    /// in proc(5)), 0 to 1.
    #[serde(default)]
    pub stolen_share: f64,
    /// Seconds that the host's processors spent in soft interrupts (mostly network), for all processes. The kernel may
    /// charge part of it to the interrupted process, so it is not added to the owners.
    #[serde(default)]
    pub softirq_s: f64,
    /// The same per 1,000 orders.
    #[serde(default)]
    pub softirq_s_per_1000_orders: f64,
}

impl Cpu {
    /// Share of the host's processors that was not available to this comparison: other processes here, and steal time, 0 to 1.
    #[must_use]
    pub fn foreign_share(&self) -> f64 {
        (self.others_busy_share + self.stolen_share * self.host_busy_share).min(1.0)
    }

    /// Seconds per 1,000 orders of every owner except the filer, computed from the owners, so it
    /// also works for records without the field.
    #[must_use]
    pub fn without_filer_s_per_1000_orders(&self) -> f64 {
        self.by_owner.iter().filter(|(owner, _)| *owner != "filer").fold(0.0, |sum, (_, time)| sum + time.s_per_1000_orders)
    }

    /// Seconds per 1,000 orders of the processes on the database's host: the database with the client inside it, and
    /// other clients, without the filer and the load driver.
    #[must_use]
    pub fn database_host_s_per_1000_orders(&self) -> f64 {
        let others = |owner: &str| owner == "filer" || owner == "driver";
        self.by_owner.iter().filter(|(owner, _)| !others(owner)).map(|(_, time)| time.s_per_1000_orders).sum()
    }
}

/// Processor time of one owner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnerCpu {
    /// User time in seconds.
    pub user_s: f64,
    /// Kernel time in seconds.
    pub sys_s: f64,
    /// Both, per 1,000 orders.
    pub s_per_1000_orders: f64,
}
