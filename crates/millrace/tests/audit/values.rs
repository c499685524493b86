//! `tune plan` and `tune apply` ask the server whether it accepts a value before they write it.

use std::path::Path;
use std::process::Output;

use crate::support::postgres::{Cluster, give_to_database_user};
use crate::support::{Scratch, millrace_without_databases_of_host, skip, text};
use serde_json::Value;

/// Two rules that set one parameter of PostgreSQL each.
const RULES: &str = r#"schema = 1
layer = "db"
[[rule]]
id = "postgres-test-refused"
title = "The log is compressed by a method that is not there"
platforms = ["postgres"]
test = "postgres.wal_compression"
severity = "low"
reason = "No server has it."
sources = [{ name = "a test" }]
status = "valid"
fix = { activation = "reload", set = [{ kind = "postgres", key = "wal_compression", value = "lz5" }] }
[[rule.fires]]
facts = { "postgres.wal_compression" = false }
[[rule.silent]]
facts = { "postgres.wal_compression" = true }

[[rule]]
id = "postgres-test-taken"
title = "Waits for I/O are timed"
platforms = ["postgres"]
test = "postgres.track_io_timing"
severity = "low"
reason = "A test."
sources = [{ name = "a test" }]
status = "valid"
fix = { activation = "reload", set = [{ kind = "postgres", key = "track_io_timing", value = "on" }] }
[[rule.fires]]
facts = { "postgres.track_io_timing" = false }
[[rule.silent]]
facts = { "postgres.track_io_timing" = true }
"#;

const REFUSED: &str = "the server does not take wal_compression = lz5";
const NOT_CHECKED: &str = "not checked whether the server takes track_io_timing = on";

/// A cluster whose configuration includes a folder, and the folder with the rules.
fn cluster(scratch: &Scratch) -> Option<Cluster> {
    let cluster = Cluster::start_with(scratch.path(), "")?;
    let folder = cluster.data().join("conf.d");
    std::fs::create_dir(&folder).unwrap();
    give_to_database_user(&folder);
    let config = cluster.data().join("postgresql.conf");
    let mut said = std::fs::read_to_string(&config).unwrap();
    said.push_str("include_dir = 'conf.d'\n");
    std::fs::write(&config, said).unwrap();
    std::fs::create_dir(scratch.path().join("rules")).unwrap();
    std::fs::write(scratch.path().join("rules/test.toml"), RULES).unwrap();
    Some(cluster)
}

fn tune(scratch: &Scratch, order: &str, dsn: &str, more: &[&str]) -> Output {
    let mut command = millrace_without_databases_of_host();
    command.args(["tune", order, "--db", dsn, "--rules"]).arg(scratch.path().join("rules")).args(more);
    if order == "apply" {
        command.arg("--yes").arg("--state").arg(scratch.path().join("state"));
    }
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

fn plan(scratch: &Scratch, dsn: &str) -> Value {
    let output = tune(scratch, "plan", dsn, &["--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
}

/// The rules whose changes are planned.
fn planned(plan: &Value) -> Vec<String> {
    let changes = plan["groups"].as_array().unwrap().iter().flat_map(|group| group["changes"].as_array().unwrap());
    changes.map(|change| change["rule"].as_str().unwrap().to_owned()).collect()
}

fn drop_in(data: &Path) -> String {
    std::fs::read_to_string(data.join("conf.d/60-millrace.conf")).unwrap_or_default()
}

#[test]
fn a_value_that_the_server_refuses_is_not_planned_and_not_written() {
    let scratch = Scratch::new("tune-values");
    let Some(cluster) = cluster(&scratch) else { return skip("PostgreSQL is not installed") };
    let plan = plan(&scratch, &cluster.dsn());
    assert_eq!(planned(&plan), ["postgres-test-taken"], "{plan}");
    let left = plan["left"].to_string();
    assert!(left.contains("postgres-test-refused (PostgreSQL at ") && left.contains(REFUSED), "{left}");
    assert!(left.contains("invalid value for parameter"), "the words of the server's program: {left}");
    assert!(!plan.to_string().contains("not checked"), "{plan}");

    let applied = tune(&scratch, "apply", &cluster.dsn(), &[]);
    assert!(text(&applied).contains(REFUSED), "{}", text(&applied));
    let written = drop_in(cluster.data());
    assert!(written.contains("track_io_timing = ") && !written.contains("lz5"), "{written:?}: {}", text(&applied));
}

#[test]
fn a_server_whose_program_cannot_be_asked_is_believed_and_what_nobody_knows_is_said_to_be_unchecked() {
    let scratch = Scratch::new("tune-values-elsewhere");
    let Some(cluster) = cluster(&scratch) else { return skip("PostgreSQL is not installed") };
    // This role does not see where the server has its files.
    cluster.sql("CREATE ROLE stranger LOGIN");
    let dsn = cluster.dsn().replace("user=postgres", "user=stranger");
    assert!(dsn.contains("stranger"), "{dsn}");
    let plan = plan(&scratch, &dsn);
    let left = plan["left"].to_string();
    assert!(left.contains(REFUSED) && left.contains("it takes pglz, "), "{left}");
    assert_eq!(planned(&plan), ["postgres-test-taken"], "{plan}");
    assert!(plan["groups"].to_string().contains(NOT_CHECKED), "{plan}");
}
