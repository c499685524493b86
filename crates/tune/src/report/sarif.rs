//! SARIF 2.1.0 (OASIS Standard, 27 March 2020) for the consoles of scanners. Section numbers here
//! refer to that document.

use std::collections::BTreeMap;

use host::escape::{percent_encoded, plain};
use results::audit::{Audit, Finding, Severity, Verdict};
use serde_json::{Map, Value, json};

use super::origins::{Origin, origins};
use super::words::{fingerprint, status};
use super::{Look, Weight};
use crate::describe::{activation, severity};

/// The address of the schema.
const SCHEMA_URI: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json";
/// Name of the root directory of the audited host. Paths are relative to it.
const HOST_ROOT: &str = "HOST";
/// Name and version of the fingerprint, which is the same in each audit.
const FINGERPRINT: &str = "ruleAndSubject/v1";

/// The audit as a SARIF log with one run.
///
/// Findings have the kind `fail`, or `informational` for information only. Unknown judgements are
/// `open` and passed ones `pass`. Waived findings have a suppression. Against a baseline, each
/// finding says whether it is new. A location is given if a value was read from a file and
/// [`Look::facts`] is set. The judged thing is a logical location.
#[must_use]
pub fn sarif(audit: &Audit, look: &Look<'_>) -> String {
    let (rules, index) = rules(audit);
    let results: Vec<Value> = audit.findings.iter().map(|finding| result(finding, &index, look)).collect();
    let log = json!({
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "millrace audit",
                "fullName": plain(&audit.program),
                "rules": rules,
            }},
            "automationDetails": { "id": format!("millrace-audit/{}/", plain(&audit.host)) },
            "originalUriBaseIds": { HOST_ROOT: {
                "uri": "file:///",
                "description": { "text": format!("The root of {}", plain(&audit.host)) },
            }},
            "invocations": [invocation(audit)],
            "results": results,
            "columnKind": "unicodeCodePoints",
            "properties": {
                "host": plain(&audit.host),
                "system": plain(&audit.system),
                "taken": plain(&audit.taken),
                "from": plain(&audit.from),
                "passed": audit.passed,
                "notApplicable": audit.not_applicable,
            },
        }],
    });
    // Serialisation cannot fail: all keys are text, and all values are text or numbers.
    serde_json::to_string_pretty(&log).unwrap_or_default() + "\n"
}

/// The judged rules, each once, and their positions in this list (3.19.23, 3.27.6).
fn rules(audit: &Audit) -> (Vec<Value>, BTreeMap<&str, usize>) {
    let mut rules = Vec::new();
    let mut index = BTreeMap::new();
    for finding in &audit.findings {
        if index.contains_key(finding.rule.as_str()) {
            continue;
        }
        index.insert(finding.rule.as_str(), rules.len());
        rules.push(json!({
            "id": plain(&finding.rule),
            "shortDescription": { "text": plain(finding.general_title()) },
            "fullDescription": { "text": plain(&finding.reason) },
            "help": { "text": help(finding) },
            "defaultConfiguration": { "level": level(finding.severity) },
            "properties": {
                "tags": [plain(&finding.layer)],
                "severity": severity(finding.severity),
                "status": finding.status,
                "sources": finding.sources.iter().map(|source| plain(source)).collect::<Vec<_>>(),
            },
        }));
    }
    (rules, index)
}

fn help(finding: &Finding) -> String {
    let mut lines = Vec::new();
    lines.extend(finding.effect.iter().map(|effect| format!("Brings: {}", plain(effect))));
    lines.extend(status(finding.status).map(|words| format!("Today: {words}")));
    lines.extend(finding.standing.iter().map(|standing| format!("But: {}", plain(standing))));
    lines.extend(finding.fix.iter().map(|fix| format!("Fix: {}", plain(fix))));
    lines.extend(finding.activation.map(|takes| format!("In force: {}", activation(takes))));
    lines.extend(finding.sources.iter().map(|source| format!("Source: {}", plain(source))));
    lines.join("\n")
}

/// The level for a result of the kind `fail` (3.27.10).
const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "none",
        Severity::Low => "note",
        Severity::Medium => "warning",
        Severity::High | Severity::Critical => "error",
    }
}

