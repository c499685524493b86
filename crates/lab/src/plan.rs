//! What a comparison shall do: the plan file, the options over it, the order of runs and
//! how long it will take.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::error::LabError;
use crate::limits::{
    DATABASE_BASE_BYTES, REPEATS_MAX, RUN_GROWTH_BYTES, SECONDS_MAX, USERS_MAX, WAREHOUSE_BYTES, WAREHOUSES_MAX,
};
use crate::paths::StoragePath;

/// The plan carried out when none is named.
pub const DEFAULT_PLAN: &str = include_str!("../../../plans/compare.toml");

/// A plan ready to be carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Paths in the order asked for; the first is what the others are held against.
    pub paths: Vec<StoragePath>,
    /// Warehouses to load.
    pub warehouses: u32,
    /// Users without think time.
    pub users: u32,
    /// Threads of the driver.
    pub threads: u32,
    /// Seconds measured in each run.
    pub seconds: u64,
    /// Seconds dropped before.
    pub warmup_seconds: u64,
    /// First seed.
    pub seed: u64,
    /// Runs on each path.
    pub repeats: u32,
    /// Time after which no further round is started.
    pub budget: Duration,
    /// `shared_buffers` as a share of the loaded database.
    pub buffers_share: f64,
    /// Least share of the first path's OETs that `dnfs` must reach, if that is a gate.
    pub dnfs_share_min: Option<f64>,
}

