//! The load at which the processors are saturated. Up to it, throughput is the number in flight divided by the latency of the
//! storage; above it, users wait for the processors, and more in flight does not increase the throughput.

use results::compare::{Bottleneck, BottleneckKind, Comparison, LoadModel, PathResult, PathStatus, Run};
use results::curves::CurvePoint;

use super::figures::HOST_BUSY_LIMIT;
use super::{OTHERS_BUSY_MAX, share};
use crate::report::words::bottleneck_words;

/// Smallest share of in-flight / latency that counts as reaching it: 5 % are allowed for the path to the storage and back.
const REACHED_MIN: f64 = 0.95;

/// The basis of the expected throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Basis {
    /// Reads in flight divided by the modelled medium's own time for one.
    Medium,
    /// Users divided by the time of an order at the smallest load, which had this number of users.
    LeastLoad(u32),
    /// Users divided by their own response time: the only basis for a single load without a modelled medium.
    OneLoad,
}

/// One load: its expected and its measured throughput per second; the shares of the host's processors that
/// were busy in total and with processes outside the comparison, 0 to 1; the bottleneck, if one was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) users: u32,
    pub(crate) expected_per_s: f64,
    pub(crate) found_per_s: f64,
    pub(crate) busy: f64,
    others: f64,
    limit: Option<Bottleneck>,
}

/// Loads of configurations that differ only in their load, and where the processors are saturated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Saturation {
    /// Name of the configurations without their load.
    pub(crate) arm: String,
    /// The counted unit: `reads`, `orders` or `transactions`.
    pub(crate) counted: &'static str,
    /// Sorted by users.
    pub(crate) steps: Vec<Step>,
    /// The finding as a sentence without its full stop.
    pub(crate) text: String,
}

impl Step {
    /// Throughput divided by in-flight / latency.
    pub(crate) fn reached(&self) -> f64 {
        share(self.found_per_s, self.expected_per_s)
    }

    fn used_up(&self) -> bool {
        self.busy >= HOST_BUSY_LIMIT && self.others <= OTHERS_BUSY_MAX
    }
}

/// The findings of a comparison: one entry for each group of configurations that differ only in their load, and for each curve of a
/// search. Configurations that are not valid, and loads with their own rate, are ignored.
pub(crate) fn saturation(comparison: &Comparison) -> Vec<Saturation> {
    let mut left: Vec<&PathResult> = comparison.paths.iter().filter(|path| usable(path)).collect();
    let mut found = Vec::new();
    while let Some(first) = left.first().copied() {
        let (family, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|path| differs_by_load_alone(first, path));
        left = others;
        let curve = curve_of(comparison, &first.arm);
        found.extend(of_family(&family));
        if family.len() == 1 && curve.len() > 1 {
            found.extend(of_curve(&first.arm, &curve));
        }
    }
    found
}

fn usable(path: &PathResult) -> bool {
    let closed =
        path.runs.iter().all(|run| run.load.as_ref().is_some_and(|load| load.model == LoadModel::Closed && load.users > 0));
    path.status == PathStatus::Measured && path.oets_per_minute.is_some() && path.cpu.is_some() && closed && !path.runs.is_empty()
}

fn differs_by_load_alone(one: &PathResult, other: &PathResult) -> bool {
    let kept = |path: &PathResult| {
        let (name, label, target) = (path.name.clone(), path.label.clone(), path.target.clone());
        (name, label, target, path.medium.clone(), path.layout_name.clone(), path.tuning.clone())
    };
    kept(one) == kept(other)
}

fn curve_of<'a>(comparison: &'a Comparison, arm: &str) -> Vec<&'a CurvePoint> {
    let mine = comparison.curve.iter().filter(|point| point.arm == arm && point.users > 0 && point.offered_per_minute.is_none());
    let mut points: Vec<&CurvePoint> = mine.collect();
    points.sort_by_key(|point| point.users);
    points
}

