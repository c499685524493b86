//! The monitoring files of `dist/`: Prometheus accepts them, each alert fires for its condition,
//! and every panel of the dashboard shows data while a client uses a filer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::configured::Configured;
use crate::support::{Scratch, await_until, find_program, keepers, millrace, succeed, text};
use serde_json::Value;
use sim::skip;

/// A volume of 4 MiB. There is a panel for its quota, and an alert for the error of a file that does not fit.
const VOLUME: &str = r#"metrics = "127.0.0.1:0"
[[volume]]
name = "vol"
dir = "DIR/served"
clients = ["127.0.0.0/8"]
squash = "none"
quota = "4MiB"
"#;

/// Reads, writes, flushes, and looks up a file that does not exist.
const LOAD: &str = "while :; do dd if=/dev/zero of=/db/load bs=8k count=32 conv=fsync; cat /db/load /db/missing; done";

fn dist(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(dist(path)).unwrap()
}

/// Whether all three programs are installed. Prints a message if not.
fn has_prometheus() -> bool {
    let missing = ["prometheus", "promtool", "prometheus-node-exporter"].into_iter().find(|name| find_program(name).is_none());
    if let Some(name) = missing {
        skip(&format!("{name} is not installed: scripts/setup peers"));
    }
    missing.is_none()
}

fn dashboard() -> Value {
    serde_json::from_str(&read("grafana/millrace.json")).unwrap()
}

/// The panels that draw data, without the rows.
fn panels(dashboard: &Value) -> Vec<&Value> {
    dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row").collect()
}

/// Each query of each panel, with the panel's title.
fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let of = |panel: &Value| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().unwrap().clone();
        targets.into_iter().map(move |target| (title.clone(), target["expr"].as_str().unwrap().to_owned()))
    };
    panels(dashboard).into_iter().flat_map(of).collect()
}

#[test]
fn the_dashboard_has_units_and_descriptions_and_takes_its_data_source_from_a_variable() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|variable| variable["type"] == "datasource" && variable["name"] == "datasource"));
    let all = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = all.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), all.len(), "two panels have one id");
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().unwrap();
        assert!(panel["fieldConfig"]["defaults"]["unit"].as_str().is_some_and(|unit| !unit.is_empty()), "{title} has no unit");
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{title} has no description");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && targets.iter().all(|target| target["datasource"]["uid"] == "${datasource}"), "{title}");
    }
}

#[test]
fn every_metric_that_is_drawn_or_alerted_on_is_documented() {
    let pages = ["filer.md", "monitoring.md"].map(|page| std::fs::read_to_string(dist("../docs").join(page)).unwrap()).join("");
    let used = queries(&dashboard()).into_iter().map(|(_, query)| query).collect::<String>() + &read("prometheus/alerts.yml");
    let names = used.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let names: BTreeSet<&str> = names.filter(|name| name.starts_with("millrace_")).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let name = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(pages.contains(&format!("`{name}")), "{name} is in neither page");
    }
}

#[test]
fn prometheus_accepts_the_files_and_each_alert_fires_on_what_it_is_for() {
    let named = |file: &str, key: &str| -> Vec<String> {
        read(file).lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix(key).map(str::to_owned)).collect()
    };
    let alerts = named("prometheus/alerts.yml", "alert: ");
    let tested = named("prometheus/alerts-test.yml", "name: ");
    let wanted: Vec<String> =
        alerts.iter().flat_map(|alert| [format!("{alert} fires"), format!("{alert} does not fire")]).collect();
    assert_eq!(tested, wanted, "each alert is tested firing and silent");
    if !has_prometheus() {
        return;
    }
    let promtool = |arguments: &[&str]| succeed(Command::new("promtool").args(arguments).current_dir(dist("prometheus")));
    promtool(&["check", "config", "scrape.yml"]);
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts-test.yml"]);
}

/// A program that the test has started. Dropping it ends the program and all its children.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).output();
        let _ = self.0.wait();
    }
}

/// Starts a server of the Prometheus project on a free port. Returns the address that it prints.
fn listening(mut command: Command, log: &Path) -> (Running, String) {
    command.arg("--web.listen-address=127.0.0.1:0").stdout(Stdio::null()).stderr(File::create(log).unwrap()).process_group(0);
    let mut running = Running(command.spawn().unwrap());
    let address = await_until("a server to listen", Duration::from_secs(60), || {
        assert!(running.0.try_wait().unwrap().is_none(), "{command:?}: {}", std::fs::read_to_string(log).unwrap());
        let lines = BufReader::new(File::open(log).unwrap()).lines().map_while(Result::ok);
        let line =
            lines.into_iter().find(|line| line.contains("\"Listening on\"") && line.ends_with(|c: char| c.is_ascii_digit()));
        line.map(|line| line.rsplit_once("address=").unwrap().1.to_owned())
    });
    (running, address)
}

