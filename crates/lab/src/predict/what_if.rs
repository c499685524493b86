//! `millrace predict`: predicts the throughput of a fitted system with changes.

use results::compare::{BottleneckKind, Comparison, Cpu, PathResult, PathStatus};
use serde::Serialize;

use super::fit::{Fit, RESIDUAL_MAX, fit};
use super::ladder::doubt;
use super::model::{Predicted, Storage, System};
use crate::error::LabError;
use crate::limits::USERS_MAX;
use crate::report::words::bottleneck_name;

/// Changes of the system; `None` keeps a part as measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WhatIf {
    /// Configuration to fit; `None` for the first measured one.
    pub arm: Option<String>,
    /// Users.
    pub users: Option<u32>,
    /// Most reads in flight; 0 removes the limit.
    pub slots: Option<u32>,
    /// Spindles with one queue each, instead of the measured storage.
    pub spindles: Option<usize>,
    /// Time of one read in microseconds; with spindles, the time of a spindle for one read.
    pub latency_us: Option<f64>,
    /// Processors of the same speed.
    pub cores: Option<f64>,
    /// Time of one flush of the log in microseconds.
    pub flush_us: Option<f64>,
}

/// The prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Configuration that the model was fitted to.
    pub fitted_on: String,
    /// Its users.
    pub fitted_users: u32,
    /// Its measured orders per minute.
    pub measured_oets_per_minute: f64,
    /// The other measured configurations.
    pub other_configurations: Vec<String>,
    /// Whether the first measured configuration was used because none was named.
    pub arm_by_default: bool,
    /// Deviation of the model from its own measurement, percent; above 0 if it predicts more.
    pub residual_percent: f64,
    /// Why the prediction is not reliable; empty if there are no doubts.
    pub doubts: Vec<String>,
    /// Source of each fitted value.
    pub fitted: Vec<String>,
    /// The changes.
    pub changed: Vec<String>,
    /// The requested point.
    pub predicted: Point,
    /// The same system with other numbers of users.
    pub curve: Vec<Point>,
}

/// One predicted point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Users.
    pub users: u32,
    /// Orders per minute.
    pub oets_per_minute: f64,
    /// Time of one order with its share of the other transactions, in milliseconds.
    pub round_ms: f64,
    /// Busy share of the processors, 0 to 1.
    pub cpu_busy: f64,
    /// Block reads in flight or waiting for a slot.
    pub reads_in_flight: f64,
    /// The bottleneck.
    pub bottleneck: BottleneckKind,
    /// Share of a user's time by station.
    pub shares: Vec<(String, f64)>,
}

/// Fits the model and predicts.
///
/// # Errors
/// No configuration can be fitted, or a change is invalid.
pub fn what_if(comparison: &Comparison, change: &WhatIf) -> Result<Answer, LabError> {
    let arm = choose(comparison, change.arm.as_deref())?;
    let fitted = fit(comparison, arm)?;
    let (system, changed) = changed(&fitted, change)?;
    let users = change.users.unwrap_or(fitted.users);
    if !(1..=USERS_MAX).contains(&users) {
        return Err(LabError::plan(format!("predict for {users} users"), &format!("users lie between 1 and {USERS_MAX}")));
    }
    let point = |users: u32| Point::from(system.predict(users));
    let mut steps: Vec<u32> = (0..).map(|power| 1 << power).take_while(|step| *step <= (users * 4).min(USERS_MAX)).collect();
    steps.extend([users, fitted.users]);
    steps.sort_unstable();
    steps.dedup();
    Ok(Answer {
        fitted_on: fitted.arm.clone(),
        fitted_users: fitted.users,
        measured_oets_per_minute: fitted.oets_per_minute,
        other_configurations: measured(comparison).map(|path| path.arm.clone()).filter(|name| *name != fitted.arm).collect(),
        arm_by_default: change.arm.is_none(),
        residual_percent: fitted.residual_percent,
        doubts: doubts(comparison, arm, &fitted),
        fitted: fitted.steps.clone(),
        changed,
        predicted: point(users),
        curve: steps.into_iter().map(point).collect(),
    })
}

