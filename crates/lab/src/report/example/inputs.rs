//! Inputs of the example: its size, its configurations by their main figures, seeded random numbers.

/// Size of the example.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) seconds: u64,
    pub(crate) repeats: u32,
    /// Whether there are two facets, without and with a medium; otherwise one.
    pub(crate) media: bool,
}

/// One arm of the example, by its leading figures.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) path: &'static str,
    pub(super) tuning: &'static str,
    pub(super) orders_per_s: f64,
    pub(super) read_us: f64,
    pub(super) cpu_ms: f64,
}

pub(super) const KINDS: [Kind; 4] = [
    Kind { path: "local", tuning: "untuned", orders_per_s: 820.0, read_us: 96.0, cpu_ms: 1.62 },
    Kind { path: "local", tuning: "tuned", orders_per_s: 1_004.0, read_us: 90.0, cpu_ms: 1.51 },
    Kind { path: "dnfs", tuning: "untuned", orders_per_s: 604.0, read_us: 291.0, cpu_ms: 2.44 },
    Kind { path: "dnfs", tuning: "tuned", orders_per_s: 871.0, read_us: 204.0, cpu_ms: 1.98 },
];