/// Options of the command line that replace what the plan says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// `--paths`.
    pub paths: Option<Vec<String>>,
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
    /// `--budget`.
    pub budget: Option<String>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// `--no-gates`.
    pub no_gates: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    schema: u32,
    paths: Vec<String>,
    load: LoadSection,
    runs: RunsSection,
    database: DatabaseSection,
    #[serde(default)]
    gates: GatesSection,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadSection {
    warehouses: u32,
    users: u32,
    threads: u32,
    seconds: u64,
    warmup_seconds: u64,
    seed: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunsSection {
    repeats: u32,
    budget: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatabaseSection {
    buffers_share: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GatesSection {
    dnfs_share_of_first_min: Option<f64>,
}

impl Plan {
    /// Reads the plan file, or the built-in plan, and applies the options.
    ///
    /// # Errors
    /// [`LabError::File`] when the file can't be read, [`LabError::Plan`] when something in
    /// it or in the options makes no sense.
    pub fn read(file: Option<&Path>, overrides: &Overrides) -> Result<Self, LabError> {
        let text = match file {
            Some(path) => std::fs::read_to_string(path).map_err(LabError::file("read plan", path))?,
            None => DEFAULT_PLAN.to_owned(),
        };
        Self::parse(&text, overrides)
    }

    /// Parses a plan and applies the options.
    ///
    /// # Errors
    /// [`LabError::Plan`].
    pub fn parse(text: &str, overrides: &Overrides) -> Result<Self, LabError> {
        let file: PlanFile = toml::from_str(text).map_err(|error| LabError::Plan {
            what: format!("understand the plan: {}", error.to_string().trim_end()),
            hint: "plans/compare.toml shows every key".to_owned(),
        })?;
        if file.schema != 1 {
            return Err(wrong(format!("read a plan of schema {}", file.schema), "this version reads schema 1"));
        }
        let names = overrides.paths.clone().unwrap_or(file.paths);
        let budget = overrides.budget.clone().unwrap_or(file.runs.budget);
        let plan = Self {
            paths: names.iter().map(|name| name.trim().parse()).collect::<Result<_, _>>()?,
            warehouses: overrides.warehouses.unwrap_or(file.load.warehouses),
            users: overrides.users.unwrap_or(file.load.users),
            threads: file.load.threads,
            seconds: overrides.seconds.unwrap_or(file.load.seconds),
            warmup_seconds: overrides.warmup_seconds.unwrap_or(file.load.warmup_seconds),
            seed: overrides.seed.unwrap_or(file.load.seed),
            repeats: overrides.repeats.unwrap_or(file.runs.repeats),
            budget: parse_duration(&budget)?,
            buffers_share: file.database.buffers_share,
            dnfs_share_min: file.gates.dnfs_share_of_first_min.filter(|_| !overrides.no_gates),
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), LabError> {
        within("warehouses", u64::from(self.warehouses), 1, u64::from(WAREHOUSES_MAX))?;
        within("users", u64::from(self.users), 1, u64::from(USERS_MAX))?;
        within("driver threads", u64::from(self.threads), 1, u64::from(USERS_MAX))?;
        within("seconds", self.seconds, 1, SECONDS_MAX)?;
        within("seconds of warm-up", self.warmup_seconds, 0, SECONDS_MAX)?;
        within("repeats", u64::from(self.repeats), 1, u64::from(REPEATS_MAX))?;
        if !(0.001..=4.0).contains(&self.buffers_share) {
            let what = format!("give the buffers {} of the database", self.buffers_share);
            return Err(wrong(what, "buffers_share lies between 0.001 and 4"));
        }
        if self.paths.is_empty() {
            return Err(wrong("compare no paths".to_owned(), "name at least one with --paths"));
        }
        let mut seen = self.paths.clone();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() != self.paths.len() {
            return Err(wrong("compare a path with itself".to_owned(), "name each path once"));
        }
        Ok(())
    }

    /// Bytes of the loaded database, estimated.
    #[must_use]
    pub fn database_bytes(&self) -> u64 {
        DATABASE_BASE_BYTES + u64::from(self.warehouses) * WAREHOUSE_BYTES
    }

    /// Bytes that must be free: the kept state, one copy of it, growth of a run and a tenth.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        (2 * self.database_bytes() + RUN_GROWTH_BYTES) / 10 * 11
    }

    /// `shared_buffers` for a database of `database_bytes`.
    #[must_use]
    pub fn buffers_bytes(&self, database_bytes: u64) -> u64 {
        let share = database_bytes as f64 * self.buffers_share;
        // Whole MiB, so that the setting reads well.
        ((share as u64) >> 20 << 20).max(crate::limits::BUFFERS_BYTES_MIN)
    }
}

/// The order of runs: every round runs each path once, every second round backwards
/// (A B, B A, …), so that a drift of the host does not become a difference of paths.
#[must_use]
pub fn interleave(paths: &[StoragePath], repeats: u32) -> Vec<(u32, StoragePath)> {
    let mut order = Vec::new();
    for round in 1..=repeats {
        let mut turn = paths.to_vec();
        if round % 2 == 0 {
            turn.reverse();
        }
        order.extend(turn.into_iter().map(|path| (round, path)));
    }
    order
}

/// How long things take: guesses at first, what was measured later.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Making and loading the database.
    pub load: Duration,
    /// One run with everything around it.
    pub run: Duration,
}

impl Estimate {
    /// First guess for a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let warehouses = f64::from(plan.warehouses);
        let copy_s = plan.database_bytes() as f64 / 250e6;
        Self {
            load: Duration::from_secs_f64(6.0 + 3.0 * warehouses),
            run: Duration::from_secs_f64(8.0 + copy_s + 0.5 * warehouses + (plan.seconds + plan.warmup_seconds) as f64),
        }
    }

    /// Whole comparison of `runs` runs.
    #[must_use]
    pub fn whole(&self, runs: usize) -> Duration {
        self.load + self.run * u32::try_from(runs).unwrap_or(u32::MAX)
    }
}

/// `90`, `90s`, `12m` or `1h`.
///
/// # Errors
/// [`LabError::Plan`] for anything else.
pub fn parse_duration(text: &str) -> Result<Duration, LabError> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit {
        "" | "s" => Some(1),
        "m" | "min" => Some(60),
        "h" => Some(3600),
        _ => None,
    };
    let seconds = factor.and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
    seconds
        .filter(|seconds| (1..=7 * SECONDS_MAX).contains(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| wrong(format!("understand \"{text}\" as a time"), "write a number and s, m or h: 12m"))
}

fn within(what: &str, value: u64, least: u64, most: u64) -> Result<(), LabError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(wrong(format!("use {value} {what}"), &format!("{what} lie between {least} and {most}")))
}

