//! Determines the requirements of a comparison before anything is created.

use std::path::Path;
use std::rc::Rc;

use crate::compare::journal::Journal;
use crate::compare::out_directory::OutDirectory;
use crate::compare::request::Request;
use crate::compare::{load_search, option_check};
use crate::database::engine::Engine;
use crate::database::kind::{DatabaseKind, title_of};
use crate::error::LabError;
use crate::guest;
use crate::history::last::Last;
use crate::host::block_device::OVERWRITE;
use crate::host::cgroup;
use crate::host::keep_awake::KeepAwake;
use crate::paths;
use crate::paths::exec;
use crate::paths::storage_path::Asked;
use crate::placement::target::{TargetFacts, check_reachable, check_writable};
use crate::plan::{Arm, Estimate, Plan};
use crate::run::kernel_settings;
use crate::run::progress::clock;
use crate::sys::{self, User};

/// The work of a comparison, determined without starting anything.
pub(crate) struct Prepared {
    pub(crate) engine: Rc<dyn Engine>,
    pub(crate) user: User,
    /// Configurations to measure, in order.
    pub(crate) measured: Vec<Arm>,
    /// The other configurations, with the reason.
    pub(crate) skipped: Vec<(Arm, String)>,
    /// Facts about the targets, each target once.
    pub(crate) targets: Vec<TargetFacts>,
    /// Free bytes below the work directory's base.
    pub(crate) free_bytes: u64,
}

/// Determines the requirements and refuses early what cannot work.
pub(crate) fn prepare(request: &Request) -> Result<Prepared, LabError> {
    let plan = &request.plan;
    if request.resume {
        Journal::finished(&request.out, plan)?;
    } else {
        OutDirectory::check(&request.out)?;
    }
    check_overwrite(request)?;
    if plan.keep_awake {
        KeepAwake::check()?;
    }
    check_baseline(request)?;
    request.last.as_ref().map_or(Ok(()), Last::check)?;
    let engine = engine(plan.database, request.pg_bin.as_deref())?;
    let user = database_user(plan.database)?;
    let (mut measured, mut skipped) = (Vec::new(), Vec::new());
    for arm in &plan.arms {
        match why_not_arm(arm, plan, &request.program) {
            None => measured.push(with_client(arm, plan, &request.program)),
            Some(reason) => skipped.push((arm.clone(), reason)),
        }
    }
    if measured.is_empty() {
        let reasons: Vec<String> = skipped.iter().map(|(arm, reason)| format!("{} ({reason})", arm.id)).collect();
        return Err(LabError::Missing {
            what: format!("measure any of the paths asked for: {}", reasons.join("; ")),
            hint: "millrace doctor shows what can be measured here".to_owned(),
        });
    }
    if plan.page_cache_bytes.is_some() && !cgroup::available() {
        return Err(LabError::Missing {
            what: "limit the page cache: no memory control group can be made here".to_owned(),
            hint: "run as root on a host with cgroups, or leave --page-cache out: results are then labelled cached".to_owned(),
        });
    }
    load_search::check(&measured)?;
    if !request.resume {
        check_budget(plan, measured.len())?;
    }
    for arm in &measured {
        option_check::check(&request.program, plan, arm)?;
        engine.check_knobs(&arm.tuning, plan.tuning_of(arm))?;
    }
    let target_needs = (plan.database_bytes() + plan.growth_bytes()) / 10 * 11;
    let mut targets = Vec::new();
    for arm in &measured {
        let Some(target) = &arm.path.target else { continue };
        let facts = arm.path.kind.examine_target(target, &user, request.overwrite_devices)?;
        facts.check_space(target_needs)?;
        if !targets.contains(&facts) {
            targets.push(facts);
        }
    }
    let free_bytes =
        sys::free_bytes(&request.work_base).map_err(LabError::file("use the --work directory", &request.work_base))?;
    check_reachable(&request.work_base, &user)?;
    check_writable(&request.work_base)?;
    check_free_space(plan, &request.work_base, free_bytes)?;
    Ok(Prepared { engine, user, measured, skipped, targets, free_bytes })
}

/// Refuses a work directory whose file system has less free space than the comparison needs.
fn check_free_space(plan: &Plan, work_base: &Path, free_bytes: u64) -> Result<(), LabError> {
    if free_bytes < plan.needed_bytes() {
        return Err(LabError::Missing {
            what: format!(
                "work below {}: {} MiB are needed, {} MiB are free",
                work_base.display(),
                plan.needed_bytes() >> 20,
                free_bytes >> 20
            ),
            hint: format!(
                "these are the loaded database, a copy of it for each run ({} MiB each), {} MiB of log and new rows of a run, and a tenth \
                 more; name a larger place with --work",
                plan.database_bytes() >> 20,
                plan.growth_bytes() >> 20
            ),
        });
    }
    Ok(())
}

