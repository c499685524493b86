//! Every figure as CSV (RFC 4180), one figure per line, for evaluation in a spreadsheet.

use std::fmt::Write;

use results::compare::{Comparison, PathResult, PathStatus, Run};

use super::view::name;

/// Columns. `regime` is empty for the comparison's own runs. `run` is the place in the sequence and `second` the second of its
/// interval; both are empty for figures of the complete configuration.
const HEAD: &str = "arm,path,label,tuning,layout,medium,status,run,second,metric,unit,value,ci95,regime\r\n";

/// The comparison as CSV.
#[must_use]
pub fn render(comparison: &Comparison) -> String {
    let mut text = String::from(HEAD);
    let own = comparison.paths.iter().map(|path| ("", path));
    let others = comparison.regimes.iter().flat_map(|regime| regime.paths.iter().map(|path| (regime.name.as_str(), path)));
    for (regime, path) in own.chain(others) {
        let mut lines = Lines { text: &mut text, arm: arm_cells(path), place: ",".to_owned(), regime: cell(regime) };
        lines.of_arm(path);
        for run in &path.runs {
            lines.of_run(run);
        }
    }
    text
}

/// Lines of one configuration.
struct Lines<'a> {
    text: &'a mut String,
    /// The first seven columns.
    arm: String,
    /// The columns `run` and `second`.
    place: String,
    /// The last column: the name of a further scenario, empty for the first one.
    regime: String,
}

