//! The further scenarios of a comparison: after the plan's own runs, the same configurations run from the same loaded state on
//! another medium, or at a fixed load. Each scenario has its own record, and an error in one does not affect the others.

use std::time::Duration;

use results::compare::{RegimeResult, RegimeStatus};
use results::environment::Environment;

use crate::compare::conclude::{conclude, plan_record, results_by_arm};
use crate::compare::initial_load::Loaded;
use crate::compare::journal::{FinishedRun, Journal};
use crate::compare::measured_arm::MeasuredArm;
use crate::compare::notes;
use crate::compare::prepare::{Prepared, why_not_arm};
use crate::compare::runs::{self, Sequence};
use crate::error::LabError;
use crate::guest;
use crate::host::process;
use crate::judge::regime;
use crate::paths::placement::Placement;
use crate::placement::restore::Method;
use crate::placement::workdir;
use crate::plan::{self, Arm, Estimate, HOST, Load, Plan, Regime};
use crate::run::progress::{Progress, clock};
use crate::run::setup::Setup;
use crate::summary::{self, Common};

/// A scenario, and the facts that are known before anything runs.
pub(super) struct Prospect<'a> {
    pub(super) regime: &'a Regime,
    /// Configurations that can be measured in it, as they are in the comparison.
    pub(super) arms: Vec<Arm>,
    /// The other configurations, with the reason.
    pub(super) skipped: Vec<(Arm, String)>,
    rounds: u32,
}

/// Results of a scenario.
pub(super) struct Carried<'a> {
    prospect: Prospect<'a>,
    plan: Plan,
    load: Load,
    offered_per_minute: Option<f64>,
    status: RegimeStatus,
    reason: Option<String>,
    done: Vec<FinishedRun>,
    /// Runs that do not count because a less disturbed run replaced them.
    left_out: u32,
}

/// The scenarios of a plan with the configurations of each.
pub(super) fn prospects<'a>(plan: &'a Plan, prepared: &Prepared, program: &std::path::Path) -> Vec<Prospect<'a>> {
    let of = |regime: &'a Regime| {
        let (mut arms, mut skipped) = (Vec::new(), Vec::new());
        for arm in &prepared.measured {
            let changed = Arm { medium: regime.medium.clone(), ..arm.clone() };
            match why_not_arm(&changed, plan, program) {
                None => arms.push(arm.clone()),
                Some(reason) => skipped.push((changed, reason)),
            }
        }
        skipped.extend(prepared.skipped.iter().cloned());
        Prospect { regime, arms, skipped, rounds: plan.regime_rounds() }
    };
    plan.regimes.iter().map(of).collect()
}

/// Estimated time of the scenarios.
pub(super) fn time(prospects: &[Prospect<'_>], estimate: &Estimate) -> Duration {
    prospects.iter().map(|prospect| prospect.round(estimate) * prospect.rounds).sum()
}

/// Rounds of the plan's own runs that come before a scenario with a single round: fewer give no useful interval, and each
/// further round narrows it by less.
const ROUNDS_BEFORE_LOOKS: u32 = 3;

/// The plan's own runs in order, followed by the scenarios. The first rounds of these runs take precedence over a scenario with a
/// single round; scenarios with repeats keep one round each.
pub(super) fn first_sequence<'a>(
    plan: &Plan,
    order: &'a [(u32, usize)],
    prospects: &[Prospect<'_>],
    estimate: &Estimate,
) -> Sequence<'a> {
    let kept_after = prospects.iter().map(|prospect| prospect.round(estimate)).sum();
    let (kept_from, sure_rounds) = if plan.full { (2, plan.repeats) } else { (ROUNDS_BEFORE_LOOKS + 1, ROUNDS_BEFORE_LOOKS) };
    Sequence { regime: None, order, before: 0, after: time(prospects, estimate), kept_after, kept_from, sure_rounds }
}

/// Copies of the loaded state for each configuration on existing storage: scenarios on a modelled medium are not measured there.
pub(super) fn copies_of_each(plan: &Plan) -> usize {
    let others = plan.regimes.iter().filter(|regime| regime.medium.is_none()).count();
    plan.repeats as usize + others * plan.regime_rounds() as usize
}

