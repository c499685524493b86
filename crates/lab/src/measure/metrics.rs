//! The array's own latency, for comparison: one figure from a Prometheus server or a `/metrics` page, over plain HTTP.
//!
//! `prometheus:http://HOST:PORT/api/v1/query?query=EXPRESSION` queries a server; the values of all returned series are
//! averaged. `prometheus:http://HOST:PORT/metrics#NAME` reads a page; `#SUM/COUNT` divides the increases of two counters,
//! which gives the mean of a histogram. The unit is seconds unless the name ends in `_ms`, `_milliseconds`, `_us` or
//! `_microseconds`.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use results::judgement::ArrayLatency;
use serde_json::Value;

use crate::error::LabError;
use crate::limits::{METRICS_BYTES_MAX, METRICS_WAIT_MAX};

/// Source of the array's latency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The given URL, after `prometheus:`.
    url: String,
    host: String,
    path: String,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// An expression that a server evaluates.
    Query,
    /// A gauge on a page.
    Gauge(String),
    /// Two counters on a page: seconds and events.
    Ratio(String, String),
}

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reading {
    /// A latency at the time of reading, microseconds.
    Now(f64),
    /// Counters: microseconds and events since their start.
    Sums(f64, f64),
}

impl FromStr for Source {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let wrong = |why: &str| LabError::Plan {
            what: format!("read metrics from \"{text}\": {why}"),
            hint: "prometheus:http://HOST:PORT/api/v1/query?query=EXPRESSION or prometheus:http://HOST:PORT/metrics#NAME"
                .to_owned(),
        };
        let url = text.strip_prefix("prometheus:").ok_or_else(|| wrong("only prometheus: is known"))?;
        let rest = url.strip_prefix("http://").ok_or_else(|| wrong("only plain http:// is spoken"))?;
        let (place, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (host, path) = place.split_once('/').ok_or_else(|| wrong("it names no page"))?;
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let sound = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic());
        if !sound(&host) || !sound(path) {
            return Err(wrong("write blanks in an expression as %20"));
        }
        let what = match (path.contains("query="), fragment.split_once('/')) {
            (true, _) => What::Query,
            (false, Some((sum, count))) => What::Ratio(sum.to_owned(), count.to_owned()),
            (false, None) if !fragment.is_empty() => What::Gauge(fragment.to_owned()),
            (false, None) => return Err(wrong("a page needs the name of a metric after #")),
        };
        Ok(Self { url: url.to_owned(), host, path: format!("/{path}"), what })
    }
}

impl Source {
    /// Reads the figure now.
    ///
    /// # Errors
    /// There is no answer, or it does not contain the figure.
    pub(crate) fn read(&self) -> Result<Reading, LabError> {
        let failed = |detail: String| LabError::Missing {
            what: format!("read the array's metrics from {}: {detail}", self.url),
            hint: "leave --metrics out to measure without them".to_owned(),
        };
        let body = fetch(&self.host, &self.path).map_err(|error| failed(error.to_string()))?;
        self.find(&body).ok_or_else(|| failed("the answer has no such figure".to_owned()))
    }

    /// The mean latency between two readings, or the mean of both.
    pub(crate) fn between(&self, before: Reading, after: Reading) -> Option<ArrayLatency> {
        let mean_us = match (before, after) {
            (Reading::Now(one), Reading::Now(other)) => f64::midpoint(one, other),
            (Reading::Sums(us, events), Reading::Sums(us_after, events_after)) if events_after > events => {
                (us_after - us) / (events_after - events)
            }
            _ => return None,
        };
        (mean_us.is_finite() && mean_us >= 0.0).then(|| ArrayLatency { source: self.url.clone(), mean_us })
    }

    fn find(&self, body: &str) -> Option<Reading> {
        match &self.what {
            What::Query => {
                let answer: Value = serde_json::from_str(body).ok()?;
                let values = query_values(answer.pointer("/data/result")?);
                let name = self.path.split("query=").nth(1).unwrap_or_default();
                let name = name.split(['&', '{', '[', '(', ')']).find(|part| unit_us(part) != 1e6).unwrap_or_default();
                (!values.is_empty()).then(|| Reading::Now(values.iter().sum::<f64>() / values.len() as f64 * unit_us(name)))
            }
            What::Gauge(name) => {
                let values = page_values(body, name);
                (!values.is_empty()).then(|| Reading::Now(values.iter().sum::<f64>() / values.len() as f64 * unit_us(name)))
            }
            What::Ratio(sum, count) => {
                let (sums, counts) = (page_values(body, sum), page_values(body, count));
                let unit = unit_us(sum.trim_end_matches("_sum").trim_end_matches("_total"));
                let known = !sums.is_empty() && !counts.is_empty();
                known.then(|| Reading::Sums(sums.iter().sum::<f64>() * unit, counts.iter().sum()))
            }
        }
    }
}

