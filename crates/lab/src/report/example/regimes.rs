//! Further scenarios of the example: a single round on an array, a fixed load with repeats, one that was left out.

use results::compare::{Bottleneck, Comparison, PathResult, PathStatus, RegimeResult, RegimeStatus};
use results::statistics::MeanInterval;

/// The example with further scenarios, derived from its own paths.
pub(crate) fn with_regimes(whole: Comparison) -> Comparison {
    let array = regime(&whole, "array", 0.3, |path| {
        path.medium = Some("fc15k,spindles=8,nvram=on".into());
        let evidence =
            "sessions read blocks 81 % of their time; operations wait 9.1 ms for their spindle, which serves them in 5.5 ms";
        path.bottleneck = Some(Bottleneck { kind: "disk".into(), evidence: evidence.into(), ..Bottleneck::default() });
    });
    let array = RegimeResult {
        medium: Some("fc15k,spindles=8,nvram=on".into()),
        look: true,
        load: "users=32".into(),
        verdict: "One round, NOT A RESULT: one run on each path.".into(),
        not_a_result: vec!["one run on each path".into()],
        notes: vec!["one run has no interval: --repeats 3 gives one".into()],
        ..array
    };
    let fixed = RegimeResult {
        offered_orders_per_minute: Some(24_000.0),
        load: "users=16,model=open,rate=930.4/s,arrivals=poisson".into(),
        verdict: "EXAMPLE: At 24,000 orders per minute on every path: Direct NFS takes 1.12 x the database's CPU per order of local disk."
            .into(),
        ..regime(&whole, "fixed load", 0.6, |_| {})
    };
    let left_out = RegimeResult {
        name: "a regime with a long name".into(),
        status: RegimeStatus::LeftOut,
        reason: Some("one round of it takes about 2:16, and 1:02 of the budget of 12:00 were left; --budget sets more".into()),
        medium: Some("nvme".into()),
        load: "users=64".into(),
        look: true,
        ..RegimeResult::default()
    };
    Comparison { regimes: vec![array, fixed, left_out], ..whole }
}

/// A scenario in which every path completes `share` of its orders.
fn regime(whole: &Comparison, name: &str, share: f64, change: impl Fn(&mut PathResult)) -> RegimeResult {
    let mut paths = whole.paths.clone();
    for path in paths.iter_mut().filter(|path| path.status != PathStatus::Skipped) {
        path.runs.iter_mut().for_each(|run| run.oets_per_minute *= share);
        let values: Vec<f64> = path.runs.iter().map(|run| run.oets_per_minute).collect();
        path.oets_per_minute = MeanInterval::of(&values);
        change(path);
    }
    RegimeResult {
        name: name.into(),
        status: RegimeStatus::Measured,
        valid: true,
        plan: whole.plan.clone(),
        against_first: whole.against_first.clone(),
        paths,
        ..RegimeResult::default()
    }
}
