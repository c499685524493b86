//! Compares a run with the ranges of the specification: the rules, the measured values, the allowed values.
//!
//! A value outside its range that chance can explain at this number of draws is reported as not judged,
//! not as violated. The rules for paced terminals do not apply to a run without them.
//! A run that satisfies every rule is still not comparable to published results.

use results::orders_run::{Conform, ConformItem, OrdersRun, TransactionRecord};

use crate::pacing::{CEILING_PER_MINUTE, FLOOR_PER_MINUTE, TERMINALS_PER_WAREHOUSE};

/// Number of draws below which no rule is judged.
const DRAWN_MIN: f64 = 100.0;
/// Number of responses below which a 90th percentile is not judged.
const RESPONSES_MIN: u64 = 20;
/// Standard errors that chance explains: 1 of 1,000 correct values exceeds them.
const CHANCE: f64 = 3.3;
/// Standard deviation of the lines of an order: uniform from 5 to 15.
const LINES_DEVIATION: f64 = 3.162;
/// Minutes of the specification's shortest measured interval (clause 5.5.2.1).
const INTERVAL_MIN: f64 = 120.0;

/// Compares a run with the rules.
#[must_use]
pub fn conform(run: &OrdersRun) -> Conform {
    let mut items = mix_items(run);
    items.extend(drawn_items(run));
    if run.load_model == "paced" {
        items.extend(ceiling_items(run));
    }
    items.extend(response_items(run));
    items.extend(offered_item(run));
    let judged = items.iter().filter(|item| item.not_judged.is_none()).count();
    Conform { passed: judged > 0 && items.iter().all(|item| item.passed), notes: notes(run), items }
}

fn notes(run: &OrdersRun) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(scale) = run.time_scale {
        notes.push(format!("times scaled by {scale}: not the pacing of the specification"));
    }
    if run.load_model != "paced" {
        notes.push(format!("load model {}: no keying and think times", run.load_model));
    }
    if run.terminals != "home-warehouse" {
        notes.push(
            "a terminal draws a warehouse for each transaction (--terminals all); the specification's stay with one".to_owned(),
        );
    }
    if run.deliveries != "deferred" {
        notes.push("deliveries are done at once, not queued".to_owned());
    }
    let minutes = run.measured_s / 60.0;
    if minutes < INTERVAL_MIN {
        notes.push(format!("interval of {minutes:.1} min; the specification's is at least {INTERVAL_MIN:.0}"));
    }
    notes
}

/// One rule.
struct Rule {
    name: String,
    clause: &'static str,
    least: Option<f64>,
    most: Option<f64>,
}

impl Rule {
    fn new(name: impl Into<String>, clause: &'static str, least: impl Into<Option<f64>>, most: impl Into<Option<f64>>) -> Self {
        Self { name: name.into(), clause, least: least.into(), most: most.into() }
    }

    fn item(self, found: f64, passed: bool, not_judged: Option<String>) -> ConformItem {
        let Self { name, clause, least, most } = self;
        ConformItem { name, clause: clause.to_owned(), found, least, most, passed, not_judged }
    }

    /// Judges the rule; `error` returns the standard error of `found` if the true value is the given bound.
    fn judge(self, found: f64, drawn: f64, error: impl Fn(f64) -> f64) -> ConformItem {
        if drawn < DRAWN_MIN {
            return self.item(found, true, Some(format!("only {drawn:.0} drawn")));
        }
        let broken = self.least.filter(|least| found < *least).or(self.most.filter(|most| found > *most));
        let Some(bound) = broken else { return self.item(found, true, None) };
        let chance = CHANCE * error(bound);
        if (found - bound).abs() <= chance {
            let why = format!("outside, but by no more than chance explains for {drawn:.0} draws (±{chance:.2})");
            return self.item(found, true, Some(why));
        }
        self.item(found, false, None)
    }

    /// Judges a share in per cent.
    fn judge_share(self, found: f64, drawn: f64) -> ConformItem {
        self.judge(found, drawn, |bound| {
            let share = (bound / 100.0).clamp(0.0, 1.0);
            100.0 * (share * (1.0 - share) / drawn).sqrt()
        })
    }

