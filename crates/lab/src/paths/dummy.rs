//! A path of tests: what a new path needs, and no more. Its files are directories of this host; it has one setting.

use crate::error::LabError;
use crate::paths::kernel_files::KernelFiles;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::paths::storage_path::{Asked, StoragePath, WhyNot};
use crate::placement::directories::Directories;
use crate::plan::Knobs;

/// The path.
pub(crate) struct Dummy;

impl StoragePath for Dummy {
    fn name(&self) -> &'static str {
        "dummy"
    }

    fn title(&self) -> &'static str {
        "Dummy Path"
    }

    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot> {
        asked.tuning.of(self.name()).contains_key("absent").then(|| WhyNot::Lacks("the dummy is absent".to_owned()))
    }

    fn has_settings(&self) -> bool {
        true
    }

    fn check_settings(&self, settings: &Knobs, tuning: &str) -> Result<(), LabError> {
        match settings.keys().find(|name| *name != "absent") {
            Some(name) => Err(LabError::plan(format!("use {name} in tuning.{tuning}.dummy"), "the knob of dummy is absent")),
            None => Ok(()),
        }
    }

    fn prepare(&self, order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        let directories = Directories::within(order.work, "dummy", order.parts, order.user)?;
        Ok((Box::new(KernelFiles { directories }), Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::compare::{Request, dry_run};
    use crate::plan::{DEFAULT_PLAN, Overrides, Plan};

    fn plan(section: &str) -> Result<Plan, LabError> {
        let overrides = Overrides {
            database: Some("dummydb".to_owned()),
            paths: Some(vec!["local".to_owned(), "dummy:a".to_owned()]),
            tunings: Some(vec!["untuned".to_owned(), "special".to_owned()]),
            warehouses: Some(1),
            quick: true,
            ..Overrides::default()
        };
        Plan::parse(&format!("{DEFAULT_PLAN}\n[tuning.special.{section}"), &overrides)
    }

    /// Only `paths.rs` and `database.rs` know the two: `grep -rn dummy crates/lab/src`.
    #[test]
    fn a_new_path_and_a_new_database_take_part_in_a_comparison() {
        let base = tempfile::tempdir().unwrap();
        let request = Request {
            plan: plan("dummy]\nabsent = true").unwrap(),
            work_base: base.path().to_owned(),
            out: base.path().join("out"),
            resume: false,
            resumable: false,
            keep: false,
            pg_bin: None,
            overwrite_devices: false,
            program: PathBuf::from("/bin/true"), // takes any options,
            version: "1".to_owned(),
            commit: None,
            baseline: None,
            last: None,
            metrics: None,
        };
        let text = dry_run(&request).unwrap();
        assert!(text.starts_with("database   DummyDB 1.0 from /opt/dummydb, as user "), "{text}");
        assert!(text.contains("\npaths      local, dummy:a; tuning: untuned, special;"), "{text}");
        assert!(text.contains("\nskipped    dummy:a special: the dummy is absent\n"), "{text}");
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0, "a dry run creates nothing");
    }

    #[test]
    fn settings_of_a_new_path_are_a_layer_and_unknown_ones_are_refused_by_the_path() {
        let error = plan("dummy]\nslots = 1").unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.hint()),
            ("use slots in tuning.special.dummy", Some("the knob of dummy is absent"))
        );
        assert!(plan("dumy]\nslots = 1").unwrap_err().to_string().contains("unknown field `dumy`"));
    }

    #[test]
    fn what_a_new_database_lacks_is_refused_with_the_databases_that_have_it() {
        let overrides =
            Overrides { database: Some("dummydb".into()), layouts: Some(vec!["filers=2".into()]), ..Overrides::default() };
        let error = Plan::parse(DEFAULT_PLAN, &overrides).unwrap_err();
        assert_eq!(error.to_string(), "use the layout filers=2 with DummyDB");
        assert_eq!(error.hint(), Some("only with PostgreSQL: --database postgresql"));
    }
}
