//! Stored records are read and written again with the same fields and values.
#![expect(clippy::unwrap_used, reason = "a panic is a test's verdict")]

use results::compare::{BottleneckKind, CachingClass, Comparison, DatabaseSystem, ProofSource};
use serde_json::Value;

/// Has a value in every field that the version before this one wrote.
const EXAMPLE: &str = include_str!("records/example.json");
/// As the first version wrote it on a real host.
const FIRST: &str = include_str!("../../millrace/tests/records/first-slice.json");

fn written_again(text: &str) -> Value {
    let record: Comparison = serde_json::from_str(text).unwrap();
    serde_json::to_value(record).unwrap()
}

/// Every field of `stored` stands in `written` with its value; fields may have been added.
fn kept(stored: &Value, written: &Value, at: &str) {
    match (stored, written) {
        (Value::Object(stored), Value::Object(written)) => {
            for (name, value) in stored {
                kept(value, written.get(name).unwrap_or(&Value::Null), &format!("{at}.{name}"));
            }
        }
        (Value::Array(stored), Value::Array(written)) => {
            assert_eq!(stored.len(), written.len(), "{at}");
            stored.iter().zip(written).for_each(|(stored, written)| kept(stored, written, at));
        }
        (Value::Number(stored), Value::Number(written)) => {
            let (stored, written) = (stored.as_f64().unwrap(), written.as_f64().unwrap());
            assert!((stored - written).abs() <= stored.abs() * 1e-12, "{at}: {stored} became {written}");
        }
        (stored, written) => assert_eq!(stored, written, "{at}"),
    }
}

#[test]
fn records_of_this_version_and_of_the_first_keep_every_field() {
    for text in [EXAMPLE, FIRST] {
        kept(&serde_json::from_str(text).unwrap(), &written_again(text), "record");
    }
}

#[test]
fn record_of_this_version_has_no_field_that_the_stored_one_lacks() {
    kept(&written_again(EXAMPLE), &serde_json::from_str(EXAMPLE).unwrap(), "record");
}

#[test]
fn a_record_that_names_no_database_is_of_postgresql() {
    let record: Comparison = serde_json::from_str(FIRST).unwrap();
    assert_eq!(record.plan.database, DatabaseSystem::Postgresql);
    assert_eq!(DatabaseSystem::from("of a later version").as_str(), "of a later version");
}

#[test]
fn names_of_a_later_version_are_read_and_kept() {
    let mut stored: Value = serde_json::from_str(EXAMPLE).unwrap();
    let places = [
        "/plan/restore",
        "/plan/database",
        "/paths/0/bottleneck/kind",
        "/paths/0/bottleneck/class",
        "/paths/0/proof/kind",
        "/paths/0/caching_class",
        "/paths/0/little/0/subject",
        "/against_first/0/orders_difference/method",
    ];
    for place in places {
        *stored.pointer_mut(place).unwrap_or_else(|| panic!("no {place}")) = Value::from("of a later version");
    }
    let record: Comparison = serde_json::from_value(stored.clone()).unwrap();
    assert!(matches!(record.paths[0].caching_class, Some(CachingClass::Unknown(_))));
    kept(&stored, &serde_json::to_value(record).unwrap(), "record");
}

#[test]
fn known_names_are_told_apart_without_their_text() {
    let record: Comparison = serde_json::from_str(EXAMPLE).unwrap();
    let path = &record.paths[0];
    assert!(matches!(path.bottleneck.as_ref().unwrap().kind, BottleneckKind::HostCpu | BottleneckKind::LogFlush));
    assert!(matches!(path.proof.as_ref().unwrap().kind, ProofSource::FilerReads));
}
