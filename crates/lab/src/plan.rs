//! The plan of a comparison: the plan file, the options that override it, and the resulting configurations (`[[arm]]`).

mod arm;
mod bounds;
mod experiment;
mod file;
mod gate;
mod kernel_settings;
mod knob;
pub(crate) mod ladder;
mod layers;
mod layout;
mod load;
mod order;
mod overrides;
mod regime;
mod tuning;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use results::curves::StandsFor;

use crate::database::kind::DatabaseKind;
use crate::error::LabError;
use crate::limits::{
    ARMS_MAX, DATABASE_BASE_BYTES, PAGE_CACHE_MIB_MAX, REPEATS_MAX, RUN_GROWTH_BYTES, SECONDS_MAX, USERS_MAX, WAREHOUSE_BYTES,
    WAREHOUSES_MAX,
};

pub use arm::{Arm, PathSpec};
use bounds::within;
pub use experiment::Roles;
use file::{PlanFile, arms_of};
pub use gate::ShareGate;
pub(crate) use kernel_settings::KernelSettings;
pub use knob::{Knob, Knobs};
pub use ladder::{Ladder, Rung, Step};
pub use layout::Layout;
pub use load::{Level, Load};
pub use order::{Estimate, interleave};
pub use overrides::Overrides;
pub use regime::{HOST, Regime};
pub use tuning::{DATABASE, FILER, KERNEL, ORDERS, TUNED, Tuning, UNTUNED};

/// The default plan.
pub const DEFAULT_PLAN: &str = include_str!("../../../plans/compare.toml");

/// Its name.
const DEFAULT_NAME: &str = "compare";

/// A plan that is ready to be carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// File name of the plan without directory and extension, `compare` for the built-in one.
    pub name: String,
    /// The file that was read instead of the requested one, because this host is a guest.
    pub in_place: Option<PathBuf>,
    /// The compared configurations in the requested order. The others are compared with the first one.
    pub arms: Vec<Arm>,
    /// Tunings by name, including `untuned` and `tuned`.
    pub tunings: BTreeMap<String, Tuning>,
    /// The database.
    pub database: DatabaseKind,
    /// Warehouses to load.
    pub warehouses: u32,
    /// Users of a configuration whose load gives no number.
    pub users: u32,
    /// Threads of the driver.
    pub threads: u32,
    /// Seconds measured in each run.
    pub seconds: u64,
    /// Seconds of warm-up before the measured interval.
    pub warmup_seconds: u64,
    /// First seed of the driver.
    pub seed: u64,
    /// Runs on each path.
    pub repeats: u32,
    /// Time after which no further round starts.
    pub budget: Duration,
    /// The database's buffers as a share of the loaded database.
    pub buffers_share: f64,
    /// Upper limit in bytes of the page cache of the database and of each of Millrace's filers; `None` for no limit.
    pub page_cache_bytes: Option<u64>,
    /// Minimum shares of the first configuration's OETs that paths must reach.
    pub share_gates: Vec<ShareGate>,
    /// The database that the thresholds apply to, if they are ignored because another database is compared.
    pub gates_of_another: Option<DatabaseKind>,
    /// Whether to keep this host's processors from sleeping during runs.
    pub keep_awake: bool,
    /// Whether the result is only a first impression, not a measurement.
    pub quick: bool,
    /// Steps between two tunings, if the plan has any; their configurations are included in `arms`.
    pub ladder: Option<Ladder>,
    /// The published report that this plan reproduces.
    pub stands_for: Option<StandsFor>,
    /// Roles of configurations in checked shapes.
    pub roles: Roles,
    /// Further scenarios with the same configurations, after the plan's own runs.
    pub regimes: Vec<Regime>,
    /// Whether every scenario gets all repeats.
    pub full: bool,
}

/// Schema of the plans that this version reads.
const SCHEMA: i64 = 1;