fn result(finding: &Finding, index: &BTreeMap<&str, usize>, look: &Look<'_>) -> Value {
    // A result of another kind than `fail` has the level `none` (3.27.9).
    let (kind, level) = match finding.verdict {
        Verdict::Passed => ("pass", "none"),
        Verdict::Unknown => ("open", "none"),
        Verdict::Finding | Verdict::Waived if finding.severity == Severity::Info => ("informational", "none"),
        Verdict::Finding | Verdict::Waived => ("fail", level(finding.severity)),
    };
    let mut result = Map::new();
    let mut put = |name: &str, value: Value| drop(result.insert(name.to_owned(), value));
    put("ruleId", plain(&finding.rule).into());
    if let Some(place) = index.get(finding.rule.as_str()) {
        put("ruleIndex", (*place).into());
    }
    put("kind", kind.into());
    put("level", level.into());
    put("message", json!({ "text": message(finding) }));
    let origins = origins(finding, look.facts);
    put("locations", locations(finding, &origins));
    put("partialFingerprints", json!({ FINGERPRINT: plain(&fingerprint(finding)) }));
    if finding.verdict == Verdict::Waived {
        let why = finding.waiver.as_deref().map(plain).unwrap_or_default();
        put("suppressions", json!([{ "kind": "external", "status": "accepted", "justification": why }]));
    }
    if look.baseline.is_some() && finding.verdict == Verdict::Finding {
        let known = look.weight(finding) == Weight::Known;
        put("baselineState", if known { "unchanged" } else { "new" }.into());
    }
    let commands: Vec<String> = origins
        .iter()
        .filter_map(|origin| match origin {
            Origin::Command(command) => Some(plain(command)),
            Origin::File(..) => None,
        })
        .collect();
    let mut properties = json!({ "layer": plain(&finding.layer), "severity": severity(finding.severity), "readFrom": commands });
    if let Some(group) = finding.group {
        properties["group"] = json!(group);
    }
    if let Some(measured) = &finding.measured {
        properties["measured"] = json!(plain(&measured.text));
    }
    put("properties", properties);
    Value::Object(result)
}

fn message(finding: &Finding) -> String {
    let subject = finding.subject.as_ref().map(|subject| plain(subject) + ": ").unwrap_or_default();
    let facts = match finding.verdict {
        Verdict::Unknown => format!("Missing: {}", finding.missing.join(", ")),
        _ if finding.found.is_empty() => "No value was looked at".to_owned(),
        _ => format!("Found: {}", finding.found.join("; ")),
    };
    format!("{subject}{}. {}", plain(&finding.title), plain(&facts))
}

/// The files from which values were read, with the judged thing (3.28).
fn locations(finding: &Finding, origins: &[Origin]) -> Value {
    let thing = finding.subject.as_ref().map(|subject| json!([{ "fullyQualifiedName": plain(subject), "kind": "resource" }]));
    let mut locations: Vec<Value> = origins
        .iter()
        .filter_map(|origin| match origin {
            Origin::File(path, line) => Some(physical(path, *line)),
            Origin::Command(_) => None,
        })
        .map(|place| json!({ "physicalLocation": place }))
        .collect();
    if let Some(thing) = thing {
        match locations.first_mut().and_then(Value::as_object_mut) {
            Some(first) => drop(first.insert("logicalLocations".to_owned(), thing)),
            None => locations.push(json!({ "logicalLocations": thing })),
        }
    }
    Value::Array(locations)
}

fn physical(path: &str, line: Option<u32>) -> Value {
    let artifact = json!({ "uri": uri(path.trim_start_matches('/')), "uriBaseId": HOST_ROOT });
    match line {
        Some(line) => json!({ "artifactLocation": artifact, "region": { "startLine": line } }),
        None => json!({ "artifactLocation": artifact }),
    }
}

/// A path as a relative reference (RFC 3986 4.2). Bytes other than unreserved characters and
/// slashes are percent-encoded, even a colon, which in the first segment would be read as the end
/// of a scheme.
fn uri(path: &str) -> String {
    percent_encoded(path, |byte| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte))
}

