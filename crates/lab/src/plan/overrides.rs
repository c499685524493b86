//! Options of the command line that override the plan.

use std::time::Duration;

/// Options of the command line that override the plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// `--database`.
    pub database: Option<String>,
    /// `--paths` and `--path`.
    pub paths: Option<Vec<String>>,
    /// `--tuning`.
    pub tunings: Option<Vec<String>>,
    /// `--layout`.
    pub layouts: Option<Vec<String>>,
    /// `--medium`.
    pub media: Option<Vec<String>>,
    /// `--load`.
    pub loads: Option<Vec<String>>,
    /// `--warehouses`.
    pub warehouses: Option<u32>,
    /// `--users`.
    pub users: Option<u32>,
    /// `--seconds`.
    pub seconds: Option<u64>,
    /// `--warmup`.
    pub warmup_seconds: Option<u64>,
    /// `--repeats`.
    pub repeats: Option<u32>,
    /// `--page-cache`, MiB.
    pub page_cache_mib: Option<u64>,
    /// `--budget`.
    pub budget: Option<Duration>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// `--keep-awake`.
    pub keep_awake: bool,
    /// `--no-gates`.
    pub no_gates: bool,
    /// `--quick`: small and short, except for what other options request; no gates.
    pub quick: bool,
    /// `--full`: every scenario of the plan, with all repeats.
    pub full: bool,
    /// Whether this is a guest: then the plan that the file names for guests is read instead.
    pub in_guest: bool,
}

impl Overrides {
    /// The values of `--quick`, except for what other options request.
    pub(super) fn with_quick(&self) -> Self {
        if !self.quick {
            return self.clone();
        }
        Self {
            warehouses: self.warehouses.or(Some(2)),
            seconds: self.seconds.or(Some(5)),
            warmup_seconds: self.warmup_seconds.or(Some(2)),
            repeats: self.repeats.or(Some(1)),
            no_gates: true,
            ..self.clone()
        }
    }
}