/// Rounds of the plan's own runs, for this number of configurations, that fit into the budget, estimated before the first one.
pub(super) fn own_rounds(plan: &Plan, prospects: &[Prospect<'_>], estimate: &Estimate, arms: usize) -> u32 {
    first_sequence(plan, &[], prospects, estimate).rounds_within(plan, estimate, arms)
}

/// Reports the estimated total time before the first long step.
pub(super) fn announce(plan: &Plan, prospects: &[Prospect<'_>], estimate: &Estimate, arms: usize, progress: &mut Progress<'_>) {
    let runs = arms * own_rounds(plan, prospects, estimate, arms) as usize;
    let (_, whole) = expected(plan, prospects, estimate, estimate.whole(runs));
    progress.expect(whole);
    if !prospects.is_empty() {
        let names: Vec<&str> = prospects.iter().map(|prospect| prospect.regime.name.as_str()).collect();
        let manner = if plan.full { "with repeats" } else { "one round" };
        let (whole, budget) = (clock(whole), clock(plan.budget));
        progress.step(&format!("about {whole} of {budget} allowed; after {HOST} comes {} ({manner})", names.join(", ")));
    }
}

/// The lines of the dry run for the scenarios, and the total time if the plan's own runs take `own`.
pub(super) fn expected(plan: &Plan, prospects: &[Prospect<'_>], estimate: &Estimate, own: Duration) -> (String, Duration) {
    let (mut lines, mut whole) = (String::new(), own);
    for prospect in prospects {
        lines += &prospect.line(plan);
        let (round, left) = (prospect.round(estimate), plan.budget.saturating_sub(whole));
        if round <= left {
            whole += round * prospect.rounds;
        } else if !prospect.arms.is_empty() {
            let (left_words, each) = (clock(left), clock(prospect.run(estimate)));
            lines += &format!(
                "           about {left_words} is left for it and a path takes {each}: what has no time is left out; --budget sets more\n"
            );
            whole += prospect.run(estimate) * u32::try_from(prospect.fit(left, estimate)).unwrap_or(0);
        }
    }
    (lines, whole)
}

impl Prospect<'_> {
    /// Time of one run in the scenario.
    fn run(&self, estimate: &Estimate) -> Duration {
        if self.regime.medium.is_some() { estimate.run_on_medium() } else { estimate.run }
    }

    /// Time of one round.
    pub(super) fn round(&self, estimate: &Estimate) -> Duration {
        self.run(estimate) * u32::try_from(self.arms.len()).unwrap_or(u32::MAX)
    }

    /// Number of paths of a round that `left` has time for. A single path is no comparison, unless there is only one.
    fn fit(&self, left: Duration, estimate: &Estimate) -> usize {
        let each = self.run(estimate).as_secs_f64().max(f64::MIN_POSITIVE);
        let fit = ((left.as_secs_f64() / each) as usize).min(self.arms.len());
        if fit < self.arms.len().min(2) { 0 } else { fit }
    }

    /// The same scenario without its last paths, if `left` has no time for all.
    fn within(mut self, left: Duration, estimate: &Estimate) -> Self {
        let fit = self.fit(left, estimate);
        if fit > 0 {
            let reason = format!("the budget had no time for it: {} were left; --budget sets more", clock(left));
            let medium = &self.regime.medium;
            let without = self.arms.split_off(fit).into_iter().map(|arm| (Arm { medium: medium.clone(), ..arm }, reason.clone()));
            self.skipped.extend(without);
        }
        self
    }

    /// The line for the dry run.
    pub(super) fn line(&self, plan: &Plan) -> String {
        let names: Vec<&str> = self.arms.iter().map(|arm| arm.id.as_str()).collect();
        let rounds = if plan.full { format!("{} rounds", self.rounds) } else { "one round".to_owned() };
        let what = match (&self.regime.medium, self.regime.share_of_slowest) {
            (Some(medium), _) => format!("on {medium} with {} users", self.regime.users),
            (None, share) => format!(
                "{:.0} % of the slowest path's orders per minute on every path, {} users",
                share.unwrap_or_default() * 100.0,
                self.regime.users
            ),
        };
        if names.is_empty() {
            return format!("scenario   {}: left out: {}\n", self.regime.name, self.nowhere());
        }
        format!("scenario   {}: {rounds} of {}; {what}\n", self.regime.name, names.join(" "))
    }

    /// Why no configuration can be measured in it.
    fn nowhere(&self) -> String {
        let reasons: Vec<String> = self.skipped.iter().map(|(arm, reason)| format!("{} ({reason})", arm.id)).collect();
        format!("no path can be measured in it: {}", reasons.join("; "))
    }
}

/// State that the scenarios of a comparison share, and the runs before them.
pub(super) struct Shared<'a> {
    pub(super) setup: &'a Setup<'a>,
    /// Configurations of the plan's own runs, in the order of the places.
    pub(super) arms: &'a [Arm],
    /// The plan's own runs.
    pub(super) own: &'a [FinishedRun],
    /// Runs of the scenarios that an interrupted comparison had finished.
    pub(super) before: Vec<FinishedRun>,
    /// Sequence number after which the scenarios' runs begin.
    pub(super) sequence: usize,
}

/// Carries out the scenarios in sequence. Those that do not fit into the budget are left out.
///
/// # Errors
/// A signal was received, or a filer that this comparison did not start was lost. All other errors are recorded in their scenario.
pub(super) fn carry_out<'a>(
    mut shared: Shared<'_>,
    prospects: Vec<Prospect<'a>>,
    places: &mut [Box<dyn Placement>],
    journal: &mut Journal,
    estimate: &Estimate,
    progress: &mut Progress<'_>,
) -> Result<Vec<Carried<'a>>, LabError> {
    let mut carried = Vec::new();
    let mut after = time(&prospects, estimate);
    for prospect in prospects {
        after = after.saturating_sub(prospect.round(estimate) * prospect.rounds);
        progress.no_run();
        let one = carry_one(&mut shared, prospect, places, (&mut *journal, after), estimate, progress)?;
        if let Some(reason) = &one.reason {
            progress.no_run();
            let word = if matches!(one.status, RegimeStatus::Failed) { "failed" } else { "left out" };
            progress.step(&format!("scenario {} {word}: {reason}", one.prospect.regime.name));
        }
        carried.push(one);
    }
    Ok(carried)
}