fn of_family(family: &[&PathResult]) -> Option<Saturation> {
    let mut family = family.to_vec();
    family.sort_by_key(|path| users(path));
    let first = *family.first()?;
    let load = first.load_level.as_ref().map_or_else(String::new, |load| format!(" {load}"));
    let name = first.arm.strip_suffix(&load).unwrap_or(&first.arm);
    let by_medium: Option<Vec<Step>> = family.iter().map(|path| by_medium(path)).collect();
    if let Some(steps) = by_medium {
        return Some(conclude(name, Basis::Medium, steps));
    }
    if family.len() == 1 {
        return Some(conclude(name, Basis::OneLoad, vec![by_response(first)?]));
    }
    let orders_per_s = |path: &PathResult| path.oets_per_minute.as_ref().map_or(0.0, |oets| oets.mean / 60.0);
    let least = (users(first), orders_per_s(first));
    let steps = family.iter().map(|path| step(path, by_least(least, users(path)), orders_per_s(path)));
    (least.1 > 0.0).then(|| conclude(name, Basis::LeastLoad(least.0), steps.collect()))
}

fn of_curve(arm: &str, points: &[&CurvePoint]) -> Option<Saturation> {
    let first = points.first()?;
    let least = (first.users, first.oets_per_minute / 60.0);
    let known: Option<Vec<f64>> = points.iter().map(|point| point.host_busy_share).collect();
    let steps = points.iter().zip(known?).map(|(point, busy)| Step {
        users: point.users,
        expected_per_s: by_least(least, point.users),
        found_per_s: point.oets_per_minute / 60.0,
        busy,
        others: 0.0,
        limit: None,
    });
    (least.1 > 0.0).then(|| conclude(arm, Basis::LeastLoad(least.0), steps.collect()))
}

/// Orders per second if each of `users` completed as many as a user at the smallest load.
fn by_least((least_users, least_per_s): (u32, f64), users: u32) -> f64 {
    least_per_s / f64::from(least_users.max(1)) * f64::from(users)
}

fn users(path: &PathResult) -> u32 {
    path.runs.first().and_then(|run| run.load.as_ref()).map_or(0, |load| load.users)
}

fn step(path: &PathResult, expected_per_s: f64, found_per_s: f64) -> Step {
    let cpu = path.cpu.clone().unwrap_or_default();
    let limit = path.bottleneck.clone();
    Step { users: users(path), expected_per_s, found_per_s, busy: cpu.host_busy_share, others: cpu.foreign_share(), limit }
}

/// Reads of the medium, compared with the sessions in a read divided by the medium's time for one.
fn by_medium(path: &PathResult) -> Option<Step> {
    let sum = |pick: &dyn Fn(&Run) -> f64| path.runs.iter().map(pick).sum::<f64>();
    let seconds = sum(&|run| run.measured_s);
    let reads = sum(&|run| run.medium.as_ref().map_or(0.0, |medium| medium.reads as f64));
    let medium_s = sum(&|run| run.medium.as_ref().map_or(0.0, |medium| medium.reads as f64 * medium.read_us / 1e6));
    let in_flight = share(sum(&|run| run.database.block_read_ms) / 1e3, seconds);
    let latency_s = share(medium_s, reads);
    (in_flight > 0.0 && latency_s > 0.0).then(|| step(path, in_flight / latency_s, reads / seconds))
}

/// Transactions per second, compared with users divided by their response time.
fn by_response(path: &PathResult) -> Option<Step> {
    let loads = || path.runs.iter().filter_map(|run| run.load.as_ref());
    let transactions = loads().map(|load| load.transactions as f64).sum::<f64>();
    let response_s = share(loads().map(|load| load.response_s).sum(), transactions);
    let seconds: f64 = path.runs.iter().map(|run| run.measured_s).sum();
    (response_s > 0.0 && seconds > 0.0).then(|| step(path, f64::from(users(path)) / response_s, transactions / seconds))
}