impl Plan {
    /// Reads the plan file, or the built-in plan, and applies the options.
    ///
    /// # Errors
    /// [`LabError::File`] if the file cannot be read, [`LabError::Plan`] if a value in
    /// it or in the options is invalid.
    pub fn read(file: Option<&Path>, overrides: &Overrides) -> Result<Self, LabError> {
        let Some(path) = file else { return Self::parse(DEFAULT_PLAN, overrides) };
        let file = read_file(path)?;
        let in_place = file.guest.as_ref().filter(|_| overrides.in_guest).map(|name| path.with_file_name(name));
        let file = in_place.as_deref().map_or(Ok(file), read_file)?;
        let mut plan = Self::of(file, overrides)?;
        if let Some(name) = in_place.as_deref().unwrap_or(path).file_stem() {
            plan.name = name.to_string_lossy().into_owned();
        }
        plan.in_place = in_place;
        Ok(plan)
    }

    /// Parses a plan and applies the options.
    ///
    /// # Errors
    /// [`LabError::Plan`].
    pub fn parse(text: &str, overrides: &Overrides) -> Result<Self, LabError> {
        Self::of(plan_file(text, "the plan")?, overrides)
    }

    fn of(file: PlanFile, overrides: &Overrides) -> Result<Self, LabError> {
        let overrides = &overrides.with_quick();
        let arms = arms_of(&file, overrides)?;
        let own: DatabaseKind = file.database.system.parse()?;
        let database = overrides.database.as_ref().map_or(Ok(own), |name| name.parse())?;
        // A threshold applies only to the plan's own database.
        let gates_of_another = Some(own).filter(|own| *own != database && !overrides.no_gates && !file.gates.is_empty());
        let without_gates = overrides.no_gates || gates_of_another.is_some();
        let mut tunings = Tuning::built_in(database);
        tunings.extend(file.tuning);
        // Paths from the command line replace the plan's configurations, including those of the ladder.
        let ladder = file.ladder.filter(|_| overrides.paths.is_none());
        if let Some(ladder) = &ladder {
            ladder.check(&tunings)?;
            let rungs = ladder.rungs(&tunings);
            tunings.extend(rungs.into_iter().map(|rung| (rung.tuning, rung.knobs)));
        }
        let regimes = regime::chosen(file.regime, overrides)?;
        let own_budget = file.runs.full_budget.filter(|_| overrides.full).unwrap_or(file.runs.budget);
        let plan = Self {
            name: DEFAULT_NAME.to_owned(),
            in_place: None,
            arms,
            tunings,
            database,
            warehouses: overrides.warehouses.unwrap_or(file.load.warehouses),
            users: overrides.users.unwrap_or(file.load.users),
            threads: file.load.threads,
            seconds: overrides.seconds.unwrap_or(file.load.seconds),
            warmup_seconds: overrides.warmup_seconds.unwrap_or(file.load.warmup_seconds),
            seed: overrides.seed.unwrap_or(file.load.seed),
            repeats: overrides.repeats.unwrap_or(file.runs.repeats),
            budget: overrides.budget.map_or_else(|| parse_duration(&own_budget), Ok)?,
            buffers_share: file.database.buffers_share,
            page_cache_bytes: overrides
                .page_cache_mib
                .or(file.database.page_cache_mib)
                .map(|mib| mib.min(PAGE_CACHE_MIB_MAX) << 20),
            share_gates: if without_gates { Vec::new() } else { gate::read(&file.gates)? },
            gates_of_another,
            keep_awake: overrides.keep_awake || file.runs.keep_awake,
            quick: overrides.quick,
            ladder,
            stands_for: file.report.map(StandsFor::from),
            // Roles are not known for configurations from the command line.
            roles: if overrides.paths.is_none() { file.shape } else { Roles::new() },
            regimes,
            full: overrides.full,
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
            return Err(LabError::plan(what, "buffers_share lies between 0.001 and 4"));
        }
        if self.arms.is_empty() {
            return Err(LabError::plan("compare no paths".to_owned(), "name at least one with --paths"));
        }
        if self.arms.len() > ARMS_MAX {
            let what = format!("compare {} configurations", self.arms.len());
            return Err(LabError::plan(what, &format!("paths by tunings, layouts, media and loads make at most {ARMS_MAX}")));
        }
        let mut seen = BTreeSet::new();
        for arm in &self.arms {
            if !seen.insert(&arm.id) {
                let what = format!("compare two paths named \"{}\"", arm.id);
                let path = arm.path.kind.name();
                let target = arm.path.target.as_ref().map_or("", |_| "=TARGET");
                let hint = format!("give each a label of its own, as in --path {path}:a{target} --path {path}:b{target}");
                return Err(LabError::plan(what, &hint));
            }
            let (what, database) = (format!("use the layout {}", arm.layout), self.database.system());
            if arm.layout.archives_log() && !database.archives_log() {
                return Err(self.database.lacks(&what, |system| system.archives_log()));
            }
            if arm.layout.spreads_tables() && !database.spreads_tables() {
                return Err(self.database.lacks(&what, |system| system.spreads_tables()));
            }
            if let Some(medium) = &arm.medium {
                media::Profile::parse(medium).map_err(|error| LabError::medium(medium, &error))?;
            }
            if !self.tunings.contains_key(&arm.tuning) {
                let known: Vec<&str> = self.tunings.keys().map(String::as_str).collect();
                let what = format!("use the tuning \"{}\"", arm.tuning);
                return Err(LabError::unknown(what, &arm.tuning, "this plan has", &known));
            }
        }
        for (shape, roles) in &self.roles {
            for (role, id) in roles {
                if !self.arms.iter().any(|arm| arm.id == *id) {
                    let known: Vec<&str> = self.arms.iter().map(|arm| arm.id.as_str()).collect();
                    let what = format!("give the [[arm]] \"{id}\" the part {role} of {shape}");
                    return Err(LabError::unknown(what, id, "the plan has", &known));
                }
            }
        }
        regime::check(&self.regimes, &self.arms, self.ladder.is_some())?;
        self.tunings.iter().try_for_each(|(name, tuning)| tuning.check(name))
    }

