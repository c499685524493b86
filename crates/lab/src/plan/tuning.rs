//! Settings of a comparison by layer, and their names. Layers, their checks and the built-in tunings are in [`super::layers`].

use std::collections::BTreeMap;

use crate::plan::knob::{Knob, Knobs};

/// Layer of the database: settings in addition to those of every configuration.
pub const DATABASE: &str = "database";
/// Layer of this host's kernel during a run, on every path: `read_ahead_kb`, buffers and queues of TCP by their names in sysctl(8).
pub const KERNEL: &str = "kernel";
/// Layer of Millrace's filers: options of `millrace serve` without their dashes; `true` is an option without a value.
pub const FILER: &str = "filer";
/// Layer of the load: options of `millrace orders run` without their dashes; `true` is an option without a value.
pub const ORDERS: &str = "orders";

/// The tuning of every configuration without another one: nothing is changed.
pub const UNTUNED: &str = "untuned";
/// Recommended settings of the database and of the clients, for any storage. Settings that make checkpoints rarer are not included,
/// because each run must contain one.
pub const TUNED: &str = "tuned";

/// Settings of one tuning by layer. The layers are those above, and one for each path that has settings, with the path's name.
/// Values have the form of the layer's own option.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tuning {
    layers: BTreeMap<String, Knobs>,
}

impl Tuning {
    /// The settings of a layer; empty if the tuning has none.
    #[must_use]
    pub fn of(&self, layer: &str) -> &Knobs {
        static NONE: Knobs = Knobs::new();
        self.layers.get(layer).unwrap_or(&NONE)
    }

    /// This tuning with other settings of a layer.
    #[must_use]
    pub(crate) fn with(mut self, layer: &str, knobs: Knobs) -> Self {
        if knobs.is_empty() {
            self.layers.remove(layer);
        } else {
            self.layers.insert(layer.to_owned(), knobs);
        }
        self
    }

    /// Every knob as `layer.name` with its value.
    #[must_use]
    pub fn named_knobs(&self) -> BTreeMap<String, String> {
        let named = |(layer, knobs): (&String, &Knobs)| {
            knobs.iter().map(|(name, value)| (format!("{layer}.{name}"), value.to_string())).collect::<Vec<_>>()
        };
        self.layers.iter().flat_map(named).collect()
    }

    /// The settings of this tuning, which take precedence over those of `under`.
    #[must_use]
    pub(crate) fn over(&self, under: &Self) -> Self {
        let mut both = under.clone();
        for (layer, knobs) in &self.layers {
            let all = both.layers.entry(layer.clone()).or_default();
            all.extend(knobs.iter().map(|(name, value): (&String, &Knob)| (name.clone(), value.clone())));
        }
        both
    }
}
