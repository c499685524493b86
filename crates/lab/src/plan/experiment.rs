//! Experiments in a plan: ladders from one tuning to another, and roles of its configurations in checked shapes.

use std::collections::BTreeMap;

use results::curves::StandsFor;
use serde::Deserialize;

/// Configurations by their role in a checked shape: `SC1` to `capped` to the name of a configuration.
pub type Roles = BTreeMap<String, BTreeMap<String, String>>;

/// The published report that a plan reproduces.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportSection {
    /// Name of the report: `TR-3557`.
    pub(crate) name: String,
    /// Cited sections and figures, one entry each.
    pub(crate) cites: Vec<String>,
    /// How this plan is smaller than the report's measurement, or differs from it.
    pub(crate) scaled: String,
}

impl From<ReportSection> for StandsFor {
    fn from(section: ReportSection) -> Self {
        Self { report: section.name, cites: section.cites, scaled: section.scaled }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::plan::{Overrides, Plan};

    #[test]
    fn every_plan_of_the_project_is_sound_and_cites_its_report() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
        let mut shapes = Vec::new();
        let mut reports = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let plan =
                Plan::read(Some(&path), &Overrides::default()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(!plan.arms.is_empty());
            shapes.extend(plan.roles.into_keys());
            if path.file_name().unwrap().to_string_lossy().starts_with("tr-") {
                let stands_for = plan.stands_for.unwrap_or_else(|| panic!("{} cites nothing", path.display()));
                assert!(!stands_for.cites.is_empty() && !stands_for.scaled.is_empty() && stands_for.report.starts_with("TR-"));
                reports += 1;
            }
        }
        assert_eq!(reports, 6);
        // SC11 is a count; every other shape has a plan.
        for number in (1..=13).filter(|number| *number != 11) {
            assert!(shapes.contains(&format!("SC{number}")), "no plan shows SC{number}");
        }
    }

    #[test]
    fn in_a_guest_the_plan_that_a_reports_plan_names_is_read_in_its_place_and_shows_no_less() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
        let guest = Overrides { in_guest: true, ..Overrides::default() };
        for name in ["tr-3495", "tr-3700"] {
            let path = folder.join(format!("{name}.toml"));
            let (outside, inside) =
                (Plan::read(Some(&path), &Overrides::default()).unwrap(), Plan::read(Some(&path), &guest).unwrap());
            assert_eq!((outside.name.as_str(), &outside.in_place), (name, &None));
            assert_eq!((inside.name, inside.in_place.is_some()), (format!("{name}-guest"), true));
            let cites = |plan: &Option<results::curves::StandsFor>| plan.as_ref().map(|stands_for| stands_for.cites.clone());
            assert_eq!(cites(&inside.stands_for), cites(&outside.stands_for));
            for shape in outside.roles.keys() {
                assert!(inside.roles.contains_key(shape), "{name}: {shape}");
            }
            for path in ["dnfs", "knfs", "iscsi", "fc"] {
                let tunings = inside.arms.iter().filter(|arm| arm.path.kind.name() == path).map(|arm| arm.tuning.as_str());
                assert!(tunings.collect::<std::collections::BTreeSet<_>>().len() >= 2, "{name}: {path} is untuned and tuned");
            }
        }
        let alone = folder.join("guest/direct-nfs.toml");
        assert_eq!(Plan::read(Some(&alone), &guest).unwrap().arms.len(), 6);
        let elsewhere = folder.join("tr-3557.toml");
        assert_eq!(Plan::read(Some(&elsewhere), &guest).unwrap().in_place, None);
    }

    #[test]
    fn arms_of_a_ladder_join_the_plans_own_and_leave_with_them() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/tr-3557.toml");
        let plan = Plan::read(Some(&path), &Overrides::default()).unwrap();
        let names: Vec<&str> = plan.arms.iter().map(|arm| arm.tuning.as_str()).collect();
        assert_eq!(names, ["default", "only-direct", "only-slots", "upto-slots", "only-database", "upto-database"]);
        let last = plan.tuning_of(plan.arms.last().unwrap()).named_knobs();
        assert_eq!((last["dnfs.writers"].as_str(), last["dnfs.slots"].as_str()), ("many", "128"));
        let paths = Some(vec!["local".to_owned()]);
        let own = Plan::read(Some(&path), &Overrides { paths, ..Overrides::default() }).unwrap();
        assert_eq!((own.arms.len(), own.ladder, own.roles.len()), (1, None, 0));
    }
}