    /// Rounds of each further scenario: one, or all repeats with `--full`.
    #[must_use]
    pub fn regime_rounds(&self) -> u32 {
        if self.full { self.repeats } else { 1 }
    }

    /// The plan of one of its scenarios: the same configurations on another medium, with another load.
    pub(crate) fn of_regime(&self, regime: &Regime, load: &Load) -> Self {
        let arm = |arm: &Arm| Arm { medium: regime.medium.clone(), load: load.clone(), ..arm.clone() };
        Self {
            arms: self.arms.iter().map(arm).collect(),
            users: regime.users,
            repeats: self.regime_rounds(),
            share_gates: Vec::new(),
            gates_of_another: None,
            stands_for: None,
            roles: Roles::new(),
            regimes: Vec::new(),
            ..self.clone()
        }
    }

    /// The tuning of a configuration.
    #[must_use]
    pub fn tuning_of(&self, arm: &Arm) -> &Tuning {
        static NONE: LazyLock<Tuning> = LazyLock::new(Tuning::default);
        self.tunings.get(&arm.tuning).unwrap_or(&NONE)
    }

    /// Seconds measured in a run of a configuration.
    #[must_use]
    pub fn seconds_of(&self, arm: &Arm) -> u64 {
        arm.load.seconds.unwrap_or(self.seconds)
    }

    /// Whether the database of a configuration bypasses the page cache of its own host for its data files: if its tuning
    /// requires it.
    #[must_use]
    pub fn is_past_page_cache(&self, arm: &Arm) -> bool {
        self.database.system().is_past_page_cache(self.tuning_of(arm).of(DATABASE))
    }

    /// Largest number of users of any configuration, for the database's connection limit.
    #[must_use]
    pub fn users_most(&self) -> u32 {
        let of = |arm: &Arm| match arm.load.level {
            Level::Users(users) => users,
            _ => crate::limits::SEARCH_USERS_MAX,
        };
        let regimes = self.regimes.iter().map(|regime| regime.users);
        self.arms.iter().map(of).chain(regimes).max().unwrap_or(self.users)
    }

