//! The output of `report::sarif` is valid against the schema of the standard,
//! `sarif/sarif-schema-2.1.0.json`.
//!
//! The validator in this file knows the keywords that this schema uses and refuses any other. If
//! Python has the module `jsonschema`, it checks the output too, independently of Millrace's code.

use std::io::Write as _;
use std::process::{Command, Stdio};

use results::audit::{Audit, Verdict};
use serde_json::{Value, json};
use tune::baseline::Baseline;
use tune::facts::Facts;
use tune::report::{Look, sarif};

const SCHEMA: &str = include_str!("../sarif/sarif-schema-2.1.0.json");

/// Logs that contain everything that can occur in one.
fn logs() -> Vec<String> {
    let audit = crate::sample::audit();
    let mut facts = Facts::default();
    facts.put_of("mount", "/redo", "hard", false, "/etc/fstab:4");
    facts.put_of("mount", "/redo", "role", "redo", "C:\\odd name/é%.toml");
    facts.put("sysctl.vm.swappiness", 60_i64, "sysctl -a");
    let first = Audit { findings: audit.findings[..1].to_vec(), ..audit.clone() };
    let baseline = Baseline::of(&first);
    let with_everything = Look { verbose: true, baseline: Some(&baseline), facts: Some(&facts), ..Look::default() };
    let passed = |audit: &Audit| {
        let mut audit = audit.clone();
        audit.findings.iter_mut().for_each(|finding| finding.verdict = Verdict::Passed);
        audit
    };
    let empty = Audit { findings: Vec::new(), remarks: Vec::new(), taken: "not known".into(), ..audit.clone() };
    vec![
        sarif(&audit, &Look::default()),
        sarif(&audit, &with_everything),
        sarif(&passed(&audit), &with_everything),
        sarif(&empty, &Look::default()),
    ]
}

#[test]
fn every_log_is_valid_against_the_schema_of_the_standard() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for text in logs() {
        let log: Value = serde_json::from_str(&text).unwrap();
        let faults = faults(&schema, &log);
        assert!(faults.is_empty(), "{}\n{text}", faults.join("\n"));
    }
}

#[test]
fn the_validator_finds_what_is_wrong_in_a_log() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let log: Value = serde_json::from_str(&logs()[1]).unwrap();
    let wrong: [(&str, Value, &str); 9] = [
        ("/version", json!("2.0.0"), "is none of"),
        ("/runs/0/results/0/level", json!("bad"), "is none of"),
        ("/runs/0/results/0/message", json!({}), "of none of the forms"),
        ("/runs/0/results/0/ruleIndex", json!(-2), "less than"),
        ("/runs/0/tool", json!({}), "driver is missing"),
        ("/runs/0/results/0/kind", json!(7), "is none of"),
        ("/runs/0/results/0/properties", json!("x"), "is no object"),
        ("/runs/0/columnKind", json!("bytes"), "is none of"),
        ("/runs/0/invocations/0", json!({"executionSuccessful": true, "unheardOf": 1}), "unheardOf is not known"),
    ];
    for (place, value, told) in wrong {
        let mut broken = log.clone();
        *broken.pointer_mut(place).unwrap() = value;
        let found = faults(&schema, &broken);
        assert!(found.iter().any(|fault| fault.contains(told)), "{place}: {found:?}");
    }
    let mut twice = log.clone();
    let rules = twice.pointer_mut("/runs/0/tool/driver/rules").unwrap().as_array_mut().unwrap();
    rules.push(rules[0].clone());
    assert!(faults(&schema, &twice).iter().any(|fault| fault.contains("twice")));
}