fn conclude(arm: &str, basis: Basis, steps: Vec<Step>) -> Saturation {
    let (counted, law) = match basis {
        Basis::Medium => ("reads", "reads in flight / the medium's latency".to_owned()),
        Basis::LeastLoad(least) => ("orders", format!("users / the time of an order at {}", so_many(least))),
        Basis::OneLoad => ("transactions", "users / response time".to_owned()),
    };
    let text = match &steps[..] {
        [only] => one_load(only, counted, &law),
        _ => ladder(&steps, &format!("{counted} per second are {law}")),
    };
    Saturation { arm: arm.to_owned(), counted, steps, text }
}

/// Text for one load: its distance from the law and from saturated processors.
fn one_load(step: &Step, counted: &str, law: &str) -> String {
    let within = if step.reached() > 2.0 - REACHED_MIN {
        "more than 5 % above it"
    } else if step.reached() >= REACHED_MIN {
        "within 5 %"
    } else {
        "more than 5 % below it"
    };
    let far = if step.others > OTHERS_BUSY_MAX {
        format!("processes outside the comparison use {} of the processors, so no processor limit is given", percent(step.others))
    } else if step.used_up() {
        format!("the processors are {} busy and carry no more", percent(step.busy))
    } else {
        let ours = (step.busy - step.others).max(f64::MIN_POSITIVE);
        let factor = (HOST_BUSY_LIMIT - step.others) / ours;
        let room = if factor < 100.0 { format!("about {factor:.1}") } else { "more than 100".to_owned() };
        format!("the processors are {} busy and would carry {room} times this load", percent(step.busy))
    };
    format!("at {} {counted} per second are {:.2} times {law} ({within}); {far}", so_many(step.users), step.reached())
}

/// Text for several loads: where the law ends, and whether the processors end it.
fn ladder(steps: &[Step], law: &str) -> String {
    let within = |step: &Step| step.reached() >= REACHED_MIN;
    let Some(short) = steps.iter().position(|step| !within(step)) else {
        let last = steps.last().map_or_else(String::new, |step| {
            let busy = percent(step.busy);
            format!("at {}, the most measured, the processors are {busy} busy and still carry it", so_many(step.users))
        });
        return format!("{law} within 5 % at every load; {last}");
    };
    if steps.iter().skip(short).any(within) {
        let of = |wanted: bool| {
            let users: Vec<String> =
                steps.iter().filter(|step| within(step) == wanted).map(|step| step.users.to_string()).collect();
            users.join(", ")
        };
        return format!("{law} within 5 % at {} users and not at {}: the loads do not show where it ends", of(true), of(false));
    }
    let (below, beyond) = steps.split_at(short);
    let begin = below.last().map_or_else(
        || format!("it is at no load within 5 % that {law}"),
        |last| format!("up to {} {law} (within 5 %)", so_many(last.users)),
    );
    format!("{begin}; {}", end(beyond))
}

/// Text for the end of the law: the first loads beyond it.
fn end(beyond: &[Step]) -> String {
    let Some(first) = beyond.first() else { return String::new() };
    let at = |step: &Step| format!("at {} it is {:.2} of that", so_many(step.users), step.reached());
    if first.others > OTHERS_BUSY_MAX {
        let others = percent(first.others);
        return format!(
            "{}, but processes outside the comparison use {others} of the processors: no processor limit is given",
            at(first)
        );
    }
    match beyond.iter().find(|step| step.used_up()) {
        Some(used_up) if used_up == first => {
            format!("{} and the processors are {} busy: they carry no more", at(first), percent(first.busy))
        }
        Some(used_up) => format!(
            "{} with the processors {} busy; {} and they are {} busy: they carry no more",
            at(first),
            percent(first.busy),
            at(used_up),
            percent(used_up.busy)
        ),
        None if first.limit.as_ref().is_some_and(|found| found.kind == BottleneckKind::HostCpu) => {
            format!("{}: the processors are {} busy, and sessions queue for them", at(first), percent(first.busy))
        }
        None => {
            let limit = first.limit.as_ref().map_or_else(String::new, |limit| format!(" ({})", bottleneck_words(limit)));
            let most = beyond.iter().map(|step| step.busy).fold(0.0, f64::max);
            format!(
                "{}, though the processors are never more than {} busy: something else ends it{limit}",
                at(first),
                percent(most)
            )
        }
    }
}

