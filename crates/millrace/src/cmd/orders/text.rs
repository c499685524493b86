//! The text that `millrace orders` prints for people.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use orders::checks::CheckReport;
use orders::driver;
use orders::isolation::IsolationOutcome;
use orders::loader::{LoadPlan, LoadReport, Progress};
use results::orders_run::{Conform, ConformItem, OrdersRun, TransactionRecord, Transactions};

/// The five transactions with their names, in the order of the tables.
pub(super) fn rows(transactions: &Transactions) -> [(&'static str, &TransactionRecord); 5] {
    [
        ("New-Order", &transactions.new_order),
        ("Payment", &transactions.payment),
        ("Order-Status", &transactions.order_status),
        ("Delivery", &transactions.delivery),
        ("Stock-Level", &transactions.stock_level),
    ]
}

/// The result of a run: its figures, its settings, and the rules that it breaks.
pub(super) fn run_table(run: &OrdersRun) -> String {
    let mut out = String::new();
    if run.interrupted {
        let _ = writeln!(out, "INTERRUPTED after {:.1} s of the measured interval: all figures cover this part", run.measured_s);
    }
    let finished: u64 = rows(&run.transactions).iter().map(|(_, record)| record.finished()).sum();
    let _ = writeln!(
        out,
        "{:.0} order entry transactions (New-Orders) per minute, {:.1} transactions of all kinds per second\n\
         ({} orders, {finished} transactions in {:.0} s after {:.0} s warm-up)",
        run.oets_per_minute,
        finished as f64 / run.measured_s.max(f64::MIN_POSITIVE),
        run.orders,
        run.measured_s,
        run.warmup_s
    );
    let _ = writeln!(out, "{}\n", run.disclaimer);
    out.push_str(&transactions_table(run));
    out.push_str(&waited(run));
    let cpu = run.driver_cpu;
    let _ = writeln!(
        out,
        "driver CPU: {:.2} s user, {:.2} s sys, {:.0} us per transaction; connections lost: {}\n",
        cpu.user_s,
        cpu.sys_s,
        (cpu.user_s + cpu.sys_s) * 1e6 / finished.max(1) as f64,
        run.connection_losses,
    );
    out.push_str(&settings(run));
    out.push_str(&conform_summary(&run.conform));
    out
}

/// Counts and response times.
fn transactions_table(run: &OrdersRun) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<13}{:>9}{:>8}{:>8}{:>8}{:>8} | ms{:>6}{:>8}{:>8}{:>8}{:>8}{:>9}",
        "", "count", "mix %", "rolled", "errors", "retries", "mean", "p50", "p90", "p99", "p99.9", "max"
    );
    let mix = &run.mix_percent;
    let shares = [mix.new_order, mix.payment, mix.order_status, mix.delivery, mix.stock_level];
    for ((name, record), share) in rows(&run.transactions).into_iter().zip(shares) {
        let response = &record.response_us;
        let _ = writeln!(
            out,
            "{name:<13}{:>9}{share:>8.2}{:>8}{:>8}{:>8} | {:>8.2}{:>8.2}{:>8.2}{:>8.2}{:>8.2}{:>9.2}",
            record.count,
            record.rolled_back,
            record.errors,
            record.retries,
            response.mean / 1e3,
            ms(response.p50),
            ms(response.p90),
            ms(response.p99),
            ms(response.p999),
            ms(response.max),
        );
    }
    out
}

/// The settings of a run.
fn settings(run: &OrdersRun) -> String {
    let model = match (&run.offered, run.time_scale) {
        (Some(offered), None) if run.load_model.starts_with("open") => {
            format!("{} at {:.1} transactions per second", run.load_model, offered.rate_per_s)
        }
        (_, Some(scale)) => format!("{}, times scaled by {scale}", run.load_model),
        _ => run.load_model.clone(),
    };
    format!(
        "{}; {} of {}, {} on {} and {}, {} terminals\n\
         {model}, {}, {}, deliveries {}, {}, seed {}\n\n",
        run.database_version,
        run.active_warehouses,
        counted(run.warehouses, "warehouse"),
        counted(run.users, "user"),
        counted(run.connections, "session"),
        counted(run.threads, "thread"),
        run.terminals,
        run.mode,
        run.mix,
        run.deliveries,
        run.isolation,
        run.seed
    )
}