fn carry_one<'a>(
    shared: &mut Shared<'_>,
    prospect: Prospect<'a>,
    places: &mut [Box<dyn Placement>],
    (journal, after): (&mut Journal, Duration),
    estimate: &Estimate,
    progress: &mut Progress<'_>,
) -> Result<Carried<'a>, LabError> {
    let (whole, regime) = (shared.setup.plan, prospect.regime);
    let slowest = regime.share_of_slowest.and_then(|share| Some((share, slowest(shared.arms, shared.own)?)));
    let offered_per_minute = slowest.map(|(share, slowest)| share * slowest.orders_per_minute);
    let rate = slowest.map(|(share, slowest)| share * slowest.transactions_per_s);
    let load = regime.load(rate);
    let plan = whole.of_regime(regime, &load);
    let (mine, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut shared.before).into_iter().partition(|run| run.regime.as_deref() == Some(regime.name.as_str()));
    shared.before = others;
    let left = whole.budget.saturating_sub(progress.elapsed());
    let prospect = if whole.full || !mine.is_empty() { prospect } else { prospect.within(left, estimate) };
    let mut one = Carried {
        prospect,
        plan,
        load,
        offered_per_minute,
        status: RegimeStatus::LeftOut,
        reason: None,
        done: mine,
        left_out: 0,
    };
    one.reason = one.why_not(whole, estimate, progress.elapsed());
    if one.reason.is_some() {
        return Ok(one);
    }
    let (arms, mut here) = one.arms_and_places(shared.arms, places);
    let mut estimate = Estimate { run: one.prospect.run(estimate), ..estimate.clone() };
    let setup = Setup { plan: &one.plan, program: shared.setup.program.clone(), ..*shared.setup };
    let order = plan::interleave(arms.len(), one.plan.repeats);
    let name = Some(one.prospect.regime.name.as_str());
    let sequence = Sequence {
        regime: name,
        order: &order,
        before: shared.sequence,
        after,
        kept_after: after,
        kept_from: 2,
        sure_rounds: one.plan.repeats,
    };
    shared.sequence += order.len();
    let mut done = std::mem::take(&mut one.done);
    let mut measured: Vec<MeasuredArm<'_>> =
        arms.iter().zip(&mut here).map(|(arm, place)| MeasuredArm { arm, placement: &mut ***place }).collect();
    let ran = runs::run_all(&setup, &mut measured, &sequence, (journal, &mut done), &mut estimate, progress);
    drop(measured);
    match ran {
        Ok(left_out) => (one.status, one.left_out) = (RegimeStatus::Measured, left_out),
        Err(error) => {
            after_failure(shared.setup, &mut here);
            one.reason = Some(reason_of(error)?);
            one.status = RegimeStatus::Failed;
            done.truncate(done.len() / arms.len() * arms.len());
        }
    }
    one.done = done;
    Ok(one)
}

/// The error that ended a scenario, if the comparison continues without it.
fn reason_of(error: LabError) -> Result<String, LabError> {
    match error {
        LabError::Interrupted | LabError::InterruptedWithRuns { .. } => Err(error),
        LabError::FilerLost(loss) if !loss.left.is_empty() => Err(LabError::FilerLost(loss)),
        other => {
            let causes = std::iter::successors(std::error::Error::source(&other), |cause| cause.source());
            let words: Vec<String> = std::iter::once(format!("cannot {other}")).chain(causes.map(ToString::to_string)).collect();
            Ok(words.join(": "))
        }
    }
}

