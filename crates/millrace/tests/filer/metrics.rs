//! What the filer reports to a collector over HTTP, and to a program that reads its log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::support::configured::{Configured, serve, write};
use crate::support::tls::Pki;
use crate::support::wire::Wire;
use crate::support::{Scratch, await_until, millrace};
use nfs_proto::mount3::MountStatus;
use nfs_proto::nfs3::{NfsStatus, StableHow};
use sim::authority::Valid;

/// Two different volumes, and a metrics address on a free port.
const VOLUMES: &str = r#"metrics = "127.0.0.1:0"
[[volume]]
name = "plain"
path = "/db/plain"
dir = "DIR/plain"
clients = ["127.0.0.0/8"]
squash = "none"
quota = "1MiB"

[[volume]]
name = "quick"
dir = "DIR/quick"
clients = ["127.0.0.0/8"]
squash = "none"
durability = "battery"
cache = "dropbehind"

[[volume]]
name = "closed"
dir = "DIR/closed"
clients = ["10.0.0.1"]
"#;

/// Keys that come before those: a certificate in the directory of a [`Pki`].
const CERTIFICATE: &str = "tls_cert = \"DIR/pki/filer.pem\"\ntls_key = \"DIR/pki/filer.key\"\n";

fn folders(label: &str) -> Scratch {
    let scratch = Scratch::new(label);
    for folder in ["plain", "quick", "closed"] {
        scratch.folder(folder);
    }
    scratch
}

fn start(label: &str) -> (Scratch, Configured) {
    let scratch = folders(label);
    let filer = Configured::start(&scratch, VOLUMES);
    (scratch, filer)
}

fn endpoint(filer: &Configured) -> SocketAddr {
    let url = filer.ready["metrics"].as_str().unwrap();
    url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics")).unwrap().parse().unwrap()
}

fn ask(address: SocketAddr, target: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: a test\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The metrics page. Asserts that its header is right.
fn page(filer: &Configured) -> String {
    let answer = ask(endpoint(filer), "/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    body.to_owned()
}

/// The samples of a page by their names and labels in the written form, and the types of the names.
#[derive(Debug, Default)]
struct Scraped {
    samples: BTreeMap<String, f64>,
    types: BTreeMap<String, String>,
}

/// Reads a page as strictly as the format allows: each sample has its help and type before it, no
/// sample occurs twice, and the buckets of a histogram never shrink and end with the count.
fn scrape(page: &str) -> Scraped {
    let mut scraped = Scraped::default();
    let (mut helped, mut current) = (BTreeSet::new(), String::new());
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').unwrap();
            assert!(helped.insert(name) && !text.is_empty(), "{line}");
            current = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, current, "type without help");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            scraped.types.insert(name.to_owned(), kind.to_owned());
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
            let of_current = if scraped.types[&current] == "histogram" { family == current } else { name == current };
            assert!(of_current, "{line} among the samples of {current}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
            labels(series);
            assert!(scraped.samples.insert(series.to_owned(), value.parse().unwrap()).is_none(), "{line} twice");
        }
    }
    check_histograms(page, &scraped);
    scraped
}

/// The labels of a series, which must be well-formed.
fn labels(series: &str) -> BTreeMap<&str, &str> {
    let Some((_, rest)) = series.split_once('{') else { return BTreeMap::new() };
    let inner = rest.strip_suffix("\"}").unwrap_or_else(|| panic!("{series}"));
    inner
        .split("\",")
        .map(|label| label.split_once("=\"").unwrap_or_else(|| panic!("{series}")))
        .inspect(|(_, value)| assert!(!value.contains(['"', '\\']), "{series}"))
        .collect()
}

fn check_histograms(page: &str, scraped: &Scraped) {
    let (mut bound, mut so_far) = (0.0, 0.0);
    for line in page.lines().filter(|line| line.contains("_bucket{")) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (value, le): (f64, f64) = (value.parse().unwrap(), labels(series)["le"].parse().unwrap());
        if le < bound {
            so_far = 0.0;
        }
        assert!(value >= so_far, "{line} after {so_far}");
        (bound, so_far) = (le, value);
        if le.is_infinite() {
            let of_all = series.replace(",le=\"+Inf\"", "");
            let (count, sum) = (of_all.replace("_bucket{", "_count{"), of_all.replace("_bucket{", "_sum{"));
            assert_eq!(scraped.samples[&count], value, "{line}");
            assert!(scraped.samples[&sum] > 0.0 || value == 0.0, "{line}");
        }
    }
    assert!(bound.is_infinite(), "no histogram ends without one");
}