fn so_many(users: u32) -> String {
    if users == 1 { "1 user".to_owned() } else { format!("{users} users") }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use results::compare::{Cpu, DatabaseCounters, MediumCounts, RunLoad};
    use results::statistics::MeanInterval;

    use super::*;

    /// A configuration on a medium of 8 ms whose reads take `read_ms` by the database's measurement.
    pub(crate) fn arm(users: u32, read_ms: f64, busy: f64) -> PathResult {
        let reads = f64::from(users) * 30_000.0 / read_ms;
        let medium = MediumCounts { reads: reads as u64, read_us: 8_000.0, ..MediumCounts::default() };
        let transactions = reads as u64 / 5;
        let load =
            RunLoad { model: "closed".into(), users, transactions, response_s: f64::from(users) * 30.0, ..RunLoad::default() };
        PathResult {
            name: "dnfs".into(),
            arm: format!("dnfs users={users}"),
            load_level: Some(format!("users={users}")),
            medium: Some("spindles=80,service_ms=8".into()),
            status: PathStatus::Measured,
            oets_per_minute: MeanInterval::of(&[reads]),
            cpu: Some(Cpu { host_busy_share: busy, ..Cpu::default() }),
            runs: vec![Run {
                measured_s: 30.0,
                load: Some(load),
                medium: Some(medium),
                database: DatabaseCounters { block_read_ms: reads * read_ms, ..DatabaseCounters::default() },
                ..Run::default()
            }],
            ..PathResult::default()
        }
    }

    fn found(paths: Vec<PathResult>) -> Vec<Saturation> {
        saturation(&Comparison { paths, ..Comparison::default() })
    }

    fn only(paths: Vec<PathResult>) -> Saturation {
        let mut all = found(paths);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn a_ladder_of_loads_says_where_the_processors_stop_carrying_it() {
        let carried = only(vec![arm(64, 10.0, 0.96), arm(8, 8.1, 0.2), arm(32, 8.3, 0.7)]);
        assert_eq!((carried.arm.as_str(), carried.counted), ("dnfs", "reads"));
        let users: Vec<u32> = carried.steps.iter().map(|step| step.users).collect();
        assert_eq!(users, [8, 32, 64]);
        assert!((carried.steps[2].reached() - 0.8).abs() < 1e-3, "{carried:?}");
        assert_eq!(
            carried.text,
            "up to 32 users reads per second are reads in flight / the medium's latency (within 5 %); at 64 users it is 0.80 \
             of that and the processors are 96 % busy: they carry no more"
        );
        let slow = only(vec![arm(8, 8.1, 0.2), arm(32, 8.8, 0.8), arm(64, 11.0, 0.97)]);
        assert!(slow.text.contains("at 32 users it is 0.91 of that with the processors 80 % busy; at 64 users"), "{}", slow.text);
    }

    #[test]
    fn processors_that_are_not_used_up_are_never_named_as_the_end() {
        let carry_on = only(vec![arm(8, 8.1, 0.2), arm(64, 8.2, 0.93)]);
        assert!(
            carry_on.text.contains("at every load; at 64 users, the most measured, the processors are 93 % busy and still carry")
        );
        let mut slots = arm(64, 12.0, 0.5);
        slots.bottleneck = Some(results::compare::Bottleneck { kind: BottleneckKind::LockWait, ..Default::default() });
        let other = only(vec![arm(8, 8.1, 0.2), slots]);
        assert!(other.text.ends_with("never more than 50 % busy: something else ends it (lock waits)"), "{}", other.text);
        let mut queueing = arm(64, 12.0, 0.78);
        queueing.bottleneck = Some(results::compare::Bottleneck { kind: BottleneckKind::HostCpu, ..Default::default() });
        let queueing = only(vec![arm(8, 8.1, 0.2), queueing]);
        assert!(queueing.text.ends_with("78 % busy, and sessions queue for them"), "{}", queueing.text);
        let mut disturbed = arm(64, 12.0, 0.97);
        disturbed.cpu.as_mut().unwrap().others_busy_share = 0.4;
        let disturbed = only(vec![arm(8, 8.1, 0.2), disturbed]);
        assert!(disturbed.text.ends_with("use 40 % of the processors: no processor limit is given"), "{}", disturbed.text);
        let unclear = only(vec![arm(8, 9.0, 0.2), arm(16, 8.1, 0.3), arm(32, 10.0, 0.97)]);
        assert!(unclear.text.ends_with("at 16 users and not at 8, 32: the loads do not show where it ends"), "{}", unclear.text);
        for carried in [carry_on, other, queueing, disturbed, unclear] {
            assert!(!carried.text.contains("carry no more"), "{}", carried.text);
        }
        let never = only(vec![arm(8, 9.0, 0.2), arm(16, 9.0, 0.3)]);
        assert!(never.text.starts_with("it is at no load within 5 %"), "{}", never.text);
    }

    #[test]
    fn one_load_says_how_far_it_is_from_both() {
        let one = only(vec![arm(16, 8.2, 0.45)]);
        assert_eq!(
            one.text,
            "at 16 users reads per second are 0.98 times reads in flight / the medium's latency (within 5 %); the processors are \
             45 % busy and would carry about 2.0 times this load"
        );
        let full = only(vec![arm(16, 16.0, 0.97)]);
        assert!(
            full.text.contains("0.50 times reads in flight")
                && full.text.contains("(more than 5 % below it)")
                && full.text.ends_with("97 % busy and carry no more"),
            "{}",
            full.text
        );
        let mut plain = arm(16, 8.2, 0.45);
        plain.runs[0].medium = None;
        let plain = only(vec![plain]);
        assert_eq!(plain.counted, "transactions");
        assert!((plain.steps[0].reached() - 1.0).abs() < 1e-6, "{plain:?}");
    }

    #[test]
    fn without_a_modelled_medium_the_least_load_gives_the_latency() {
        let plain = |users: u32, orders: f64, busy: f64| {
            let mut path = PathResult { medium: None, oets_per_minute: MeanInterval::of(&[orders]), ..arm(users, 8.0, busy) };
            path.runs[0].medium = None;
            path
        };
        let steps = only(vec![plain(1, 1_000.0, 0.3), plain(2, 1_960.0, 0.6), plain(4, 2_800.0, 0.98)]);
        assert!(
            steps.text.starts_with("up to 2 users orders per second are users / the time of an order at 1 user (within 5 %)")
        );
        assert!(steps.text.ends_with("at 4 users it is 0.70 of that and the processors are 98 % busy: they carry no more"));
        let point = |users: u32, oets: f64, busy: f64| CurvePoint {
            arm: "local".into(),
            users,
            oets_per_minute: oets,
            host_busy_share: Some(busy),
            ..CurvePoint::default()
        };
        let mut paths = vec![plain(2, 1_960.0, 0.6)];
        paths[0].arm = "local".into();
        let curve = vec![point(4, 2_800.0, 0.98), point(1, 1_000.0, 0.3)];
        let swept = saturation(&Comparison { paths, curve, ..Comparison::default() });
        assert_eq!(swept.len(), 2);
        assert!(swept[1].text.contains("up to 1 user ") && swept[1].text.contains("they carry no more"), "{}", swept[1].text);
    }

    #[test]
    fn arms_that_differ_otherwise_or_are_not_valid_or_not_closed_are_kept_apart() {
        let other = PathResult { tuning: "tuned".into(), ..arm(64, 10.0, 0.96) };
        assert_eq!(found(vec![arm(8, 8.1, 0.2), other]).len(), 2);
        let void = PathResult { status: PathStatus::NotValid, ..arm(64, 10.0, 0.96) };
        assert_eq!(only(vec![arm(8, 8.1, 0.2), void]).steps.len(), 1);
        let mut paced = arm(8, 8.1, 0.2);
        paced.runs[0].load.as_mut().unwrap().model = "paced".into();
        assert_eq!(found(vec![paced, PathResult::default()]), []);
    }
}
