//! Dry run: describes a comparison without carrying it out.

use crate::compare::prepare::{Prepared, prepare};
use crate::compare::regimes;
use crate::compare::request::Request;
use crate::error::LabError;
use crate::placement::target::TargetFacts;
use crate::plan::{self, Arm, Estimate, Plan};
use crate::run::progress::clock;
use crate::summary;

/// Describes what [`compare`](crate::compare::compare()) would do. Starts nothing, and leaves nothing on the targets.
///
/// # Errors
/// An error that would prevent the start.
pub fn dry_run(request: &Request) -> Result<String, LabError> {
    let prepared = prepare(request)?;
    let plan = &request.plan;
    let estimate = Estimate::of(plan);
    let prospects = regimes::prospects(plan, &prepared, &request.program);
    let arms = prepared.measured.len();
    let rounds = regimes::own_rounds(plan, &prospects, &estimate, arms);
    let at_most = if rounds < plan.repeats {
        format!("; there is time for about {rounds} of {} rounds, --budget sets more", plan.repeats)
    } else {
        String::new()
    };
    let order = plan::interleave(arms, rounds);
    let name = |place: usize| prepared.measured.get(place).map(|arm| arm.id.as_str()).unwrap_or_default();
    let names: Vec<&str> = order.iter().map(|(_, place)| name(*place)).collect();
    let (regimes, whole) = regimes::expected(plan, &prospects, &estimate, estimate.whole(order.len()));
    let mib = |bytes: u64| summary::grouped((bytes >> 20) as f64);
    let mut text = settings(plan, &prepared).join("\n");
    text += &format!(
        "\nruns       {} (each {} s warm-up and {} s measured{at_most})\n\
         {regimes}space      {} MiB needed below {}, {} MiB free\n\
         time       about {} of {} allowed\n\
         record     {}\n",
        names.join(if prepared.measured.iter().any(|arm| arm.id.contains(' ')) { ", " } else { " " }),
        plan.warmup_seconds,
        plan.seconds,
        mib(plan.needed_bytes()),
        request.work_base.display(),
        mib(prepared.free_bytes),
        clock(whole),
        clock(plan.budget),
        request.out.display(),
    );
    for target in &prepared.targets {
        text += &target_words(target, plan, &prepared, regimes::copies_of_each(plan) * prepared.measured.len());
    }
    if plan.keep_awake {
        text += "awake      the processors of this host are kept out of idle states during the runs\n";
    }
    if let Some(last) = &request.last {
        text += &format!("against    {}\n", last.words());
    }
    for (arm, reason) in &prepared.skipped {
        text += &format!("skipped    {}: {reason}\n", arm.id);
    }
    Ok(text)
}

/// What is measured, and how: also the values that neither an option nor the user's plan gave. One line each.
pub(super) fn settings(plan: &Plan, prepared: &Prepared) -> [String; 4] {
    let mib = |bytes: u64| summary::grouped((bytes >> 20) as f64);
    let each = |of: &dyn Fn(&Arm) -> String| {
        let mut all: Vec<String> = Vec::new();
        for word in prepared.measured.iter().map(of) {
            if !all.contains(&word) {
                all.push(word);
            }
        }
        all.join(", ")
    };
    let medium = |arm: &Arm| arm.medium.clone().unwrap_or_else(|| "no modelled medium".to_owned());
    let page_cache =
        plan.page_cache_bytes.map_or_else(|| "no limit".to_owned(), |bytes| format!("limited to {} MiB", mib(bytes)));
    [
        format!(
            "database   {} {} from {}, as user {}",
            plan.database.title(),
            prepared.engine.version(),
            prepared.engine.directory().display(),
            prepared.user.name,
        ),
        format!(
            "paths      {}; tuning: {}; layout: {}; {}",
            each(&|arm| arm.path.name()),
            each(&|arm| arm.tuning.clone()),
            each(&|arm| arm.layout.to_string()),
            each(&medium),
        ),
        format!(
            "load       {} warehouses (about {} MiB); {} on {} driver threads; first seed {}",
            plan.warehouses,
            mib(plan.database_bytes()),
            each(&|arm| arm.load.to_string()),
            plan.threads,
            plan.seed,
        ),
        format!(
            "buffers    about {} MiB ({} of the database); page cache: {page_cache}",
            mib(plan.buffers_bytes(plan.database_bytes())),
            plan.buffers_share,
        ),
    ]
}

/// The line of the runs before the first one: at most how many, and how long each takes.
pub(super) fn runs(plan: &Plan) -> String {
    let (repeats, warmup, seconds, budget) = (plan.repeats, plan.warmup_seconds, plan.seconds, clock(plan.budget));
    format!("runs       at most {repeats} on each path, each {warmup} s warm-up and {seconds} s measured; time limit {budget}")
}

/// Description of the work on a target: size and writes, before the first write.
pub(super) fn target_words(target: &TargetFacts, plan: &Plan, prepared: &Prepared, runs: usize) -> String {
    let mib = |bytes: u64| summary::grouped((bytes >> 20) as f64);
    let here = prepared.measured.iter().filter(|arm| arm.path.target.as_ref() == Some(&target.target));
    let runs = runs / prepared.measured.len().max(1) * here.count();
    let copy = plan.database_bytes();
    let (copies, are) = if runs == 1 { ("1 copy".to_owned(), "is") } else { (format!("{runs} copies"), "are") };
    format!(
        "target     {} ({}): one new directory, up to {} MiB in it at a time, {} MiB free; {copies} of {} MiB {are} \
         written, then what the runs write; all of it is removed, nothing else is touched\n",
        target.target,
        target.what,
        mib(copy + plan.growth_bytes()),
        mib(target.free_bytes),
        mib(copy),
    )
}