#[test]
fn a_validator_that_is_not_ours_agrees_where_there_is_one() {
    let script = "import json,sys\nimport jsonschema\nwhat=json.load(sys.stdin)\n\
        jsonschema.Draft7Validator.check_schema(what['schema'])\n\
        bad=[e.message for log in what['logs'] for e in jsonschema.Draft7Validator(what['schema']).iter_errors(log)]\n\
        print('\\n'.join(bad)); sys.exit(len(bad) > 0)";
    let present = Command::new("python3").args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
    if !present.is_ok_and(|status| status.success()) {
        return sim::skip_unsupported("no python3 with jsonschema; the validator of this test alone has judged");
    }
    let logs: Vec<Value> = logs().iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let what = json!({ "schema": serde_json::from_str::<Value>(SCHEMA).unwrap(), "logs": logs });
    let mut python = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(what.to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

/// What is wrong with a value, one line for each fault, with its place.
fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(schema, schema, value, "", &mut faults);
    faults
}

/// Checks a value against the part of JSON schema (draft 7) that SARIF's schema uses.
fn check(root: &Value, schema: &Value, value: &Value, place: &str, faults: &mut Vec<String>) {
    for (keyword, wanted) in schema.as_object().unwrap() {
        let mut fault = |what: String| faults.push(format!("{place}: {what}"));
        match keyword.as_str() {
            // Annotations and definitions.
            "$schema" | "$id" | "title" | "description" | "default" | "definitions" => {}
            "$ref" => {
                let target = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                check(root, root.pointer(target).unwrap(), value, place, faults);
            }
            "type" if !is_of_type(wanted, value) => fault(format!("{value} is no {}", wanted.as_str().unwrap_or("such type"))),
            "enum" if !wanted.as_array().unwrap().contains(value) => fault(format!("{value} is none of {wanted}")),
            "minimum" if value.as_f64().is_some_and(|number| number < wanted.as_f64().unwrap()) => {
                fault(format!("{value} is less than {wanted}"));
            }
            "maximum" if value.as_f64().is_some_and(|number| number > wanted.as_f64().unwrap()) => {
                fault(format!("{value} is more than {wanted}"));
            }
            "minItems" if value.as_array().is_some_and(|items| (items.len() as u64) < wanted.as_u64().unwrap()) => {
                fault(format!("fewer items than {wanted}"));
            }
            "uniqueItems" if *wanted == json!(true) && has_twice(value) => fault("an item stands there twice".to_owned()),
            "type" | "enum" | "minimum" | "maximum" | "minItems" | "uniqueItems" => {}
            "format" | "pattern" => check_text(wanted.as_str().unwrap(), value, place, faults),
            "anyOf" | "oneOf" => {
                let fits = wanted.as_array().unwrap().iter().filter(|form| {
                    let mut inner = Vec::new();
                    check(root, form, value, place, &mut inner);
                    inner.is_empty()
                });
                let fits = fits.count();
                if fits == 0 || (keyword == "oneOf" && fits > 1) {
                    fault(format!("{value} is of none of the forms, or of several"));
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, wanted, item, &format!("{place}/{index}"), faults);
                }
            }
            "required" => {
                let missing = wanted.as_array().unwrap().iter().filter_map(Value::as_str);
                let missing = missing.filter(|name| value.is_object() && value.get(name).is_none());
                missing.for_each(|name| fault(format!("{name} is missing")));
            }
            "properties" | "additionalProperties" => {}
            other => panic!("the schema has a keyword that this validator does not know: {other}"),
        }
    }
    check_properties(root, schema, value, place, faults);
}

fn check_properties(root: &Value, schema: &Value, value: &Value, place: &str, faults: &mut Vec<String>) {
    for (name, inner) in value.as_object().into_iter().flatten() {
        let place = format!("{place}/{name}");
        match (schema.pointer("/properties").and_then(|known| known.get(name)), schema.get("additionalProperties")) {
            (Some(known), _) => check(root, known, inner, &place, faults),
            (None, Some(Value::Bool(false))) => faults.push(format!("{place}: {name} is not known")),
            (None, Some(other)) if other.is_object() => check(root, other, inner, &place, faults),
            _ => {}
        }
    }
}

fn is_of_type(wanted: &Value, value: &Value) -> bool {
    let wanted: Vec<&str> =
        wanted.as_array().map_or_else(|| vec![wanted.as_str().unwrap()], |all| all.iter().filter_map(Value::as_str).collect());
    wanted.iter().any(|wanted| match *wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("a type that this validator does not know: {other}"),
    })
}

fn has_twice(value: &Value) -> bool {
    let items: Vec<String> = value.as_array().into_iter().flatten().map(Value::to_string).collect();
    items.iter().collect::<std::collections::BTreeSet<_>>().len() < items.len()
}

/// Checks the formats and patterns of the properties that Millrace writes. Others are never
/// checked.
fn check_text(wanted: &str, value: &Value, place: &str, faults: &mut Vec<String>) {
    let Some(text) = value.as_str() else { return };
    let fits = match wanted {
        "uri" => text
            .split_once(':')
            .is_some_and(|(scheme, rest)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) && is_uri_text(rest)),
        "uri-reference" => is_uri_text(text),
        "date-time" => text.len() == 20 && text.ends_with('Z') && text.contains('T'),
        other => panic!("{place}: a format or pattern that this validator does not know: {other}"),
    };
    if !fits {
        faults.push(format!("{place}: {text:?} is no {wanted}"));
    }
}

fn is_uri_text(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/:%#?@!$&'()*+,;=".contains(&byte))
}