/// Refuses a budget that is too short for the load of the database and the first round. A resumed comparison already has
/// finished runs, and may end at once.
fn check_budget(plan: &Plan, arms: usize) -> Result<(), LabError> {
    let estimate = Estimate::of(plan);
    // Without --full, scenarios are left out if there is too little time.
    let regimes = if plan.full { plan.regimes.len() } else { 0 };
    let needed = estimate.whole(arms) + estimate.run_on_medium() * u32::try_from(regimes * arms).unwrap_or(u32::MAX);
    if needed <= plan.budget {
        return Ok(());
    }
    let what = format!(
        "compare within {}: to load the database and run each path once{} takes about {}",
        clock(plan.budget),
        if regimes > 0 { " in each scenario" } else { "" },
        clock(needed)
    );
    let minutes = needed.as_secs() / 60 + 1;
    Err(LabError::plan(what, &format!("--budget {minutes}m, or fewer --warehouses, --seconds or paths")))
}

/// Why a configuration cannot be measured with this program on this host.
pub(super) fn why_not_arm(arm: &Arm, plan: &Plan, program: &Path) -> Option<String> {
    let asked = asked_by(arm, plan, program);
    if asked.medium && exec::preload_library(program).is_none() {
        return Some(format!("a modelled medium needs {} beside this program", exec::PRELOAD_LIBRARY));
    }
    let luns = arm.layout.luns();
    if luns > 1 && arm.path.kind.striped(luns).is_none() {
        return Some(format!("layout luns=N is of path {}", paths::names_of(|path| path.striped(2).is_some())));
    }
    if arm.layout.addresses() > 1 && !arm.path.kind.mounts_by_address() {
        return Some(format!("layout mounts=N is of path {}", paths::names_of(|path| path.mounts_by_address())));
    }
    if let Some(reason) = arm.path.kind.why_not(&asked) {
        return Some(reason.to_string());
    }
    if let Some(reason) = kernel_settings::why_not(asked.tuning) {
        return Some(reason);
    }
    let one_filer = arm.layout.shares() > 1 && asked.target.is_some();
    one_filer
        .then(|| "a target is one filer at one address: layouts filers=N and mounts=N are of filers of Millrace's own".to_owned())
}

/// Requirements of a configuration for its path.
fn asked_by<'a>(arm: &'a Arm, plan: &'a Plan, program: &'a Path) -> Asked<'a> {
    Asked {
        program,
        target: arm.path.target.as_deref(),
        medium: arm.medium.is_some(),
        luns: arm.layout.luns(),
        tuning: plan.tuning_of(arm),
    }
}

/// A measurable configuration, on its path with the client that it will use.
fn with_client(arm: &Arm, plan: &Plan, program: &Path) -> Arm {
    let mut arm = arm.clone();
    let chosen = arm.path.kind.chosen(&asked_by(&arm, plan, program));
    arm.path.kind = chosen.unwrap_or(arm.path.kind);
    arm
}

/// Refuses the permission to overwrite devices if the plan names no device: a device that was named wrongly would not be noticed.
fn check_overwrite(request: &Request) -> Result<(), LabError> {
    let has_device = request.plan.arms.iter().any(|arm| arm.path.target.is_some() && arm.path.kind.takes_device());
    if has_device || !request.overwrite_devices {
        return Ok(());
    }
    let paths = paths::names_of(|path| path.takes_device());
    Err(LabError::plan(
        format!("use {OVERWRITE}: no path of this comparison is on a block device that you named"),
        &format!("leave it out, or name the device: --path NAME=/dev/…, where NAME is one of {paths}"),
    ))
}

/// Refuses a baseline of another database, because the storage would not be the only difference, and of another kind of machine.
fn check_baseline(request: &Request) -> Result<(), LabError> {
    if let Some(baseline) = &request.baseline {
        check_guest(baseline.environment.guest.as_deref(), guest::label())?;
    }
    let (now, before) = (request.plan.database.title(), request.baseline.as_ref().map(|baseline| &baseline.plan.database));
    match before.map(title_of).filter(|before| *before != now) {
        Some(before) => Err(LabError::plan(
            format!("hold {now} against a baseline of {before}"),
            "--gate names a record of the same database; millrace diff shows two of different ones",
        )),
        None => Ok(()),
    }
}