/// Transactions that waited for a session or never got one, and deferred deliveries.
fn waited(run: &OrdersRun) -> String {
    let mut out = String::from("\n");
    if let Some(offered) = &run.offered {
        let _ = writeln!(
            out,
            "due: {} transactions, {} finished, {} refused (queue full), {} left at the end; longest queue: {}",
            offered.due, offered.finished, offered.refused, offered.left, offered.queued_max
        );
        let service: Vec<String> = rows(&run.transactions)
            .iter()
            .map(|(name, record)| format!("{name} {:.2}/{:.2}", ms(record.service_us.p50), ms(record.service_us.p99)))
            .collect();
        let _ = writeln!(out, "service time, without the wait for a session, ms p50/p99: {}", service.join(", "));
    }
    if let Some(deferred) = &run.deferred {
        let _ = writeln!(
            out,
            "deferred deliveries: {} queued, {} completed, {} left; ms p50 {:.0}, p90 {:.0}, max {:.0}; \
             {:.1} % within 80 s",
            deferred.queued,
            deferred.completed,
            deferred.left,
            ms(deferred.completion_us.p50),
            ms(deferred.completion_us.p90),
            ms(deferred.completion_us.max),
            deferred.within_80_s_percent
        );
    }
    out
}

/// The number of rules that a run keeps, and each rule that it breaks.
fn conform_summary(conform: &Conform) -> String {
    let mut out = counts(conform);
    for item in conform.items.iter().filter(|item| !item.passed) {
        out.push_str(&rule(item));
    }
    out
}

/// Every rule of the specification with the value found.
pub(super) fn conform_table(conform: &Conform) -> String {
    let mut out = counts(conform);
    for note in &conform.notes {
        let _ = writeln!(out, "  note: {note}");
    }
    for item in &conform.items {
        out.push_str(&rule(item));
    }
    out
}

fn counts(conform: &Conform) -> String {
    let judged = conform.items.iter().filter(|item| item.not_judged.is_none()).count();
    let broken = conform.items.iter().filter(|item| !item.passed).count();
    format!(
        "rules of the specification: {} kept, {broken} broken, {} not judged\n",
        judged - broken,
        conform.items.len() - judged
    )
}

/// A limit. A small one has as many digits as the value beside it.
fn limit(value: f64) -> String {
    if value < 1.0 { format!("{value:.3}") } else { format!("{value:.2}") }
}

fn rule(item: &ConformItem) -> String {
    let verdict = match &item.not_judged {
        Some(_) => "-",
        None if item.passed => "ok",
        None => "BROKEN",
    };
    let range = match (item.least, item.most) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {}", limit(least)),
        (None, Some(most)) => format!("at most {}", limit(most)),
        (None, None) => String::new(),
    };
    let why = item.not_judged.as_deref().map_or_else(String::new, |why| format!("  {why}"));
    format!("  {verdict:<7}{:<42}{:>9.3}  {range:<15}{why}\n", item.name, item.found)
}

/// A line of progress, in pgbench's form.
pub(super) fn progress(progress: &driver::Progress) -> String {
    let mut line = format!(
        "progress: {:.1} s, {:.1} tps, lat {:.3} ms stddev {:.3}, {} failed, {} orders",
        progress.elapsed_s,
        progress.transactions_per_s,
        progress.latency_mean_ms,
        progress.latency_stddev_ms,
        progress.failed,
        progress.orders
    );
    if progress.connection_losses > 0 {
        let _ = write!(line, ", {} connections lost", progress.connection_losses);
    }
    line
}

fn ms(value_us: u64) -> f64 {
    value_us as f64 / 1e3
}