/// Microseconds of one unit of a metric, by the suffix of its name.
fn unit_us(name: &str) -> f64 {
    match name {
        _ if name.ends_with("_us") || name.ends_with("_microseconds") => 1.0,
        _ if name.ends_with("_ms") || name.ends_with("_milliseconds") => 1e3,
        _ => 1e6,
    }
}

/// Values of an instant query: a scalar, or one for each series.
fn query_values(result: &Value) -> Vec<f64> {
    let number = |pair: &Value| pair.get(1)?.as_str()?.parse::<f64>().ok().filter(|value| value.is_finite());
    let Some(list) = result.as_array() else { return Vec::new() };
    if list.first().is_some_and(Value::is_number) {
        return number(result).into_iter().collect();
    }
    list.iter().filter_map(|series| number(series.get("value")?)).collect()
}

/// Values of all series of a metric on a page; a label set in `name` must match exactly.
fn page_values(body: &str, name: &str) -> Vec<f64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let rest = if name.ends_with('}') {
            rest
        } else {
            rest.strip_prefix('{').map_or(Some(rest), |all| Some(all.split_once('}')?.1))?
        };
        if !rest.starts_with([' ', '\t']) {
            return None;
        }
        rest.split_whitespace().next()?.parse::<f64>().ok().filter(|value| value.is_finite())
    };
    body.lines().filter_map(value).collect()
}

/// Sends one GET over HTTP 1.0: the end of the connection is the end of the answer.
fn fetch(host: &str, path: &str) -> std::io::Result<String> {
    let address = host.to_socket_addrs()?.next().ok_or_else(|| std::io::Error::other("the host has no address"))?;
    let wait: Duration = METRICS_WAIT_MAX;
    let mut stream = TcpStream::connect_timeout(&address, wait)?;
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(wait))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: */*\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(METRICS_BYTES_MAX).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| std::io::Error::other("it is not an HTTP answer"))?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status != "200" {
        return Err(std::io::Error::other(format!("status {status}")));
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Answers one request with this body and returns the request.
    fn serve(body: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = vec![0; 4096];
            let length = stream.read(&mut asked).unwrap();
            stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{body}").as_bytes()).unwrap();
            String::from_utf8_lossy(&asked[..length]).into_owned()
        });
        (address, thread)
    }

    #[test]
    fn a_page_gives_a_gauge_and_the_gain_of_two_counters() {
        let page = "# HELP volume_read_latency_ms x\nvolume_read_latency_ms{volume=\"a\"} 4\nvolume_read_latency_ms{volume=\"b\"} 6\n\
                    volume_read_latency_ms_max 99\n";
        let (address, thread) = serve(page);
        let source: Source = format!("prometheus:http://{address}/metrics#volume_read_latency_ms").parse().unwrap();
        assert_eq!(source.read().unwrap(), Reading::Now(5_000.0));
        assert!(thread.join().unwrap().starts_with("GET /metrics HTTP/1.0"));
        let ratio: Source = "prometheus:http://h/metrics#read_seconds_sum/read_seconds_count".parse().unwrap();
        let before = ratio.find("read_seconds_sum 1.0\nread_seconds_count 100\n").unwrap();
        let after = ratio.find("read_seconds_sum 1.5\nread_seconds_count 200\n").unwrap();
        assert!((ratio.between(before, after).unwrap().mean_us - 5_000.0).abs() < 1e-6);
        assert_eq!(ratio.between(after, after), None);
    }

    #[test]
    fn a_server_answers_a_query_with_series_or_a_scalar() {
        let answer = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0.004"]},{"metric":{},"value":[1,"0.006"]}]}}"#;
        let (address, thread) = serve(answer);
        let source: Source = format!("prometheus:http://{address}/api/v1/query?query=avg(latency_seconds)").parse().unwrap();
        assert_eq!(source.read().unwrap(), Reading::Now(5_000.0));
        assert!(thread.join().unwrap().contains("query=avg(latency_seconds)"));
        let scalar = r#"{"data":{"resultType":"scalar","result":[1,"0.25"]}}"#;
        assert_eq!(source.find(scalar), Some(Reading::Now(250_000.0)));
        assert_eq!(source.find("{}"), None);
    }

    #[test]
    fn other_sources_are_refused_with_the_forms_that_are_known() {
        for text in [
            "graphite:x",
            "prometheus:https://h/metrics#x",
            "prometheus:http://h",
            "prometheus:http://h/metrics",
            "prometheus:http://h/a b#x",
        ] {
            assert!(text.parse::<Source>().unwrap_err().hint().unwrap().contains("prometheus:http://"), "{text}");
        }
    }
}