fn wrong(what: String, hint: &str) -> LabError {
    LabError::Plan { what, hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StoragePath::{Dnfs, Local};

    fn default_plan() -> Plan {
        Plan::parse(DEFAULT_PLAN, &Overrides::default()).unwrap()
    }

    #[test]
    fn built_in_plan_is_sound_and_ends_within_its_budget() {
        let plan = default_plan();
        assert_eq!(plan.paths[..2], [Local, Dnfs]);
        assert!(plan.budget <= Duration::from_secs(600));
        let measured = plan.paths.iter().filter(|path| path.not_built().is_none()).count();
        let whole = Estimate::of(&plan).whole(measured * plan.repeats as usize);
        assert!(whole <= plan.budget, "{whole:?}");
        assert!((plan.buffers_share - 0.25).abs() < 1e-9);
    }

    #[test]
    fn options_replace_what_the_plan_says() {
        let overrides = Overrides {
            paths: Some(vec!["dnfs".into()]),
            warehouses: Some(2),
            seconds: Some(5),
            repeats: Some(1),
            budget: Some("90s".into()),
            no_gates: true,
            ..Overrides::default()
        };
        let plan = Plan::parse(DEFAULT_PLAN, &overrides).unwrap();
        assert_eq!((plan.paths.as_slice(), plan.warehouses, plan.seconds), (&[Dnfs][..], 2, 5));
        assert_eq!((plan.repeats, plan.budget, plan.dnfs_share_min), (1, Duration::from_secs(90), None));
        assert_eq!(plan.users, default_plan().users);
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        let cases = [
            Overrides { warehouses: Some(0), ..Overrides::default() },
            Overrides { users: Some(0), ..Overrides::default() },
            Overrides { repeats: Some(51), ..Overrides::default() },
            Overrides { paths: Some(vec![]), ..Overrides::default() },
            Overrides { paths: Some(vec!["local".into(), "local".into()]), ..Overrides::default() },
            Overrides { paths: Some(vec!["nvme".into()]), ..Overrides::default() },
            Overrides { budget: Some("soon".into()), ..Overrides::default() },
        ];
        for overrides in cases {
            let error = Plan::parse(DEFAULT_PLAN, &overrides).unwrap_err();
            assert!(error.hint().is_some(), "{overrides:?}");
        }
    }

    #[test]
    fn unknown_key_is_named() {
        let text = DEFAULT_PLAN.replace("warehouses =", "warehouse =");
        let error = Plan::parse(&text, &Overrides::default()).unwrap_err();
        assert!(error.to_string().contains("unknown field `warehouse`"), "{error}");
    }

    #[test]
    fn runs_alternate_so_that_drift_cancels() {
        let order = interleave(&[Local, Dnfs], 3);
        let names: Vec<_> = order.iter().map(|(_, path)| *path).collect();
        assert_eq!(names, [Local, Dnfs, Dnfs, Local, Local, Dnfs]);
        assert_eq!(order[3].0, 2);
    }

    #[test]
    fn times_are_read_with_their_units() {
        assert_eq!(parse_duration("12m").unwrap(), Duration::from_secs(720));
        assert_eq!(parse_duration("90").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_duration("1h").unwrap(), Duration::from_secs(3600));
        assert!(parse_duration("99999999999999999999m").is_err());
        assert!(parse_duration("0s").is_err());
    }

    #[test]
    fn buffers_are_whole_mebibytes_and_never_tiny() {
        let plan = default_plan();
        assert_eq!(plan.buffers_bytes(1 << 30), 256 << 20);
        assert_eq!(plan.buffers_bytes(1 << 20), 16 << 20);
    }
}