impl Lines<'_> {
    fn add(&mut self, metric: &str, unit: &str, value: f64, ci95: Option<f64>) {
        if value.is_finite() {
            let half = ci95.map_or_else(String::new, |half| half.to_string());
            let _ = write!(self.text, "{},{},{},{unit},{value},{half},{}\r\n", self.arm, self.place, cell(metric), self.regime);
        }
    }

    fn of_arm(&mut self, path: &PathResult) {
        if let Some(oets) = &path.oets_per_minute {
            self.add("oets", "1/min", oets.mean, oets.ci95);
        }
        for (transaction, response) in &path.response_ms {
            self.add(&format!("{transaction}.count"), "1", response.count as f64, None);
            self.add(&format!("{transaction}.errors"), "1", response.errors as f64, None);
            self.add(&format!("{transaction}.retries"), "1", response.retries as f64, None);
            let values = [
                ("mean", response.mean),
                ("p50", response.p50),
                ("p90", response.p90),
                ("p95", response.p95),
                ("p99", response.p99),
                ("p999", response.p999),
                ("max", response.max),
            ];
            for (figure, value) in values {
                self.add(&format!("{transaction}.response_{figure}"), "ms", value, None);
            }
        }
        if let Some(read) = &path.block_read_us {
            self.add("block_read_mean", "us", read.mean, None);
        }
        if let Some(array) = &path.array_latency {
            self.add("array_latency_mean", "us", array.mean_us, None);
        }
        if let Some(cpu) = &path.cpu {
            self.add("cpu_per_1000_orders", "s", cpu.s_per_1000_orders, None);
            self.add("cpu_per_1000_orders_without_filer", "s", cpu.without_filer_s_per_1000_orders(), None);
            for (owner, time) in &cpu.by_owner {
                self.add(&format!("cpu_per_1000_orders.{owner}"), "s", time.s_per_1000_orders, None);
                self.add(&format!("cpu_user.{owner}"), "s", time.user_s, None);
                self.add(&format!("cpu_sys.{owner}"), "s", time.sys_s, None);
            }
            self.add("host_busy_share", "1", cpu.host_busy_share, None);
            self.add("others_busy_share", "1", cpu.others_busy_share, None);
            self.add("stolen_share", "1", cpu.stolen_share, None);
        }
        if let Some(io) = &path.io {
            self.add("reads_per_order", "1", io.reads_per_order, None);
            self.add("writes_per_order", "1", io.writes_per_order, None);
            self.add("log_per_order", "B", io.log_bytes_per_order, None);
            self.add("hit_ratio", "1", io.hit_ratio, None);
            self.add("read_share", "1", io.read_share, None);
            self.add("block_reads_in_flight", "1", io.in_flight_mean, None);
        }
        if let Some(traffic) = &path.traffic {
            self.add("reads", "1/s", traffic.reads_per_s, None);
            self.add("read", "MiB/s", traffic.read_mib_per_s, None);
            self.add("writes", "1/s", traffic.writes_per_s, None);
            self.add("written", "MiB/s", traffic.written_mib_per_s, None);
            self.add("log_flushes", "1/s", traffic.log_flushes_per_s, None);
            self.add("log_flush_mean", "ms", traffic.log_flush_ms.unwrap_or(f64::NAN), None);
        }
        if let Some(proof) = &path.proof {
            self.add("proof_difference", "%", proof.difference_percent, None);
        }
        if let Some(checks) = &path.checks {
            self.add("checks_passed", "1", f64::from(checks.passed), None);
            self.add("checks_failed", "1", f64::from(checks.failed), None);
        }
    }

    fn of_run(&mut self, run: &Run) {
        self.place = format!("{},", run.sequence);
        self.add("oets", "1/min", run.oets_per_minute, None);
        self.add("orders", "1", run.orders as f64, None);
        self.add("measured", "s", run.measured_s, None);
        self.add("blocks_read", "1", run.database.blocks_read as f64, None);
        self.add("block_read_time", "ms", run.database.block_read_ms, None);
        if let Some(array) = &run.array_latency {
            self.add("array_latency_mean", "us", array.mean_us, None);
        }
        self.add("blocks_written", "1", run.database.blocks_written as f64, None);
        self.add("log", "B", run.database.log_bytes as f64, None);
        self.add("checkpoints", "1", run.database.checkpoints as f64, None);
        self.add("log_segments_archived", "1", run.database.log_segments_archived as f64, None);
        for (volume, bytes) in &run.read_bytes_by_volume {
            self.add(&format!("volume_read.{volume}"), "B", *bytes as f64, None);
        }
        if let Some(connections) = run.connections {
            self.add("filer_connections", "1", connections as f64, None);
        }
        for (owner, count) in &run.context_switches {
            self.add(&format!("context_switches.{owner}"), "1", *count as f64, None);
        }
        for (owner, seconds) in &run.processor_queue_s {
            self.add(&format!("processor_queue.{owner}"), "s", *seconds, None);
        }
        for (event, share) in &run.waits {
            self.add(&format!("session_share.{event}"), "1", *share, None);
        }
        for (second, orders) in run.per_second.iter().enumerate() {
            self.place = format!("{},{second}", run.sequence);
            self.add("orders", "1", *orders as f64, None);
        }
        for second in &run.series {
            self.place = format!("{},{}", run.sequence, second.second);
            let percentiles = [("response_p50", second.response_p50_us), ("response_p90", second.response_p90_us)];
            for (metric, value) in percentiles.into_iter().chain([("response_max", Some(second.response_max_us))]) {
                // Values that a merged record does not have are left out, like all values that are not finite.
                self.add(metric, "us", value.map_or(f64::NAN, |us| us as f64), None);
            }
        }
    }
}

fn arm_cells(path: &PathResult) -> String {
    let status = match path.status {
        PathStatus::Measured => "measured",
        PathStatus::NotValid => "not_valid",
        PathStatus::Skipped => "skipped",
    };
    let layout = path.layout_name.as_deref().unwrap_or_default();
    let (label, medium) = (path.label.as_deref().unwrap_or_default(), path.medium.as_deref().unwrap_or_default());
    [name(path), &path.name, label, &path.tuning, layout, medium, status].map(cell).join(",")
}

/// A cell, quoted if necessary. A text that a spreadsheet would treat as a formula gets an apostrophe in front.
fn cell(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