/// The expected size and time of a load.
pub(super) fn planned(warehouses: u32, plan: &LoadPlan) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let space = plan.disk_space.as_ref().map_or_else(
        || "the free space there is not visible from this host".to_owned(),
        |space| format!("{:.1} GiB are free in the file system of {}", gib(space.free_bytes), space.directory.display()),
    );
    format!(
        "plan: {}, {} rows, about {:.1} GiB with indexes ({:.1} GiB while loading; {space}), \
         about {:.0} s if nothing else uses the cores",
        counted(warehouses, "warehouse"),
        plan.rows,
        gib(plan.bytes),
        gib(plan.bytes_needed),
        plan.seconds,
    )
}

/// A number with its noun: `1 warehouse`, `2 warehouses`.
pub(super) fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The result of a load.
pub(super) fn loaded(report: &LoadReport) -> String {
    format!(
        "loaded {} in {:.1} s: {} rows, {:.0} MiB, {}, seed {}",
        counted(report.warehouses, "warehouse"),
        report.seconds,
        report.rows,
        report.bytes as f64 / f64::from(1 << 20),
        counted(report.jobs, "job"),
        report.seed
    )
}

/// The result of the isolation tests.
pub(super) fn isolation_table(outcomes: &[IsolationOutcome]) -> String {
    let mut out = String::new();
    for outcome in outcomes {
        let verdict = if outcome.passed { "ok" } else { "FAILED" };
        let _ = writeln!(out, "{}  {verdict:<7} {}", outcome.clause, outcome.name);
        if let Some(found) = &outcome.found {
            let _ = writeln!(out, "                 {found}");
        }
    }
    let passed = outcomes.iter().filter(|outcome| outcome.passed).count();
    let _ = writeln!(out, "{passed} passed, {} failed", outcomes.len() - passed);
    out
}

/// The result of the checks.
pub(super) fn check_table(report: &CheckReport) -> String {
    let mut out = String::new();
    for check in &report.checks {
        let verdict = if check.passed { "ok" } else { "FAILED" };
        let _ = writeln!(out, "{:>2}  {verdict:<7} {}", check.number, check.name);
        if let Some(example) = &check.example {
            let _ = writeln!(out, "            {} violations; {example}", check.violations);
        }
    }
    if let Some(log) = &report.acknowledged {
        let good = log.missing == 0 && log.repeated == 0;
        let verdict = if good { "ok" } else { "FAILED" };
        let _ = writeln!(
            out,
            "ack {verdict:<7} {} acknowledged orders, {} missing, {} repeated{}",
            log.orders,
            log.missing,
            log.repeated,
            if log.cut_short { ", last line incomplete" } else { "" }
        );
        for order in &log.examples {
            let _ = writeln!(
                out,
                "            missing: warehouse {} district {} order {}",
                order.warehouse, order.district, order.order
            );
        }
    }
    let _ = writeln!(out, "{} passed, {} failed", report.passed, report.failed);
    out
}

/// Shows the progress of a load on stderr: one line rewritten on a terminal, else a line every
/// five seconds.
pub(super) struct ProgressPrinter {
    live: bool,
    shown: Option<Instant>,
}

impl ProgressPrinter {
    pub(super) const fn new(live: bool) -> Self {
        Self { live, shown: None }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        let due = self.live || self.shown.is_none_or(|shown| shown.elapsed() >= Duration::from_secs(5));
        if !due {
            return;
        }
        self.shown = Some(Instant::now());
        let share = progress.rows as f64 * 100.0 / progress.rows_expected.max(1) as f64;
        let remaining = progress.remaining.map_or_else(String::new, |left| format!(", about {} s left", left.as_secs()));
        let line = format!(
            "{:>4} s  {:<20} {:.1} M rows ({:.0} %){remaining}",
            progress.elapsed.as_secs(),
            progress.step,
            progress.rows as f64 / 1e6,
            share.min(100.0),
        );
        if self.live {
            eprint!("\r{line:<78}");
        } else {
            eprintln!("{line}");
        }
    }

    pub(super) fn end(&self) {
        if self.live && self.shown.is_some() {
            eprintln!();
        }
    }
}
