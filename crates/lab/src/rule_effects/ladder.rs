//! The plan of a measurement: a ladder from a database's own defaults, with each change alone and accumulated.

use std::fmt::Write as _;
use std::time::Duration;

use tune::change::SettingChange;

use super::change::RuleChange;
use super::target;
use crate::error::LabError;
use crate::limits::LADDER_STEPS_MAX;
use crate::plan::{Overrides, Plan};

/// Name of the ladder's first tuning.
const START: &str = "defaults";

/// Parameters of the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Path, as for `--path`.
    pub path: String,
    /// Medium to model below it; `None` for no modelled medium.
    pub medium: Option<String>,
    /// Warehouses to load.
    pub warehouses: u32,
    /// Users.
    pub users: u32,
    /// Seconds measured in each run.
    pub seconds: u64,
    /// Seconds of warm-up before the measurement.
    pub warmup_seconds: u64,
    /// Runs of each rung, interleaved.
    pub repeats: u32,
    /// Time after which no further round starts.
    pub budget: Duration,
    /// First seed of the driver.
    pub seed: u64,
    /// Whether to keep this host's processors from sleeping during runs.
    pub keep_awake: bool,
}

/// The plan that measures changes one by one and accumulated.
///
/// # Errors
/// [`LabError::Plan`] for no changes, too many, two with the same name, an invalid name, or parameters out of range.
pub fn plan(changes: &[RuleChange], terms: &Terms) -> Result<Plan, LabError> {
    if changes.is_empty() || changes.len() > LADDER_STEPS_MAX {
        let what = format!("measure {} changes", changes.len());
        return Err(LabError::plan(what, &format!("name 1 to {LADDER_STEPS_MAX} rules that change settings of the database")));
    }
    let target = target::of_rules()?;
    Plan::parse(
        &text(changes, terms, target.settings.defaults),
        &Overrides { no_gates: true, keep_awake: terms.keep_awake, ..Overrides::default() },
    )
}

fn text(changes: &[RuleChange], terms: &Terms, defaults: &[(&str, &str)]) -> String {
    let mut text = String::from("schema = 1\n");
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    if let Some(medium) = &terms.medium {
        let _ = writeln!(text, "media = [{}]", quoted(medium));
    }
    let setting = |text: &mut String, name: &str, value: &str| {
        let _ = writeln!(text, "{} = {}", quoted(name), quoted(value));
    };
    let _ = writeln!(text, "[tuning.{START}.database]");
    for (name, value) in defaults {
        setting(&mut text, name, value);
    }
    let _ = writeln!(text, "[ladder]\npath = {}\nstart = \"{START}\"", quoted(&terms.path));
    for change in changes {
        let _ = writeln!(text, "[[ladder.step]]\nname = {}\n[ladder.step.database]", quoted(&change.rule));
        for SettingChange { key, to, .. } in &change.settings {
            setting(&mut text, key, to);
        }
    }
    let Terms { warehouses, users, seconds, warmup_seconds, seed, repeats, budget, .. } = terms;
    let _ = writeln!(
        text,
        "[load]\nwarehouses = {warehouses}\nusers = {users}\nthreads = 2\nseconds = {seconds}\nwarmup_seconds = {warmup_seconds}\n\
         seed = {seed}\n[runs]\nrepeats = {repeats}\nbudget = \"{}s\"\n[database]\nbuffers_share = 0.25",
        budget.as_secs()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(rule: &str, settings: &[(&str, &str)]) -> RuleChange {
        RuleChange::of_postgres(rule, settings)
    }

    fn changes() -> Vec<RuleChange> {
        vec![
            change("postgres-shared-buffers", &[("shared_buffers", "4GB")]),
            change("postgres-checkpoints", &[("max_wal_size", "16GB"), ("checkpoint_timeout", "15min")]),
        ]
    }

    fn terms() -> Terms {
        Terms {
            path: "dnfs".to_owned(),
            medium: None,
            warehouses: 4,
            users: 8,
            seconds: 30,
            warmup_seconds: 10,
            repeats: 3,
            budget: Duration::from_secs(1_800),
            seed: 1,
            keep_awake: false,
        }
    }

    #[test]
    fn each_change_stands_alone_and_added_up_on_a_databases_own_defaults() {
        let plan = plan(&changes(), &terms()).unwrap();
        let names: Vec<&str> = plan.arms.iter().map(|arm| arm.tuning.as_str()).collect();
        assert_eq!(names, ["defaults", "only-postgres-shared-buffers", "only-postgres-checkpoints", "upto-postgres-checkpoints"]);
        let knobs = |place: usize| plan.tuning_of(&plan.arms[place]).named_knobs();
        assert_eq!((knobs(0)["database.shared_buffers"].as_str(), knobs(0)["database.max_wal_size"].as_str()), ("128MB", "1GB"));
        assert_eq!((knobs(2)["database.shared_buffers"].as_str(), knobs(2)["database.max_wal_size"].as_str()), ("128MB", "16GB"));
        assert_eq!(
            (knobs(3)["database.shared_buffers"].as_str(), knobs(3)["database.checkpoint_timeout"].as_str()),
            ("4GB", "15min")
        );
        assert!(plan.share_gates.is_empty() && plan.ladder.is_some());
    }

    #[test]
    fn nothing_to_measure_and_values_that_would_break_the_plan_are_no_plan() {
        assert!(super::plan(&[], &terms()).unwrap_err().hint().is_some());
        let twice = [changes()[0].clone(), changes()[0].clone()];
        assert!(super::plan(&twice, &terms()).is_err());
        let odd = change("a", &[("log_line_prefix", "\"]\n[runs]\nrepeats = 9")]);
        assert!(
            super::plan(&[odd], &terms()).unwrap_err().to_string().contains("log_line_prefix"),
            "it stays one value, and is refused"
        );
    }
}