/// A host with a working client, whose counters go to Prometheus as docs/monitoring.md describes.
struct Client {
    runtime: PathBuf,
    textfiles: PathBuf,
    port: u16,
    _load: Running,
}

impl Client {
    fn start(scratch: &Scratch, filer: &Configured) -> Self {
        let (runtime, textfiles) = (scratch.path().join("runtime"), scratch.folder("textfiles"));
        let url = filer.ready["volumes"]["vol"].as_str().unwrap();
        let mut load = millrace();
        load.args(["exec", "--mount", &format!("/db={url}&slots=8"), "--", "sh", "-c", LOAD]);
        load.env("MILLRACE_RUNTIME_DIR", &runtime).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self { _load: Running(load.spawn().unwrap()), runtime, textfiles, port: filer.port(0) }
    }

    /// Does what the timer of docs/monitoring.md runs.
    fn write_counters(&self) {
        let page = succeed(millrace().args(["nfs", "counters", "--prometheus"]).env("MILLRACE_RUNTIME_DIR", &self.runtime));
        let next = self.textfiles.join("millrace.prom.next");
        std::fs::write(&next, page).unwrap();
        std::fs::rename(next, self.textfiles.join("millrace.prom")).unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        keepers::end(self.port);
    }
}

/// The shipped configuration, with the addresses of this test and short intervals.
fn configure(scratch: &Scratch, filer: &str, exporter: &str) -> PathBuf {
    let mut shipped = read("prometheus/scrape.yml");
    for (from, to) in [("filer.example:9749", filer), ("db1.example:9100", exporter), ("_interval: 15s", "_interval: 1s")] {
        assert!(shipped.contains(from), "scrape.yml has no {from}");
        shipped = shipped.replace(from, to);
    }
    std::fs::copy(dist("prometheus/alerts.yml"), scratch.path().join("alerts.yml")).unwrap();
    let file = scratch.path().join("scrape.yml");
    std::fs::write(&file, shipped).unwrap();
    file
}

/// Number of series with a number that a query returns.
fn series(prometheus: &str, query: &str) -> usize {
    let asked = Command::new("promtool").args(["query", "instant", &format!("http://{prometheus}"), query]).output().unwrap();
    assert!(asked.status.success(), "{query}: {}", text(&asked));
    let answer = String::from_utf8_lossy(&asked.stdout).into_owned();
    answer.lines().filter(|line| line.contains("=> ") && !line.contains("=> NaN")).count()
}

#[test]
fn every_panel_shows_a_series_while_a_client_works_and_an_alert_fires_when_its_volume_is_full() {
    if !has_prometheus() {
        return;
    }
    let scratch = Scratch::new("monitoring");
    scratch.folder("served");
    let filer = Configured::start(&scratch, VOLUME);
    let client = Client::start(&scratch, &filer);
    let mut exporter = Command::new("prometheus-node-exporter");
    exporter.args(["--collector.disable-defaults", "--collector.textfile"]);
    exporter.arg(format!("--collector.textfile.directory={}", client.textfiles.display()));
    let (_exporter, exporter_address) = listening(exporter, &scratch.path().join("exporter.log"));
    let metrics = filer.ready["metrics"].as_str().unwrap();
    let metrics = metrics.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics")).unwrap();
    let file = configure(&scratch, metrics, &exporter_address);
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", file.display()));
    prometheus.arg(format!("--storage.tsdb.path={}", scratch.path().join("tsdb").display()));
    let (_prometheus, prometheus) = listening(prometheus, &scratch.path().join("prometheus.log"));

    let fill_in = |query: &str| query.replace("$__rate_interval", "15s").replace("$filer", ".*").replace("$client", ".*");
    let mut empty: BTreeMap<String, String> =
        queries(&dashboard()).into_iter().map(|(title, query)| (fill_in(&query), title)).collect();
    assert!(empty.len() > 25, "{empty:?}");
    let end = std::time::Instant::now() + Duration::from_secs(90);
    while !empty.is_empty() {
        assert!(std::time::Instant::now() < end, "these panels show nothing: {empty:#?}");
        client.write_counters();
        empty.retain(|query, _| series(&prometheus, query) == 0);
    }

    let large = scratch.path().join("large");
    std::fs::write(&large, vec![1; 6 << 20]).unwrap();
    let url = filer.ready["volumes"]["vol"].as_str().unwrap().replace("/vol?", "/vol/large?");
    let refused = millrace().args(["nfs", "cp"]).arg(&large).arg(url).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    await_until("the alert that the volume is full", Duration::from_secs(60), || {
        let firing = r#"ALERTS{alertname="MillraceServerErrors",alertstate="firing",status="NFS3ERR_NOSPC"}"#;
        (series(&prometheus, firing) > 0).then_some(())
    });
}