    /// Largest number of volumes over which a configuration spreads tables and indexes.
    #[must_use]
    pub fn shares_most(&self) -> u32 {
        self.arms.iter().map(|arm| arm.layout.shares()).max().unwrap_or(1)
    }

    /// Bytes that one run may add to its copy; twice as many if the log is archived.
    #[must_use]
    pub fn growth_bytes(&self) -> u64 {
        let archived = self.arms.iter().any(|arm| arm.layout == Layout::SplitArchive);
        if archived { 2 * RUN_GROWTH_BYTES } else { RUN_GROWTH_BYTES }
    }

    /// Estimated bytes of the loaded database.
    #[must_use]
    pub fn database_bytes(&self) -> u64 {
        DATABASE_BASE_BYTES + u64::from(self.warehouses) * WAREHOUSE_BYTES
    }

    /// Bytes that must be free: the kept state, one copy of it, the growth of a run, and a tenth more.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        (2 * self.database_bytes() + self.growth_bytes()) / 10 * 11
    }

    /// Buffers for a database of `database_bytes`, in bytes.
    #[must_use]
    pub fn buffers_bytes(&self, database_bytes: u64) -> u64 {
        let share = database_bytes as f64 * self.buffers_share;
        // Whole MiB, so that the setting is easy to read.
        ((share as u64) >> 20 << 20).max(crate::limits::BUFFERS_BYTES_MIN)
    }
}

/// Parses `90s`, `12m` or `1h`.
///
/// # Errors
/// [`LabError::Plan`] for anything else, also for a number without a unit.
pub fn parse_duration(text: &str) -> Result<Duration, LabError> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit {
        "s" => Some(1),
        "m" | "min" => Some(60),
        "h" => Some(3600),
        _ => None,
    };
    let seconds = factor.and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
    seconds.filter(|seconds| (1..=7 * SECONDS_MAX).contains(seconds)).map(Duration::from_secs).ok_or_else(|| {
        let hint = match number.trim_start_matches('0') {
            bare if unit.is_empty() && !bare.is_empty() => format!("write {bare}s or {bare}m"),
            _ => "write a whole number and s, m or h, from 1s to 168h, such as 90s, 12m or 1h".to_owned(),
        };
        LabError::plan(format!("read \"{text}\" as a time"), &hint)
    })
}

fn read_file(path: &Path) -> Result<PlanFile, LabError> {
    let text = std::fs::read_to_string(path).map_err(LabError::file("read plan", path))?;
    plan_file(&text, &format!("plan {}", path.display()))
}

