//! Figures of a comparison for the configurations that have roles in a shape.

use std::collections::BTreeMap;

use results::compare::{Comparison, PathResult, PathStatus};
use results::judgement::SlotUse;
use results::statistics::{RunValue, relative_difference, t_quantile_975};

use crate::{judge, paths};

/// A comparison and the roles of its configurations.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) comparison: &'a Comparison,
    pub(super) roles: &'a BTreeMap<String, String>,
}

/// Why a figure is missing.
pub(super) type Why = String;

/// Degrees of freedom of an interval from two single runs: each run's seconds form about ten batches.
const BATCH_DEGREES: usize = 18;

/// How far the orders of one role are above those of another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lift {
    /// Percent, signed.
    pub(super) percent: f64,
    /// Its 95 % interval, percent: from the runs if both roles have several, else from the seconds inside them;
    /// `None` if neither is available.
    pub(super) interval: Option<(f64, f64)>,
}

impl<'a> Seen<'a> {
    /// The configuration with this role, measured and valid.
    pub(super) fn arm(&self, role: &str) -> Result<&'a PathResult, Why> {
        let Some(id) = self.roles.get(role) else { return Err(format!("the plan has no [[arm]] for \"{role}\"")) };
        let known = |path: &&PathResult| path.arm == *id || path.arm.is_empty() && path.name == *id;
        let path = self.comparison.paths.iter().find(known).ok_or_else(|| format!("{id} is not in the record"))?;
        let reason = path.reason.as_deref().unwrap_or("no reason is recorded");
        match path.status {
            PathStatus::Measured => Ok(path),
            PathStatus::Skipped => Err(format!("{id} was skipped: {reason}")),
            PathStatus::NotValid => Err(format!("{id} is not valid: {reason}")),
        }
    }

    /// orders per minute.
    pub(super) fn oets(&self, role: &str) -> Result<f64, Why> {
        let arm = self.arm(role)?;
        let mean = arm.oets_per_minute.as_ref().map(|oets| oets.mean).filter(|mean| *mean > 0.0);
        mean.ok_or_else(|| format!("{} has no orders", arm.arm))
    }

    /// How far the orders of `to` are above those of `from`.
    pub(super) fn lift(&self, from: &str, to: &str) -> Result<Lift, Why> {
        let (before, after) = (self.oets(from)?, self.oets(to)?);
        let (first, other) = (judge::oets(self.arm(from)?), judge::oets(self.arm(to)?));
        let between = relative_difference(&first, &other).and_then(|found| found.low_percent.zip(found.high_percent));
        let inside = || {
            let error = relative_error(&first)?.hypot(relative_error(&other)?);
            let half = t_quantile_975(BATCH_DEGREES) * error;
            Some([-half, half].map(|half| gain(before, after * half.exp())).into())
        };
        Ok(Lift { percent: gain(before, after), interval: between.or_else(inside) })
    }

    /// Processor seconds of database and driver per 1,000 orders, user and kernel. A filer on this host is excluded, because
    /// the published reports measured only the database's host.
    pub(super) fn cpu(&self, role: &str) -> Result<(f64, f64), Why> {
        self.cpu_of(role, |owner| owner != "filer")
    }

    /// The same with the filer.
    pub(super) fn cpu_with_filer(&self, role: &str) -> Result<(f64, f64), Why> {
        self.cpu_of(role, |_| true)
    }

    fn cpu_of(&self, role: &str, counts: fn(&str) -> bool) -> Result<(f64, f64), Why> {
        let arm = self.arm(role)?;
        let orders: u64 = arm.runs.iter().map(|run| run.orders).sum();
        let times = arm.runs.iter().flat_map(|run| &run.cpu).filter(|(owner, _)| counts(owner));
        let (user, sys) = times.fold((0.0, 0.0), |(user, sys), (_, time)| (user + time.user_s, sys + time.sys_s));
        if orders == 0 || user + sys <= 0.0 {
            return Err(format!("{} has no processor times", arm.arm));
        }
        Ok((user * 1000.0 / orders as f64, sys * 1000.0 / orders as f64))
    }

    /// Share of the host's processors that database and driver used, percent.
    pub(super) fn busy_percent(&self, role: &str) -> Result<f64, Why> {
        let arm = self.arm(role)?;
        let (user, sys) = self.cpu(role)?;
        let seconds: f64 = arm.runs.iter().map(|run| run.measured_s).sum();
        let orders: u64 = arm.runs.iter().map(|run| run.orders).sum();
        let cpus = self.comparison.environment.cpu_count.max(1) as f64;
        if seconds <= 0.0 {
            return Err(format!("{} has no measured time", arm.arm));
        }
        Ok((user + sys) * orders as f64 / 1000.0 / (seconds * cpus) * 100.0)
    }

    /// Mean time of one block read, measured by the database, ms.
    pub(super) fn block_read_ms(&self, role: &str) -> Result<f64, Why> {
        let arm = self.arm(role)?;
        arm.block_read_us.as_ref().map(|time| time.mean / 1e3).ok_or_else(|| format!("{} has no block read times", arm.arm))
    }

    /// Mean response time of New-Order, ms.
    pub(super) fn response_ms(&self, role: &str) -> Result<f64, Why> {
        let arm = self.arm(role)?;
        let found = arm.response_ms.iter().find(|(name, _)| name.to_lowercase().replace(['-', '_'], "") == "neworder");
        found.map(|(_, time)| time.mean).ok_or_else(|| format!("{} has no New-Order responses", arm.arm))
    }

    /// An error if the figures of two configurations are never compared.
    pub(super) fn ranked(&self, one: &str, other: &str) -> Result<(), Why> {
        paths::never_ranked(self.arm(one)?, self.arm(other)?).map_or(Ok(()), |why| Err(why.to_owned()))
    }

    /// Slots of the NFS client.
    pub(super) fn slots(&self, role: &str) -> Result<&'a SlotUse, Why> {
        let arm = self.arm(role)?;
        arm.slot_use.as_ref().filter(|slots| slots.slots > 0).ok_or_else(|| format!("{} counted no slots", arm.arm))
    }

    /// Occupied slots, or places in a disk's queue, of a configuration, in words.
    pub(super) fn occupancy(&self, role: &str) -> String {
        self.slots(role).map_or_else(
            |_| "slots in use not counted".to_owned(),
            |slots| {
                // The maximum is not counted for a disk's queue.
                let most = if slots.max > 0 { format!(", {} at most", slots.max) } else { String::new() };
                // The kernel counts a request of a disk from the time at which it waits for a place in the queue.
                let waiting = slots.mean - f64::from(slots.slots);
                let waiting = if waiting > 0.0 { format!(", {waiting:.1} waiting") } else { String::new() };
                let mean = slots.mean.min(f64::from(slots.slots));
                format!("{mean:.1} of {} slots in use on average{most}{waiting}", slots.slots)
            },
        )
    }

    /// Whether the plan gives this role to a configuration.
    pub(super) fn has(&self, role: &str) -> bool {
        self.roles.contains_key(role)
    }

    /// An error if the processor time was not measured on a real processor.
    pub(super) fn real_processor(&self) -> Result<(), Why> {
        self.comparison.environment.guest.as_ref().map_or(Ok(()), |label| {
            Err(format!("measured in a guest ({label}): no processor time of one client is held against another's"))
        })
    }

    /// Users of a configuration.
    pub(super) fn users(&self, role: &str) -> Result<u32, Why> {
        let arm = self.arm(role)?;
        Ok(arm.users.unwrap_or(self.comparison.plan.users))
    }
}

/// Percent by which `to` is above `from`.
pub(super) fn gain(from: f64, to: f64) -> f64 {
    (to / from - 1.0) * 100.0
}

/// Relative error of the mean of these runs from their seconds; `None` if a run has too few.
fn relative_error(runs: &[RunValue]) -> Option<f64> {
    let squares: Option<f64> = runs.iter().map(|run| Some((run.standard_error? / run.value).powi(2))).sum();
    squares.filter(|_| !runs.is_empty()).map(|sum| sum.sqrt() / runs.len() as f64)
}
