//! Conditions that must be the same for two figures to be compared, and those that may change and are then reported.

use std::collections::BTreeMap;

use results::compare::{Comparison, PathResult};
use results::environment::Environment;

use crate::database::kind::title_of;
use crate::paths;

/// Allowed difference of the buffers' share of the database: both are rounded to complete files and mebibytes.
const BUFFERS_SHARE_TOLERANCE: f64 = 0.05;

/// Conditions of a series: figures under different conditions are never compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Conditions {
    /// Values by name, as text.
    pub(crate) named: BTreeMap<String, String>,
    /// Size of the buffers divided by that of the database; `None` if the record does not contain it.
    buffers_share: Option<f64>,
}

impl Conditions {
    pub(crate) fn of(comparison: &Comparison, path: &PathResult) -> Self {
        let (plan, place) = (&comparison.plan, &comparison.environment);
        let load = path.load_level.clone().unwrap_or_else(|| format!("users={}", plan.users));
        let facts = [
            ("path", path.name.clone()),
            ("label", path.label.clone().unwrap_or_default()),
            // Records of older versions contain no client; theirs is left out of the records of all versions.
            ("client", path.client.clone().filter(|client| client != paths::unnamed_client(path)).unwrap_or_default()),
            ("target", path.target.clone().unwrap_or_default()),
            ("tuning", path.tuning.clone()),
            ("layout", path.layout_name.clone().unwrap_or_default()),
            ("medium", path.medium.clone().unwrap_or_default()),
            ("page cache", path.caching_class.as_ref().map(|class| class.as_str().to_owned()).unwrap_or_default()),
            ("load", load),
            ("driver threads", plan.driver_threads.to_string()),
            ("warehouses", plan.warehouses.to_string()),
            ("run", format!("{} s after {} s", plan.seconds, plan.warmup_seconds)),
            ("database", title_of(&plan.database).to_owned()),
            ("host", host(place)),
            ("guest", place.guest.clone().unwrap_or_default()),
            ("store", place.store.file_system.clone()),
        ];
        let named =
            facts.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value)).collect();
        let share = plan.buffers_bytes as f64 / plan.database_bytes as f64;
        Self { named, buffers_share: (share.is_finite() && share > 0.0).then_some(share) }
    }

    /// Whether figures under both conditions may be compared.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.named == other.named
            && match (self.buffers_share, other.buffers_share) {
                (Some(one), Some(two)) => (one / two - 1.0).abs() <= BUFFERS_SHARE_TOLERANCE,
                (one, two) => one.is_none() && two.is_none(),
            }
    }

    /// All conditions for display.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let mut all = self.named.clone();
        if let Some(share) = self.buffers_share {
            all.insert("buffers".to_owned(), format!("{share:.2} of the database"));
        }
        all
    }

    /// Differences between the two: `medium: nvme instead of fc15k`.
    pub(crate) fn differs_from(&self, other: &Self) -> Vec<String> {
        let (here, there) = (self.all(), other.all());
        let mut names: Vec<&String> = here.keys().chain(there.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let value = |facts: &BTreeMap<String, String>, name: &str| facts.get(name).cloned().unwrap_or_else(|| "none".to_owned());
        let different = names.into_iter().filter(|name| here.get(*name) != there.get(*name));
        different.map(|name| format!("{name}: {} instead of {}", value(&here, name), value(&there, name))).collect()
    }
}

/// The machine, without its name: records contain no names.
fn host(place: &Environment) -> String {
    let whole = (place.memory_bytes as f64 / f64::from(1 << 30)).round();
    let virtual_one = place.virtualization.as_ref().map_or_else(String::new, |kind| format!(", {kind}"));
    format!("{}, {} processors {}, {whole} GiB{virtual_one}", place.architecture, place.cpu_count, place.cpu_model)
}

/// Facts that may change within a series; a change is reported beside the figures.
pub(crate) fn changeable(comparison: &Comparison, path: &PathResult) -> BTreeMap<String, String> {
    let place = &comparison.environment;
    let mut facts = BTreeMap::from([
        ("kernel".to_owned(), place.kernel.clone()),
        ("system".to_owned(), place.os.clone()),
        ("database version".to_owned(), place.database_version.clone()),
        ("device".to_owned(), place.store.device.clone()),
        ("users".to_owned(), path.users.map(|users| users.to_string()).unwrap_or_default()),
    ]);
    let knobs = comparison.tunings.get(&path.tuning).into_iter().flatten();
    facts.extend(knobs.map(|(knob, value)| (knob.clone(), value.clone())));
    facts.retain(|_, value| !value.is_empty());
    facts
}

/// `kernel: 6.1.0 -> 6.1.2`, for each fact that differs.
pub(crate) fn changes(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let mut names: Vec<&String> = before.keys().chain(now.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let value = |facts: &BTreeMap<String, String>, name: &str| facts.get(name).cloned().unwrap_or_else(|| "-".to_owned());
    let changed = names.into_iter().filter(|name| before.get(*name) != now.get(*name));
    changed.map(|name| format!("{name}: {} -> {}", value(before, name), value(now, name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::seeded;

    #[test]
    fn seeds_repeats_and_kernels_may_differ_and_load_medium_and_host_may_not() {
        let of = |change: fn(&mut Comparison)| {
            let mut record = seeded::record(1, &seeded::Level::default());
            record.paths[0].name = "iscsi".into();
            change(&mut record);
            Conditions::of(&record, &record.paths[0])
        };
        let first = of(|_| {});
        let same: [fn(&mut Comparison); 5] = [
            |record| record.paths[0].client = Some("millrace".into()),
            |record| record.plan.seed = 77,
            |record| record.plan.repeats = 9,
            |record| record.environment.kernel = "7.0".into(),
            |record| record.plan.buffers_bytes += record.plan.buffers_bytes / 50,
        ];
        assert!(same.into_iter().all(|change| first.is_same(&of(change))));
        let other: [fn(&mut Comparison); 8] = [
            |record| record.paths[0].client = Some("open-iscsi".into()),
            |record| record.plan.warehouses = 9,
            |record| record.plan.seconds = 5,
            |record| record.paths[0].load_level = Some("users=9".into()),
            |record| record.paths[0].medium = Some("fc15k".into()),
            |record| record.environment.cpu_count = 64,
            |record| record.environment.guest = Some(crate::guest::run::EMULATED.into()),
            |record| record.plan.buffers_bytes *= 2,
        ];
        for (place, change) in other.into_iter().enumerate() {
            assert!(!first.is_same(&of(change)), "change {place}");
            assert_eq!(of(change).differs_from(&first).len(), 1, "change {place}");
        }
    }
}