    fn concerns_not(self, found: f64, why: &str) -> ConformItem {
        self.item(found, true, Some(why.to_owned()))
    }
}

/// The five transactions with their names and shares of the mix.
fn rows(run: &OrdersRun) -> [(&'static str, &TransactionRecord, f64); 5] {
    let (records, mix) = (&run.transactions, &run.mix_percent);
    [
        ("New-Order", &records.new_order, mix.new_order),
        ("Payment", &records.payment, mix.payment),
        ("Order-Status", &records.order_status, mix.order_status),
        ("Delivery", &records.delivery, mix.delivery),
        ("Stock-Level", &records.stock_level, mix.stock_level),
    ]
}

fn done(record: &TransactionRecord) -> f64 {
    record.finished() as f64
}

fn mix_items(run: &OrdersRun) -> Vec<ConformItem> {
    let all: f64 = rows(run).iter().map(|(_, record, _)| done(record)).sum();
    let bounds = [(None, Some(45.0)), (Some(43.0), None), (Some(4.0), None), (Some(4.0), None), (Some(4.0), None)];
    rows(run)
        .into_iter()
        .zip(bounds)
        .map(|((name, _, share), (least, most))| {
            Rule::new(format!("{name}, % of mix"), "5.2.3", least, most).judge_share(share, all)
        })
        .collect()
}

fn drawn_items(run: &OrdersRun) -> Vec<ConformItem> {
    let (audit, records) = (&run.audit, &run.transactions);
    let (orders, payments) = (done(&records.new_order), done(&records.payment));
    let lines = orders * audit.lines_per_order;
    let customers = payments + done(&records.order_status);
    let active = if run.active_warehouses == 0 { run.warehouses } else { run.active_warehouses };
    let remote_lines = Rule::new("lines of another warehouse, %", "2.4.1.5", 0.95, 1.05);
    let remote_payments = Rule::new("payments of another warehouse, %", "2.5.1.2", 14.0, 16.0);
    let one = "one warehouse has no other";
    let deliveries = run.deferred.as_ref().map_or(done(&records.delivery), |deferred| deferred.completed as f64);
    vec![
        Rule::new("orders rolled back, %", "2.4.1.4", 0.9, 1.1).judge_share(audit.rollback_percent, orders),
        Rule::new("lines per order", "2.4.1.3", 9.5, 10.5)
            .judge(audit.lines_per_order, orders, |_| LINES_DEVIATION / orders.sqrt()),
        if active == 1 {
            remote_lines.concerns_not(audit.remote_lines_percent, one)
        } else {
            remote_lines.judge_share(audit.remote_lines_percent, lines)
        },
        if active == 1 {
            remote_payments.concerns_not(audit.remote_payments_percent, one)
        } else {
            remote_payments.judge_share(audit.remote_payments_percent, payments)
        },
        Rule::new("customers by name, %", "2.5.1.2", 57.0, 63.0).judge_share(audit.by_name_percent, customers),
        Rule::new("districts skipped by deliveries, %", "2.7.4.2", None, 1.0)
            .judge_share(audit.skipped_deliveries_percent, deliveries * 10.0),
    ]
}

/// The throughput limit that keying and think times set.
fn ceiling_items(run: &OrdersRun) -> Vec<ConformItem> {
    let orders = done(&run.transactions.new_order);
    let scale = run.time_scale.unwrap_or(1.0);
    let warehouses = f64::from(run.users) / f64::from(TERMINALS_PER_WAREHOUSE);
    let measured_min = run.measured_s / 60.0;
    let found = if warehouses > 0.0 && measured_min > 0.0 { orders / measured_min / warehouses } else { 0.0 };
    let rules = [
        Rule::new("New-Orders/min/warehouse, ceiling", "4.1.3", None, CEILING_PER_MINUTE / scale),
        Rule::new("New-Orders/min/warehouse, floor", "4.1.3", FLOOR_PER_MINUTE / scale, None),
    ];
    rules.into_iter().map(|rule| rule.judge(found, orders, |bound| bound / orders.sqrt())).collect()
}

fn response_items(run: &OrdersRun) -> Vec<ConformItem> {
    let limits_s = [5.0, 5.0, 5.0, 5.0, 20.0];
    let mut items = Vec::new();
    for ((name, record, _), limit_s) in rows(run).into_iter().zip(limits_s) {
        let response = &record.response_us;
        let few = (done(record) < RESPONSES_MIN as f64).then(|| format!("only {:.0} responses", done(record)));
        let p90_s = response.p90 as f64 / 1e6;
        let rule = Rule::new(format!("{name} p90, s"), "5.2.5", None, limit_s);
        items.push(rule.item(p90_s, few.is_some() || p90_s <= limit_s, few.clone()));
        // The rounding of a histogram with three digits must not make an average exceed its percentile.
        let (mean_s, most_s) = (response.mean / 1e6, p90_s * 1.001);
        let rule = Rule::new(format!("{name} average, s (at most its p90)"), "5.2.5", None, p90_s);
        items.push(rule.item(mean_s, few.is_some() || mean_s <= most_s, few));
    }
    if let Some(deferred) = &run.deferred {
        let rule = Rule::new("queued deliveries done within 80 s, %", "2.7.2", 90.0, None);
        let few = (deferred.completed < RESPONSES_MIN).then(|| format!("only {} deliveries", deferred.completed));
        let found = deferred.within_80_s_percent;
        items.push(rule.item(found, few.is_some() || found >= 90.0, few));
    }
    items
}

/// Transactions that were due and never started are in no histogram, so they must be few.
fn offered_item(run: &OrdersRun) -> Option<ConformItem> {
    let offered = run.offered.as_ref()?;
    let never = (offered.refused + offered.left) as f64;
    let found = if offered.due == 0 { 0.0 } else { never * 100.0 / offered.due as f64 };
    Some(Rule::new("due transactions never started, %", "own rule", None, 1.0).item(found, found <= 1.0, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::histogram::ResponseSummary;
    use results::orders_run::{Audit, DeferredDeliveries, MixPercent, Offered, Transactions};

    fn record(count: u64, rolled_back: u64, p90_us: u64) -> TransactionRecord {
        let response_us = ResponseSummary { mean: p90_us as f64 / 2.0, p90: p90_us, ..ResponseSummary::default() };
        TransactionRecord { count, rolled_back, response_us, ..TransactionRecord::default() }
    }

    /// Two hours of ten warehouses at 12.6 New-Orders per minute each: a correct run.
    fn sound() -> OrdersRun {
        OrdersRun {
            warehouses: 10,
            active_warehouses: 10,
            users: 100,
            load_model: "paced".to_owned(),
            terminals: "home-warehouse".to_owned(),
            deliveries: "deferred".to_owned(),
            measured_s: 7_200.0,
            mix_percent: MixPercent { new_order: 43.48, payment: 43.48, order_status: 4.35, delivery: 4.35, stock_level: 4.35 },
            audit: Audit {
                rollback_percent: 1.0,
                lines_per_order: 10.0,
                remote_lines_percent: 1.0,
                remote_payments_percent: 15.0,
                by_name_percent: 60.0,
                skipped_deliveries_percent: 0.0,
            },
            transactions: Transactions {
                new_order: record(14_969, 151, 4_000_000),
                payment: record(15_120, 0, 2_000_000),
                order_status: record(1_512, 0, 1_000_000),
                delivery: record(1_512, 0, 10),
                stock_level: record(1_512, 0, 19_000_000),
            },
            deferred: Some(DeferredDeliveries {
                queued: 1_512,
                completed: 1_512,
                within_80_s_percent: 100.0,
                ..Default::default()
            }),
            offered: Some(Offered { due: 34_776, finished: 34_770, left: 6, ..Offered::default() }),
            ..OrdersRun::default()
        }
    }

    fn broken(run: &OrdersRun) -> Vec<String> {
        let conform = conform(run);
        assert_eq!(conform.passed, conform.items.iter().all(|item| item.passed));
        conform.items.into_iter().filter(|item| !item.passed).map(|item| item.name).collect()
    }

    fn not_judged(run: &OrdersRun) -> usize {
        conform(run).items.iter().filter(|item| item.not_judged.is_some()).count()
    }

    #[test]
    fn a_sound_run_keeps_every_rule_and_every_rule_is_judged() {
        let conform = conform(&sound());
        assert_eq!((broken(&sound()), not_judged(&sound())), (vec![], 0));
        assert_eq!((conform.items.len(), conform.notes.len()), (25, 0));
        for item in &conform.items {
            assert!(item.least.is_some() || item.most.is_some(), "{item:?}");
        }
    }

    #[test]
    fn each_rule_is_broken_by_what_breaks_it_alone() {
        type Breaking = fn(&mut OrdersRun);
        let cases: [(&str, Breaking); 17] = [
            ("New-Order, % of mix", |run| run.mix_percent.new_order = 47.0),
            ("Payment, % of mix", |run| run.mix_percent.payment = 41.0),
            ("Order-Status, % of mix", |run| run.mix_percent.order_status = 3.0),
            ("Delivery, % of mix", |run| run.mix_percent.delivery = 3.0),
            ("Stock-Level, % of mix", |run| run.mix_percent.stock_level = 3.0),
            ("orders rolled back, %", |run| run.audit.rollback_percent = 0.3),
            ("lines per order", |run| run.audit.lines_per_order = 10.7),
            ("lines of another warehouse, %", |run| run.audit.remote_lines_percent = 0.0),
            ("payments of another warehouse, %", |run| run.audit.remote_payments_percent = 12.0),
            ("customers by name, %", |run| run.audit.by_name_percent = 65.0),
            ("districts skipped by deliveries, %", |run| run.audit.skipped_deliveries_percent = 2.0),
            ("New-Orders/min/warehouse, ceiling", |run| run.users = 90),
            ("New-Orders/min/warehouse, floor", |run| run.users = 150),
            ("Stock-Level p90, s", |run| run.transactions.stock_level.response_us.p90 = 21_000_000),
            ("Payment average, s (at most its p90)", |run| run.transactions.payment.response_us.mean = 3e6),
            ("queued deliveries done within 80 s, %", |run| run.deferred.as_mut().unwrap().within_80_s_percent = 89.0),
            ("due transactions never started, %", |run| run.offered.as_mut().unwrap().refused = 400),
        ];
        for (name, breaking) in cases {
            let mut run = sound();
            breaking(&mut run);
            assert_eq!(broken(&run), [name]);
        }
    }

    #[test]
    fn what_chance_explains_is_not_judged() {
        let mut run = sound();
        run.transactions.new_order = record(1_000, 8, 1_000_000);
        run.users = 8;
        run.audit.rollback_percent = 0.6;
        assert_eq!((broken(&run), not_judged(&run)), (vec![], 1));
        // With ten times as many draws, chance no longer explains it.
        run.transactions.new_order = record(10_000, 80, 1_000_000);
        run.users = 70;
        run.audit.rollback_percent = 0.5;
        assert_eq!(broken(&run), ["orders rolled back, %"]);
    }

    #[test]
    fn a_run_without_draws_passes_nothing() {
        let conform = conform(&OrdersRun::default());
        assert!(!conform.passed && conform.items.iter().all(|item| item.not_judged.is_some()), "{conform:?}");
    }

    #[test]
    fn rules_of_paced_terminals_are_not_there_without_them_and_deviations_are_named() {
        let mut run = sound();
        run.load_model = "closed".to_owned();
        run.terminals = "all-warehouses".to_owned();
        run.deliveries = "direct".to_owned();
        run.users = 8;
        run.offered = None;
        assert_eq!((broken(&run), not_judged(&run), conform(&run).notes.len()), (vec![], 0, 3));
        assert!(conform(&run).items.iter().all(|item| !item.name.contains("/warehouse")));
        let mut run = sound();
        run.time_scale = Some(0.1);
        assert_eq!(broken(&run), ["New-Orders/min/warehouse, floor"]);
        assert!(conform(&run).notes[0].starts_with("times scaled by 0.1"));
    }

    #[test]
    fn one_warehouse_has_no_remote_lines_and_is_not_blamed() {
        let mut run = sound();
        run.active_warehouses = 1;
        run.audit.remote_lines_percent = 0.0;
        run.audit.remote_payments_percent = 0.0;
        assert_eq!((broken(&run), not_judged(&run)), (vec![], 2));
    }
}