/// Why a prediction from this configuration is not reliable.
fn doubts(comparison: &Comparison, arm: &PathResult, fitted: &Fit) -> Vec<String> {
    let mut doubts = Vec::new();
    if fitted.residual_percent.abs() > RESIDUAL_MAX {
        let taken = arm.cpu.as_ref().map_or(0.0, Cpu::foreign_share) * 100.0;
        let others = if taken >= 1.0 { format!("; others took {taken:.0} % of the processors during it") } else { String::new() };
        let (percent, side) = (fitted.residual_percent.abs(), if fitted.residual_percent < 0.0 { "below" } else { "above" });
        doubts.push(format!(
            "the model is {percent:.0} % {side} the measurement that it was fitted to (at most {RESIDUAL_MAX:.0} % is accepted){others}"
        ));
    }
    doubts.extend(doubt(arm).map(|why| format!("the measurement of {}: {why}", arm.arm)));
    doubts.extend(comparison.not_a_result.iter().map(|why| format!("the comparison is not a result: {why}")));
    doubts
}

/// The prediction as text.
#[must_use]
pub fn render(answer: &Answer) -> String {
    let mut text = String::new();
    for why in &answer.doubts {
        text += &format!("NOT TO BE TRUSTED: {why}\n");
    }
    let by_default = if answer.arm_by_default && !answer.other_configurations.is_empty() {
        format!(" (the first measured; --configuration chooses another: {})", answer.other_configurations.join(", "))
    } else {
        String::new()
    };
    text += &format!(
        "fitted on {}{by_default} at {} users, which reached {:.0} orders/min; the model gives {:+.1} % there:\n",
        answer.fitted_on, answer.fitted_users, answer.measured_oets_per_minute, answer.residual_percent
    );
    for line in &answer.fitted {
        text += &format!("  {line}\n");
    }
    for line in &answer.changed {
        text += &format!("changed: {line}\n");
    }
    let found = &answer.predicted;
    text += &format!(
        "\npredicted at {} users: {:.0} orders/min, {:.1} ms per order, processors {:.0} % busy, {:.1} reads in flight; limit: {}\n\n",
        found.users,
        found.oets_per_minute,
        found.round_ms,
        found.cpu_busy * 100.0,
        found.reads_in_flight,
        bottleneck_name(&found.bottleneck)
    );
    text += "  users  orders/min  ms per order  CPU %  reads in flight  limit\n";
    for point in &answer.curve {
        text += &format!(
            "{:>7}  {:>10.0}  {:>12.1}  {:>5.0}  {:>15.1}  {}\n",
            point.users,
            point.oets_per_minute,
            point.round_ms,
            point.cpu_busy * 100.0,
            point.reads_in_flight,
            bottleneck_name(&point.bottleneck)
        );
    }
    text
}

impl From<Predicted> for Point {
    fn from(found: Predicted) -> Self {
        Self {
            users: found.users,
            oets_per_minute: found.oets_per_minute,
            round_ms: found.round_ms,
            cpu_busy: found.cpu_busy,
            reads_in_flight: found.reads_in_flight,
            bottleneck: found.bottleneck,
            shares: found.shares,
        }
    }
}

/// The configurations that ran.
fn measured(comparison: &Comparison) -> impl Iterator<Item = &PathResult> {
    comparison.paths.iter().filter(|path| path.status != PathStatus::Skipped)
}

fn choose<'a>(comparison: &'a Comparison, arm: Option<&str>) -> Result<&'a PathResult, LabError> {
    let names: Vec<&str> = measured(comparison).map(|path| path.arm.as_str()).collect();
    let found = measured(comparison).find(|path| arm.is_none_or(|arm| path.arm == arm));
    found.ok_or_else(|| {
        let what = arm.map_or_else(
            || "predict: no path was measured".to_owned(),
            |arm| format!("predict from {arm}: the record has no such configuration"),
        );
        LabError::unknown(what, arm.unwrap_or_default(), "the measured ones are", &names)
    })
}