/// The run of the audit, the time of its facts, and its remarks (3.20).
fn invocation(audit: &Audit) -> Value {
    let remarks: Vec<Value> =
        audit.remarks.iter().map(|remark| json!({ "level": "warning", "message": { "text": plain(remark) } })).collect();
    let mut invocation = json!({ "executionSuccessful": true, "toolExecutionNotifications": remarks });
    if is_time(&audit.taken)
        && let Some(fields) = invocation.as_object_mut()
    {
        fields.insert("startTimeUtc".to_owned(), audit.taken.clone().into());
    }
    invocation
}

/// Whether a text has the form `YYYY-MM-DDThh:mm:ssZ`. A capture may contain any text as its time,
/// but the schema accepts only a time.
fn is_time(text: &str) -> bool {
    let shape = "dddd-dd-ddTdd:dd:ddZ";
    text.len() == shape.len()
        && text
            .chars()
            .zip(shape.chars())
            .all(|(sign, wanted)| if wanted == 'd' { sign.is_ascii_digit() } else { sign == wanted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::Baseline;
    use crate::facts::Facts;
    use crate::report::sample;

    fn results(audit: &Audit, look: &Look<'_>) -> Vec<Value> {
        let log: Value = serde_json::from_str(&sarif(audit, look)).unwrap();
        log["runs"][0]["results"].as_array().unwrap().clone()
    }

    #[test]
    fn a_value_from_a_file_has_its_line_and_a_command_is_named() {
        let mut facts = Facts::default();
        facts.put_of("mount", "/redo", "hard", false, "/etc/fstab d:4");
        facts.put_of("mount", "/redo", "role", "redo", "/srv/a%b.toml:7");
        facts.put("sysctl.vm.swappiness", 60_i64, "sysctl -a");
        let results = results(&sample::audit(), &Look { facts: Some(&facts), ..Look::default() });
        // An origin with a blank is taken for a command.
        assert_eq!(results[0]["properties"]["readFrom"], json!(["/etc/fstab d:4"]));
        let place = &results[0]["locations"][0];
        assert_eq!(place["physicalLocation"]["artifactLocation"], json!({"uri": "srv/a%25b.toml", "uriBaseId": "HOST"}));
        assert_eq!(place["physicalLocation"]["region"]["startLine"], 7);
        assert_eq!(place["logicalLocations"][0]["fullyQualifiedName"], "mount /redo");
        assert_eq!(results[1]["locations"], json!([]));
        assert_eq!(results[1]["properties"]["readFrom"], json!(["sysctl -a"]));
    }

    #[test]
    fn each_verdict_has_its_kind_and_only_failures_a_level() {
        let kinds: Vec<(Value, Value)> = results(&sample::audit(), &Look::default())
            .iter()
            .map(|result| (result["kind"].clone(), result["level"].clone()))
            .collect();
        let of = |place: usize| (kinds[place].0.as_str().unwrap(), kinds[place].1.as_str().unwrap());
        assert_eq!((of(0), of(1), of(2)), (("fail", "error"), ("fail", "warning"), ("fail", "note")));
        assert_eq!((of(3), of(4), of(7)), (("informational", "none"), ("open", "none"), ("fail", "error")));
    }

    #[test]
    fn a_waiver_is_a_suppression_and_a_baseline_says_what_is_new() {
        let audit = sample::audit();
        let waived = &results(&audit, &Look::default())[7];
        assert_eq!(waived["suppressions"][0]["justification"], "until 2027-03-31: the switch is replaced in March");
        let before = Audit { findings: audit.findings[..1].to_vec(), ..audit.clone() };
        let baseline = Baseline::of(&before);
        let against = results(&audit, &Look { baseline: Some(&baseline), ..Look::default() });
        assert_eq!(
            (against[0]["baselineState"].as_str(), against[1]["baselineState"].as_str()),
            (Some("unchanged"), Some("new"))
        );
        assert!(against[4].get("baselineState").is_none());
    }

    #[test]
    fn a_time_that_is_none_is_left_out() {
        let odd = Audit { taken: "yesterday".into(), ..sample::audit() };
        let log: Value = serde_json::from_str(&sarif(&odd, &Look::default())).unwrap();
        assert!(log["runs"][0]["invocations"][0].get("startTimeUtc").is_none());
    }
}
