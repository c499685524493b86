//! The audit reads the host that runs the tests, with the programs of its database servers.

use std::time::Instant;

use tune::collect::{LiveOptions, live};
use tune::facts::Value;

#[test]
fn this_host_is_read_and_what_cannot_be_had_is_unknown_with_its_reason() {
    let begin = Instant::now();
    let facts = live(&LiveOptions::default());
    let took = begin.elapsed();
    assert_eq!(facts.value("os.family"), Some(&"linux".into()));
    assert!(matches!(facts.value("hw.memory_bytes"), Some(Value::Int(size)) if *size > 1 << 20));
    assert!(facts.host.keys().filter(|name| name.starts_with("sysctl.")).count() > 100);
    assert!(facts.things["mount"].contains_key("/"));
    assert!(facts.unknown.values().all(|reason| !reason.is_empty()));
    // The goal is one second. The limit is higher because other tests run at the same time.
    assert!(took.as_secs() < 10, "{took:?}");
}