fn changed(fitted: &Fit, change: &WhatIf) -> Result<(System, Vec<String>), LabError> {
    let mut system = fitted.system.clone();
    let mut words = Vec::new();
    let positive = |name: &str, value: f64| {
        let sound = value.is_finite() && value > 0.0;
        sound.then_some(value).ok_or_else(|| LabError::plan(format!("predict with a {name} of {value}"), "it lies above 0"))
    };
    if let Some(slots) = change.slots {
        system.slots = (slots > 0).then_some(slots);
        words.push(system.slots.map_or_else(|| "no bound on reads in flight".to_owned(), |slots| format!("{slots} slots")));
    }
    let read_s = change.latency_us.map(|us| positive("latency", us).map(|us| us / 1e6)).transpose()?;
    match (change.spindles, read_s, system.storage) {
        (Some(count), _, before) => {
            let count =
                if count == 0 { return Err(LabError::plan("predict with 0 spindles".to_owned(), "at least 1")) } else { count };
            let service_s = read_s.unwrap_or(match before {
                Storage::Latency { seconds } => seconds,
                Storage::Spindles { service_s, .. } => service_s,
            });
            if let Storage::Spindles { service_s: found_s, .. } = before {
                system.spindle_writes = system.spindle_writes.slower(service_s / found_s.max(f64::MIN_POSITIVE));
            }
            system.storage = Storage::Spindles { count, service_s, overhead_s: 0.0, cache_hit: 0.0 };
            words.push(format!("{count} spindles that work {:.0} us for a read", service_s * 1e6));
        }
        (None, Some(seconds), _) => {
            system.storage = Storage::Latency { seconds };
            words.push(format!("a read takes {:.0} us", seconds * 1e6));
        }
        (None, None, _) => {}
    }
    if let Some(cores) = change.cores {
        system.cores = positive("number of processors", cores)?;
        words.push(format!("{cores} processors"));
    }
    if let Some(us) = change.flush_us {
        system.flush_s = positive("flush time", us)? / 1e6;
        words.push(format!("a flush of the log takes {us:.0} us"));
    }
    Ok((system, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::fit::tests::{arm, comparison, system};

    #[test]
    fn changed_parts_move_the_answer_the_right_way() {
        let mut comparison = comparison();
        comparison.paths = vec![PathResult::default(), arm("dnfs", &system(), 8)];
        let ask = |change: WhatIf| what_if(&comparison, &change).unwrap().predicted.oets_per_minute;
        let base = ask(WhatIf::default());
        assert!((base / comparison.paths[1].oets_per_minute.as_ref().unwrap().mean - 1.0).abs() < 0.01);
        assert!(ask(WhatIf { latency_us: Some(400.0), ..WhatIf::default() }) > base * 1.5);
        assert!(ask(WhatIf { slots: Some(1), ..WhatIf::default() }) < base * 0.5);
        assert!(ask(WhatIf { users: Some(2), ..WhatIf::default() }) < base * 0.4);
        assert!(ask(WhatIf { spindles: Some(2), ..WhatIf::default() }) < base * 0.6);
        let text = render(&what_if(&comparison, &WhatIf { users: Some(64), ..WhatIf::default() }).unwrap());
        assert!(text.contains("predicted at 64 users") && text.contains("fitted on dnfs at 8 users"), "{text}");
    }

    #[test]
    fn an_answer_names_its_arm_how_far_the_model_is_and_why_not_to_trust_it() {
        let mut comparison = comparison();
        comparison.paths = vec![arm("dnfs", &system(), 8), arm("local", &system(), 8)];
        let ask = |comparison: &Comparison, arm: Option<&str>| {
            what_if(comparison, &WhatIf { arm: arm.map(str::to_owned), ..WhatIf::default() }).unwrap()
        };
        let sound = render(&ask(&comparison, None));
        assert!(
            sound.starts_with("fitted on dnfs (the first measured; --configuration chooses another: local) at 8 users"),
            "{sound}"
        );
        assert!(
            !render(&ask(&comparison, Some("local"))).contains("--configuration"),
            "a configuration that was named needs no explanation"
        );

        comparison.not_a_result = vec!["another process took 40 % of the processors".to_owned()];
        let doubtful = render(&ask(&comparison, None));
        assert!(doubtful.starts_with("NOT TO BE TRUSTED: the comparison is not a result: another process"), "{doubtful}");

        comparison.not_a_result.clear();
        // Other programs used three quarters of the processors, so the measurement is lower than the model's value for this host.
        comparison.paths[0].cpu = Some(Cpu { others_busy_share: 0.75, ..Cpu::default() });
        for cpu in comparison.paths[0].runs.iter_mut().flat_map(|run| run.cpu.values_mut()) {
            cpu.user_s *= 3.0;
        }
        let missed = ask(&comparison, None);
        assert!(missed.residual_percent > RESIDUAL_MAX, "{}", missed.residual_percent);
        assert!(render(&missed).starts_with("NOT TO BE TRUSTED: the model is "), "{}", render(&missed));
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        let mut comparison = comparison();
        comparison.paths = vec![arm("dnfs", &system(), 8)];
        for change in [
            WhatIf { arm: Some("none".into()), ..WhatIf::default() },
            WhatIf { users: Some(0), ..WhatIf::default() },
            WhatIf { cores: Some(0.0), ..WhatIf::default() },
            WhatIf { latency_us: Some(f64::NAN), ..WhatIf::default() },
            WhatIf { spindles: Some(0), ..WhatIf::default() },
        ] {
            assert!(what_if(&comparison, &change).unwrap_err().hint().is_some(), "{change:?}");
        }
    }
}