/// Checks the schema first, because keys of a later one would be reported as unknown.
fn plan_file(text: &str, name: &str) -> Result<PlanFile, LabError> {
    let schema = text.parse::<toml::Table>().ok().and_then(|table| table.get("schema").and_then(toml::Value::as_integer));
    if let Some(schema) = schema.filter(|schema| *schema != SCHEMA) {
        return Err(LabError::plan(format!("read {name}: it is of schema {schema}"), "this version reads schema 1"));
    }
    toml::from_str(text).map_err(|error| LabError::Plan {
        what: format!("parse {name}: {}", tune::toml_error::in_one_line(text, &error)),
        hint: "correct the file; without a plan, `millrace compare` uses the built-in one".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::storage_path::{Asked, WhyNot};

    fn default_plan() -> Plan {
        Plan::parse(DEFAULT_PLAN, &Overrides::default()).unwrap()
    }

    #[test]
    fn built_in_plan_is_sound_and_its_budget_has_time_for_an_interval() {
        let plan = default_plan();
        assert_eq!(plan.arms.iter().map(|arm| arm.path.kind.name()).collect::<Vec<_>>(), ["local", "dnfs", "iscsi"]);
        assert_eq!(plan.arms[1].id, "dnfs");
        assert!(plan.budget <= Duration::from_secs(720));
        let asked = Asked { program: Path::new("/millrace"), target: None, medium: false, luns: 1, tuning: &Tuning::default() };
        let not_built = |arm: &Arm| matches!(arm.path.kind.why_not(&asked), Some(WhyNot::NotBuilt(_)));
        let measured = plan.arms.iter().filter(|arm| !not_built(arm)).count();
        let whole = Estimate::of(&plan).whole(measured * 3);
        assert!(whole <= plan.budget, "three rounds take {whole:?}");
        let of_two = Estimate::of(&plan).whole(2 * 4) + Estimate::of(&plan).run_on_medium() * 2;
        assert!(of_two <= plan.budget, "four rounds of two paths and a look at the array take {of_two:?}");
        assert!((plan.buffers_share - 0.25).abs() < 1e-9);
    }

    #[test]
    fn options_replace_what_the_plan_says() {
        let overrides = Overrides {
            paths: Some(vec!["dnfs".into()]),
            warehouses: Some(2),
            seconds: Some(5),
            repeats: Some(1),
            budget: Some(Duration::from_secs(90)),
            no_gates: true,
            ..Overrides::default()
        };
        let plan = Plan::parse(DEFAULT_PLAN, &overrides).unwrap();
        assert_eq!((plan.arms.len(), plan.arms[0].path.kind.name(), plan.warehouses, plan.seconds), (1, "dnfs", 2, 5));
        assert_eq!((plan.repeats, plan.budget, plan.share_gates), (1, Duration::from_secs(90), Vec::new()));
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
            Overrides { paths: Some(vec!["floppy".into()]), ..Overrides::default() },
            Overrides { tunings: Some(vec!["warp".into()]), ..Overrides::default() },
            Overrides { loads: Some(vec!["users=0".into()]), ..Overrides::default() },
            Overrides { media: Some(vec!["floppy".into()]), ..Overrides::default() },
        ];
        for overrides in cases {
            let error = Plan::parse(DEFAULT_PLAN, &overrides).unwrap_err();
            assert!(error.hint().is_some(), "{overrides:?}");
        }
    }

    #[test]
    fn a_database_is_named_by_the_plan_or_over_it_and_has_a_tuning_of_its_own() {
        let text = DEFAULT_PLAN.replace("system = \"postgresql\"", "system = \"mariadb\"");
        let read = |text: &str, database: Option<&str>| {
            let overrides = Overrides { database: database.map(str::to_owned), ..Overrides::default() };
            Plan::parse(text, &overrides).unwrap()
        };
        assert_eq!(default_plan().database, DatabaseKind::default());
        assert_eq!(read(&text, Some("postgresql")).database, DatabaseKind::default());
        assert_eq!(read(DEFAULT_PLAN, Some("postgresql")).share_gates, default_plan().share_gates);
        let (own, over) = (read(&text, None), read(DEFAULT_PLAN, Some("mariadb")));
        assert!(!own.share_gates.is_empty() && over.share_gates.is_empty(), "a threshold is of the plan's own database");
        assert_eq!((own.gates_of_another, over.gates_of_another), (None, Some(DatabaseKind::default())));
        for plan in [own, over] {
            assert_eq!(plan.database, DatabaseKind::named("mariadb"));
            assert!(plan.tunings[TUNED].of(DATABASE).contains_key("innodb_io_capacity"));
        }
    }

    #[test]
    fn layouts_that_only_postgresql_has_are_refused_with_both_names() {
        let parse = |layout: &str| {
            let (database, layouts) = (Some("mariadb".to_owned()), Some(vec![layout.to_owned()]));
            Plan::parse(DEFAULT_PLAN, &Overrides { database, layouts, ..Overrides::default() })
        };
        for layout in ["split-archive", "filers=2", "mounts=2"] {
            let error = parse(layout).unwrap_err();
            assert_eq!(error.to_string(), format!("use the layout {layout} with MariaDB"));
            assert!(error.hint().unwrap().contains("PostgreSQL"), "{error}");
        }
        for layout in ["one", "split", "luns=2"] {
            parse(layout).unwrap();
        }
    }

    #[test]
    fn o_direct_of_mariadb_goes_past_the_page_cache() {
        let text = format!("{DEFAULT_PLAN}\n[tuning.direct.database]\ninnodb_flush_method = \"O_DIRECT\"\n");
        let overrides = |database: &str| Overrides {
            database: Some(database.into()),
            paths: Some(vec!["local".into()]),
            tunings: Some(vec![UNTUNED.into(), "direct".into()]),
            ..Overrides::default()
        };
        let plan = Plan::parse(&text, &overrides("mariadb")).unwrap();
        assert_eq!(plan.arms.iter().map(|arm| plan.is_past_page_cache(arm)).collect::<Vec<_>>(), [false, true]);
        let other = Plan::parse(&text, &overrides("postgresql")).unwrap();
        assert!(!other.is_past_page_cache(&other.arms[1]));
    }

    #[test]
    fn arms_are_every_path_with_every_tuning_and_named_by_what_varies() {
        let overrides = Overrides {
            paths: Some(vec!["local".into(), "dnfs:new=nfs://filer/vol".into()]),
            tunings: Some(vec!["untuned".into(), "tuned".into()]),
            media: Some(vec!["fc15k".into()]),
            users: Some(5),
            ..Overrides::default()
        };
        let plan = Plan::parse(DEFAULT_PLAN, &overrides).unwrap();
        let names: Vec<&str> = plan.arms.iter().map(|arm| arm.id.as_str()).collect();
        assert_eq!(names, ["local untuned", "local tuned", "dnfs:new untuned", "dnfs:new tuned"]);
        assert!(plan.arms.iter().all(|arm| arm.medium.as_deref() == Some("fc15k") && arm.load == Load::users(5)));
        assert!(plan.tuning_of(&plan.arms[1]).of(DATABASE).contains_key("wal_buffers"));
    }

    #[test]
    fn a_load_may_have_a_length_of_its_own_and_seconds_of_the_command_line_are_for_all() {
        let loads = Some(vec!["users=4".to_owned(), "users=8,seconds=900".to_owned()]);
        let plan =
            |seconds| Plan::parse(DEFAULT_PLAN, &Overrides { loads: loads.clone(), seconds, ..Overrides::default() }).unwrap();
        let lengths = |plan: &Plan| plan.arms.iter().map(|arm| plan.seconds_of(arm)).collect::<std::collections::BTreeSet<_>>();
        let (own, given) = (plan(None), plan(Some(7)));
        assert_eq!(lengths(&own), [own.seconds, 900].into());
        assert!(own.arms.iter().any(|arm| arm.id.ends_with("users=8,seconds=900")), "the name tells it");
        assert!(Estimate::of(&own).run.as_secs() > 450, "half of the runs take 900 s");
        assert_eq!(lengths(&given), [7].into());
    }

    #[test]
    fn arms_written_out_and_their_tunings_are_read() {
        let text = DEFAULT_PLAN.replace("[load]", "[[arm]]\npath = \"local\"\n[[arm]]\npath = \"dnfs\"\ntuning = \"old\"\nlayout = \"split\"\n[tuning.old.dnfs]\nslots = 4\n[load]");
        let plan = Plan::parse(&text, &Overrides::default()).unwrap();
        let names: Vec<&str> = plan.arms.iter().map(|arm| arm.id.as_str()).collect();
        assert_eq!(names, ["local untuned one", "dnfs old split"]);
        assert_eq!(plan.tuning_of(&plan.arms[1]).named_knobs(), BTreeMap::from([("dnfs.slots".to_owned(), "4".to_owned())]));
    }

    #[test]
    fn unknown_key_is_named() {
        let text = DEFAULT_PLAN.replace("warehouses =", "warehouse =");
        let error = Plan::parse(&text, &Overrides::default()).unwrap_err();
        assert!(error.to_string().contains("unknown field `warehouse`"), "{error}");
    }

    #[test]
    fn times_are_read_with_their_units() {
        assert_eq!(parse_duration("12m").unwrap(), Duration::from_secs(720));
        assert_eq!(parse_duration("90").unwrap_err().hint(), Some("write 90s or 90m"));
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