fn check_guest(before: Option<&str>, now: Option<&str>) -> Result<(), LabError> {
    if before == now {
        return Ok(());
    }
    let words = |label: Option<&str>| label.map_or("a machine that is not a guest", |_| "a guest");
    Err(LabError::plan(
        format!("hold figures of {} against a baseline of {}", words(now), words(before)),
        "name a record made the same way: with --guest for --guest, without for without",
    ))
}

/// The programs of the database. Not every database takes the directory of its programs.
fn engine(kind: DatabaseKind, pg_bin: Option<&Path>) -> Result<Rc<dyn Engine>, LabError> {
    if !kind.takes_directory() && pg_bin.is_some() {
        return Err(kind.lacks("use --pg-bin", |system| system.takes_directory()));
    }
    kind.system().find(pg_bin)
}

/// The user that the database runs as: the current one; for root, the user that its package creates, else `nobody`.
pub(crate) fn database_user(kind: DatabaseKind) -> Result<User, LabError> {
    let uid = sys::effective_uid();
    let found = if uid == 0 {
        sys::user_by_name(kind.system().user_name()).or_else(|| sys::user_by_name("nobody"))
    } else {
        sys::user_by_uid(uid)
    };
    found.filter(|user| user.uid != 0).ok_or_else(|| LabError::Missing {
        what: "find an unprivileged user for the database: it refuses to run as root".to_owned(),
        hint: format!("make the user {} (useradd --system {0}), or run as another user", kind.system().user_name()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{DEFAULT_PLAN, Overrides};

    #[test]
    fn a_budget_below_one_round_is_refused_and_names_one_that_is_enough() {
        let with = |budget: &str| {
            let overrides = Overrides { budget: Some(crate::plan::parse_duration(budget).unwrap()), ..Overrides::default() };
            check_budget(&Plan::parse(DEFAULT_PLAN, &overrides).unwrap(), 2)
        };
        let error = with("10s").unwrap_err();
        assert!(error.to_string().starts_with("compare within 0:10: "), "{error}");
        let enough = error.hint().unwrap().split([' ', ',']).nth(1).unwrap().to_owned();
        with(&enough).unwrap();
    }

    #[test]
    fn a_guest_is_held_against_a_guest_of_the_same_label_and_nothing_else_against_it() {
        let (emulated, virtual_one) = (Some(guest::run::EMULATED), Some(guest::run::VIRTUAL));
        assert!(check_guest(None, None).is_ok() && check_guest(emulated, emulated).is_ok());
        for (before, now) in [(None, emulated), (emulated, None), (virtual_one, emulated)] {
            let error = check_guest(before, now).unwrap_err();
            assert!(error.to_string().contains("a guest") && error.hint().unwrap().contains("--guest"), "{error}");
        }
    }

    #[test]
    fn a_layout_of_luns_is_skipped_on_every_path_but_iscsi() {
        let overrides = Overrides {
            paths: Some(["local", "dnfs", "fc", "iscsi"].map(str::to_owned).to_vec()),
            layouts: Some(vec!["luns=2".into()]),
            ..Overrides::default()
        };
        let plan = Plan::parse(DEFAULT_PLAN, &overrides).unwrap();
        for arm in &plan.arms {
            let reason = why_not_arm(arm, &plan, Path::new("/millrace"));
            let is_skipped_for_it = reason.as_deref() == Some("layout luns=N is of path iscsi");
            assert_eq!(is_skipped_for_it, arm.path.kind.name() != "iscsi", "{}: {reason:?}", arm.id);
        }
    }

    #[test]
    fn a_layout_of_mounts_is_skipped_on_every_path_but_kernel_nfs() {
        let overrides = Overrides {
            paths: Some(["local", "dnfs", "knfs", "iscsi"].map(str::to_owned).to_vec()),
            layouts: Some(vec!["mounts=2".into()]),
            ..Overrides::default()
        };
        let plan = Plan::parse(DEFAULT_PLAN, &overrides).unwrap();
        for arm in &plan.arms {
            let reason = why_not_arm(arm, &plan, Path::new("/millrace"));
            let is_skipped_for_it = reason.as_deref() == Some("layout mounts=N is of path knfs");
            assert_eq!(is_skipped_for_it, arm.path.kind.name() != "knfs", "{}: {reason:?}", arm.id);
        }
    }

    #[test]
    fn every_plan_of_the_project_has_a_budget_for_one_round() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let plans = ["plans", "plans/guest"].map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
        let plans = plans.into_iter().flatten().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        for path in plans.chain([root.join("bench/orders.toml")]) {
            let plan = Plan::read(Some(&path), &Overrides::default()).unwrap();
            check_budget(&plan, plan.arms.len()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}