/// A client that has done some work: two calls to each volume, and one that fails.
fn work(filer: &Configured) {
    let mut wire = Wire::connect(filer.port(0));
    for path in ["/db/plain", "/quick"] {
        let root = wire.mount(path).unwrap();
        let file = wire.create(root, "file");
        wire.write(file, 0, &[7; 8192], StableHow::FileSync);
        wire.write(file, 8192, &[7; 100], StableHow::Unstable);
        assert_eq!(wire.lookup(root, "missing").unwrap_err().status, NfsStatus::NoEnt);
    }
    assert_eq!(wire.mount("/closed"), Err(MountStatus::Acces));
}

#[test]
fn a_collector_reads_what_each_volume_procedure_and_client_did() {
    let (_scratch, filer) = start("metrics");
    work(&filer);
    let text = page(&filer);
    let samples = scrape(&text).samples;
    let of = |series: &str| *samples.get(series).unwrap_or_else(|| panic!("no {series} in\n{text}"));
    for export in ["/db/plain", "/quick"] {
        let named = |name: &str, procedure: &str| of(&format!("{name}{{export=\"{export}\",procedure=\"{procedure}\"}}"));
        assert_eq!(named("millrace_nfs_calls_total", "WRITE"), 2.0);
        assert_eq!(named("millrace_nfs_bytes_total", "WRITE"), 8292.0);
        assert_eq!(named("millrace_nfs_call_seconds_count", "LOOKUP"), 1.0);
        let missing = format!("millrace_nfs_errors_total{{export=\"{export}\",procedure=\"LOOKUP\",status=\"NFS3ERR_NOENT\"}}");
        assert_eq!(of(&missing), 1.0);
        assert_eq!(of(&format!("millrace_stable_writes_total{{export=\"{export}\"}}")), 1.0);
    }
    let info =
        "millrace_volume_info{export=\"/quick\",volume=\"quick\",durability=\"battery\",cache=\"dropbehind\",medium=\"none\"}";
    assert_eq!(of(info), 1.0);
    assert!(of("millrace_flushes_total{export=\"/db/plain\"}") > 0.0);
    assert_eq!(of("millrace_flushes_total{export=\"/quick\"}"), 0.0, "nothing is flushed by battery");
    assert_eq!(of("millrace_quota_bytes{export=\"/db/plain\"}"), 1_048_576.0);
    assert!(of("millrace_quota_used_bytes{export=\"/db/plain\"}") >= 8192.0);
    let refused = "millrace_nfs_errors_total{export=\"none\",procedure=\"MOUNT\",status=\"MNT3ERR_ACCES\"}";
    assert_eq!((of(refused), of("millrace_nfs_calls_total{export=\"none\",procedure=\"MOUNT\"}")), (1.0, 3.0));
    let calls: f64 =
        samples.iter().filter(|(name, _)| name.starts_with("millrace_nfs_calls_total{")).map(|(_, count)| count).sum();
    assert_eq!(of("millrace_client_call_seconds_count{client=\"127.0.0.1\"}"), calls, "all calls are of one client");
    assert_eq!(of("millrace_client_bytes_total{client=\"127.0.0.1\"}"), 2.0 * 8292.0);
    assert_eq!(of("millrace_client_call_seconds_count{client=\"other\"}"), 0.0);
    let stats: serde_json::Value = serde_json::from_str(&filer.order(&["stats", "--json"])).unwrap();
    assert_eq!(stats["procedures"]["WRITE"]["calls"], 4, "the admin socket says the same");
    assert!(stats["procedures"]["WRITE"]["latency"]["p99_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_volume_that_is_served_no_more_leaves_the_page_but_not_the_sums() {
    let (_scratch, filer) = start("metrics-gone");
    work(&filer);
    filer.edit(|text| {
        let (before, rest) = text.split_once("[[volume]]\nname = \"quick\"").unwrap();
        format!("{before}{}", &rest[rest.find("[[volume]]").unwrap()..])
    });
    filer.order(&["reload"]);
    let text = page(&filer);
    scrape(&text);
    assert!(!text.contains("/quick") && text.contains("export=\"/db/plain\""), "{text}");
    let stats: serde_json::Value = serde_json::from_str(&filer.order(&["stats", "--json"])).unwrap();
    assert_eq!(stats["procedures"]["WRITE"]["calls"], 4);
}

#[test]
fn every_name_on_the_page_is_explained_and_every_name_explained_is_on_the_page() {
    let scratch = folders("metrics-names");
    let _pki = Pki::new(&scratch);
    let filer = Configured::start(&scratch, &format!("{CERTIFICATE}{VOLUMES}"));
    work(&filer);
    let exposed: BTreeSet<String> = scrape(&page(&filer)).types.into_keys().collect();
    let manual = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/filer.md")).unwrap();
    let explained: BTreeSet<String> = manual
        .lines()
        .filter_map(|line| line.strip_prefix("| `millrace_"))
        .filter_map(|rest| rest.split(['`', '{']).next())
        .map(|name| format!("millrace_{name}"))
        .collect();
    assert_eq!(exposed, explained);
}

#[test]
fn nobody_is_told_unless_asked_for_and_a_port_alone_is_one_of_this_host() {
    let scratch = Scratch::new("metrics-off");
    let start = |more: &[&str]| {
        let mut command = millrace();
        command.arg("serve").arg(scratch.folder("export")).args(["--listen", "127.0.0.1:0", "--json", "--state"]);
        command.arg(scratch.folder("state")).arg("--admin").arg(scratch.path().join("admin")).args(more);
        Configured::spawn(scratch.path().to_owned(), command)
    };
    assert!(start(&[]).ready["metrics"].is_null());
    let filer = start(&["--metrics", "0"]);
    assert!(endpoint(&filer).ip().is_loopback() && endpoint(&filer).port() != 0);
    scrape(&page(&filer));
    assert!(ask(endpoint(&filer), "/").starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_crowd_at_the_endpoint_is_sent_away_and_the_filer_serves_on() {
    let (_scratch, filer) = start("metrics-crowd");
    let silent: Vec<TcpStream> =
        (0..filer::limits::METRICS_CLIENTS_MAX).map(|_| TcpStream::connect(endpoint(&filer)).unwrap()).collect();
    let mut further = TcpStream::connect(endpoint(&filer)).unwrap();
    further.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(further.read(&mut [0]).unwrap_or(0), 0, "closed without an answer");
    work(&filer);
    drop(silent);
    await_until("the endpoint to answer again", Duration::from_secs(20), || {
        let mut stream = TcpStream::connect(endpoint(&filer)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200 OK").then_some(())
    });
}

/// The filer's log, as JSON objects.
fn log(scratch: &Scratch, rest: &str, during: impl FnOnce(&Configured)) -> Vec<serde_json::Value> {
    log_until(scratch, rest, 0, during)
}

/// The log of a filer that ends with this exit code.
fn log_until(scratch: &Scratch, rest: &str, code: i32, during: impl FnOnce(&Configured)) -> Vec<serde_json::Value> {
    let file = write(scratch, rest);
    let path = scratch.path().join("log");
    let mut command = serve(&file);
    command.args(["--log-format", "json"]).stderr(std::fs::File::create(&path).unwrap());
    let mut filer = Configured::spawn(file, command);
    during(&filer);
    filer.signal("TERM");
    assert_eq!(filer.ended(), Some(code));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn a_full_volume_is_logged_once_however_many_calls_it_refuses() {
    let scratch = folders("log-full");
    let lines = log(&scratch, VOLUMES, |filer| {
        let mut wire = Wire::connect(filer.port(0));
        let root = wire.mount("/db/plain").unwrap();
        let file = wire.create(root, "f");
        for _ in 0..20 {
            let refused = wire.try_write(file, 2 << 20, b"x", StableHow::FileSync);
            assert_eq!(refused.unwrap_err().status, NfsStatus::NoSpc);
        }
    });
    let is_it = |line: &&serde_json::Value| line["message"].as_str().unwrap().starts_with("the volume refuses writes");
    let warned: Vec<_> = lines.iter().filter(is_it).collect();
    assert!(warned.len() == 1 && warned[0]["volume"] == "plain", "{warned:?}");
}

#[test]
fn a_failed_flush_and_a_failed_call_are_logged_with_the_volume() {
    let scratch = folders("log-volume");
    let lines = log_until(&scratch, VOLUMES, 1, |filer| {
        let mut wire = Wire::connect(filer.port(0));
        let root = wire.mount("/db/plain").unwrap();
        let file = wire.create(root, "f");
        filer.order(&["fault", "add", "eio,on=flush", "--volume", "plain"]);
        assert!(wire.try_write(file, 0, b"x", StableHow::FileSync).is_err());
    });
    for message in ["a flush failed", "the host's file system failed a call"] {
        let found = lines.iter().find(|line| line["message"].as_str().unwrap().starts_with(message));
        assert_eq!(found.unwrap_or_else(|| panic!("no {message:?} in {lines:#?}"))["volume"], "plain");
    }
}

#[test]
fn with_a_configuration_the_hint_about_a_port_in_use_names_the_key() {
    let scratch = folders("hint-key");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let file = write(&scratch, &format!("metrics = {port}\n{VOLUMES}").replace("metrics = \"127.0.0.1:0\"\n", ""));
    let output = serve(&file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the port is in use") && said.contains("metrics = \"127.0.0.1:0\" in [filer]"), "{said}");
}

#[test]
fn with_a_json_log_a_failed_start_is_reported_in_json_too() {
    let scratch = folders("log-refused");
    let file = write(&scratch, &format!("{VOLUMES}nonsense = 1\n"));
    let output = serve(&file).args(["--log-format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let lines: Vec<serde_json::Value> =
        String::from_utf8(output.stderr).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.last().unwrap()["error"].as_str().unwrap().contains("nonsense"), "{lines:?}");
}

#[test]
fn health_is_good_until_a_volume_or_a_lun_refuses_writes() {
    let (_scratch, filer) = start("health");
    let address = endpoint(&filer);
    assert!(ask(address, "/healthz").starts_with("HTTP/1.1 200 OK"));
    let mut wire = Wire::connect(filer.port(0));
    let root = wire.mount("/db/plain").unwrap();
    let file = wire.create(root, "f");
    filer.order(&["fault", "add", "eio,on=flush", "--volume", "plain"]);
    assert!(wire.try_write(file, 0, b"x", StableHow::FileSync).is_err());
    let answer = ask(address, "/healthz");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("volume plain: a flush failed"), "{answer}");
}

#[test]
fn each_line_of_the_json_log_is_an_object_with_the_fields_of_what_happened() {
    let scratch = folders("log");
    let lines = log(&scratch, VOLUMES, |filer| {
        work(filer);
        let mut wire = Wire::connect(filer.port(0));
        for path in ["/x\nERROR forged", "/again"] {
            assert_eq!(wire.mount(path), Err(MountStatus::NoEnt));
        }
        filer.edit(|text| format!("{text}access = \"ro\"\n"));
        filer.order(&["reload"]);
        filer.edit(|text| format!("{text}nonsense = 1\n"));
        assert_eq!(filer.volume(&["reload"]).status.code(), Some(1));
    });
    let find = |message: &str| {
        let found: Vec<_> = lines.iter().filter(|line| line["message"] == message).collect();
        assert!(!found.is_empty(), "no {message:?} in {lines:#?}");
        found
    };
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["target"].is_string(), "{line}");
    }
    assert_eq!(
        find("serving a volume").iter().map(|line| line["volume"].as_str().unwrap()).collect::<Vec<_>>(),
        ["plain", "quick", "closed"]
    );
    assert!(find("listening")[0]["addresses"].as_str().unwrap().contains("127.0.0.1"));
    let paths: Vec<_> = find("mount refused").iter().map(|line| line["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/closed", "/x\\nERROR forged"], "once a connection, and on one line");
    let refused = find("client refused")[0];
    assert_eq!((&refused["volume"], &refused["level"]), (&"closed".into(), &"WARN".into()));
    assert_eq!(
        find("durability by battery: nothing is flushed, a power cut must not reach this host's memory")[0]["volume"],
        "quick"
    );
    assert_eq!(find("configuration loaded")[0]["changed"], "closed");
    let refused = find("failed to load the configuration: the previous one stays in force")[0];
    assert!(refused["level"] == "ERROR" && refused["error"].as_str().unwrap().contains("nonsense"), "{refused}");
    assert_eq!(find("stopped")[0]["level"], "INFO");
}

#[test]
fn a_certificate_that_has_expired_is_told_at_the_start_and_at_a_reload_and_its_end_in_the_metrics() {
    const EXPIRY: &str = "millrace_certificate_expiry_timestamp_seconds";
    let scratch = folders("log-certificate");
    let pki = Pki::new(&scratch);
    pki.issue("filer", &["127.0.0.1"], Valid::Once);
    let expiry = |filer: &Configured| -> Option<String> {
        page(filer).lines().find_map(|line| line.strip_prefix(EXPIRY)?.strip_prefix(' ').map(str::to_owned))
    };
    let lines = log(&scratch, &format!("{CERTIFICATE}{VOLUMES}"), |filer| {
        assert_eq!(expiry(filer).as_deref(), Some("1009843200"), "2002-01-01");
        filer.order(&["reload"]);
        pki.issue("filer", &["127.0.0.1"], Valid::Now);
        filer.order(&["reload"]);
        assert!(expiry(filer).unwrap().parse::<u64>().unwrap() > 1_800_000_000);
        filer.edit(|text| text.lines().filter(|line| !line.starts_with("tls_")).map(|line| format!("{line}\n")).collect());
        filer.order(&["reload"]);
        assert_eq!(expiry(filer), None);
    });
    let told: Vec<_> = lines.iter().filter(|line| line["message"].as_str().unwrap().contains("certificate")).collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    for line in told {
        assert!(
            line["level"] == "ERROR" && line["message"].as_str().unwrap().contains("has expired, clients refuse it: renew it")
        );
        assert_eq!(line["validity"], "2001-01-01T00:00:00Z to 2002-01-01T00:00:00Z");
        assert!(line["certificate"].as_str().unwrap().ends_with("pki/filer.pem"), "{line}");
    }
}