/// Ends the processes of a failed run and empties its places for the next one. What cannot be removed now is removed with the
/// work directory.
fn after_failure(setup: &Setup<'_>, places: &mut [&mut Box<dyn Placement>]) {
    process::end_descendants();
    for place in places {
        let _ = place.clear();
    }
    let _ = workdir::empty_directory(setup.work.runtime());
}

impl Carried<'_> {
    /// Why the scenario cannot start; `None` if it can.
    fn why_not(&self, whole: &Plan, estimate: &Estimate, elapsed: Duration) -> Option<String> {
        if self.prospect.arms.is_empty() {
            return Some(self.prospect.nowhere());
        }
        if self.prospect.regime.share_of_slowest.is_some() && self.offered_per_minute.is_none() {
            return Some("no path did an order before, so there is no rate that each could hold".to_owned());
        }
        let round = self.prospect.round(estimate);
        let short = self.done.is_empty() && elapsed + round > whole.budget;
        short.then(|| {
            format!(
                "one round of it takes about {}, and {} of the budget of {} were left; --budget sets more",
                clock(round),
                clock(whole.budget.saturating_sub(elapsed)),
                clock(whole.budget)
            )
        })
    }

    /// Its configurations, each with the place of the configuration of the same name.
    fn arms_and_places<'p>(
        &self,
        all: &[Arm],
        places: &'p mut [Box<dyn Placement>],
    ) -> (Vec<Arm>, Vec<&'p mut Box<dyn Placement>>) {
        let has = |arm: &Arm| self.prospect.arms.iter().any(|mine| mine.id == arm.id);
        let here = all.iter().zip(places).filter(|(arm, _)| has(arm)).map(|(_, place)| place).collect();
        (self.arms(), here)
    }

    /// Its configurations as they were run.
    fn arms(&self) -> Vec<Arm> {
        let mine = |arm: &&Arm| self.prospect.arms.iter().any(|other| other.id == arm.id);
        self.plan.arms.iter().filter(mine).cloned().collect()
    }

    /// Its record.
    pub(super) fn record(self, whole: &Plan, loaded: &Loaded, method: Method, common: Common) -> RegimeResult {
        let arms = self.arms();
        let look = !whole.full;
        let mut record = RegimeResult {
            name: self.prospect.regime.name.clone(),
            status: self.status,
            reason: self.reason,
            medium: self.prospect.regime.medium.clone(),
            load: self.load.to_string(),
            offered_orders_per_minute: self.offered_per_minute,
            look,
            ..RegimeResult::default()
        };
        if self.done.is_empty() {
            return record;
        }
        let order = plan::interleave(arms.len(), self.plan.repeats);
        let order = order.get(..self.done.len()).unwrap_or(&order);
        let made = plan_record(&self.plan, order, &arms, loaded, method);
        let notes = notes::of_runs(&self.plan, &made, self.left_out);
        let paths = results_by_arm(&self.plan, &arms, &self.prospect.skipped, &self.done, common);
        let place = Environment { guest: guest::label().map(str::to_owned), ..Environment::default() };
        let concluded = conclude(paths, made, place, notes, &[], (String::new(), Duration::ZERO));
        record.verdict = regime::verdict(&concluded, look, self.offered_per_minute);
        record.valid = concluded.valid && matches!(record.status, RegimeStatus::Measured);
        (record.not_a_result, record.notes) = (concluded.not_a_result, concluded.notes);
        (record.plan, record.paths, record.against_first) = (concluded.plan, concluded.paths, concluded.against_first);
        record
    }
}

/// Figures of the slowest configuration.
#[derive(Debug, Clone, Copy)]
struct Slowest {
    orders_per_minute: f64,
    transactions_per_s: f64,
}

/// The configuration with the fewest orders per minute, by the mean of its runs; `None` if one completed no order.
fn slowest(arms: &[Arm], own: &[FinishedRun]) -> Option<Slowest> {
    let of = |place: usize| {
        let runs: Vec<&FinishedRun> = own.iter().filter(|run| run.place == place).collect();
        let orders_per_minute = runs.iter().map(|run| run.run.oets_per_minute).sum::<f64>() / runs.len().max(1) as f64;
        let orders: u64 = runs.iter().map(|run| run.record.orders).sum();
        let transactions: u64 = runs.iter().map(|run| summary::run_load(&run.record).transactions).sum();
        let each = transactions as f64 / orders.max(1) as f64;
        Slowest { orders_per_minute, transactions_per_s: orders_per_minute / 60.0 * each }
    };
    let all = (0..arms.len()).map(of);
    all.min_by(|a, b| a.orders_per_minute.total_cmp(&b.orders_per_minute)).filter(|slowest| slowest.transactions_per_s > 0.0)
}
