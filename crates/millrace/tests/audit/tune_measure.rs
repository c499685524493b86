//! `millrace tune measure` measures over Direct NFS a change that should bring a gain, applies it
//! to a running server, and writes its reversal. It refuses what it may not measure before anything
//! runs.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::postgres::{Cluster, as_database_user};
use crate::support::{Scratch, find_program, may_make_namespaces, millrace_without_databases_of_host, skip, succeed, text};
use serde_json::Value;

/// A commit that does not wait for a flush of 5 ms: its gain shows on any busy host. The rule does
/// not declare that it loses acknowledged orders, or it would be refused.
const RULES: &str = r#"
schema = 1
layer = "db"

[[rule]]
id = "test-commit-at-once"
title = "A commit does not wait"
test = "db.product != 'postgresql'"
severity = "low"
reason = "A flush takes time."
sources = [{ name = "a test" }]
status = "valid"
[rule.fix]
activation = "reload"
set = [{ kind = "postgres", key = "synchronous_commit", value = "off" }]
[[rule.fires]]
facts = { "db.product" = "postgresql" }
[[rule.silent]]
facts = { "db.product" = "mysql" }

[[rule]]
id = "test-loses"
title = "Nothing is flushed"
test = "db.product != 'postgresql'"
severity = "low"
reason = "It would be quicker, and wrong."
sources = [{ name = "a test" }]
status = "valid"
[rule.fix]
activation = "reload"
loses_durability = true
set = [{ kind = "postgres", key = "fsync", value = "off" }]
[[rule.fires]]
facts = { "db.product" = "postgresql" }
[[rule.silent]]
facts = { "db.product" = "mysql" }

[[rule]]
id = "test-kernel"
title = "The kernel keeps the database in memory"
test = "sysctl.vm.swappiness <= 10"
severity = "low"
reason = "A page that was written out is read back by a user who waits."
sources = [{ name = "a test" }]
status = "valid"
[rule.fix]
activation = "live"
set = [{ kind = "sysctl", key = "vm.swappiness", value = "1" }]
[[rule.fires]]
facts = { "sysctl.vm.swappiness" = 60 }
[[rule.silent]]
facts = { "sysctl.vm.swappiness" = 1 }
"#;

fn measure(scratch: &Scratch, arguments: &[&str]) -> Command {
    let rules = scratch.path().join("rules");
    std::fs::create_dir_all(&rules).unwrap();
    std::fs::write(rules.join("test.toml"), RULES).unwrap();
    let mut command = millrace_without_databases_of_host();
    command.args(["tune", "measure", "--rules"]).arg(rules).args(arguments);
    command
}

/// The same command in a PID namespace where it sees no other process, if this host permits that.
/// Other tests run servers, and the command chooses no server among several.
fn without_servers_of_others(command: Command) -> Command {
    if !may_make_namespaces() {
        return command;
    }
    let mut alone = Command::new("unshare");
    alone.args(["--mount", "--pid", "--mount-proc", "--fork"]).arg(command.get_program()).args(command.get_args());
    alone
}

fn refused(output: &Output, why: &str) {
    let said = text(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(why), "{why} is not in: {said}");
}

#[test]
fn what_cannot_be_measured_is_refused_by_name_before_anything_runs() {
    let scratch = Scratch::new("measure-refused");
    let out = scratch.path().join("out");
    let of = |arguments: &[&str]| {
        let mut command = measure(&scratch, arguments);
        command.arg("--out").arg(&out);
        without_servers_of_others(command).output().unwrap()
    };
    refused(&of(&["test-commit-at-one"]), "did you mean test-commit-at-once?");
    refused(&of(&["test-loses"]), "may lose acknowledged transactions");
    refused(&of(&["test-kernel"]), "sets nothing in PostgreSQL");
    refused(&of(&["test-commit-at-once", "--apply"]), "--db");
    refused(&of(&["test-commit-at-once", "--repeats", "0"]), "repeats");
    assert!(!out.exists());
    let planned = of(&["test-commit-at-once", "--dry-run"]);
    assert!(planned.status.success() && text(&planned).contains("synchronous_commit = off"), "{}", text(&planned));
    assert!(!out.exists());
}

#[test]
fn between_several_servers_the_error_names_the_option_of_each() {
    let scratch = Scratch::new("measure-several");
    let start = |name: &str| Cluster::start_with(&scratch.folder(name), "");
    let Some((first, _second)) = start("first").zip(start("second")) else { return skip("PostgreSQL is not installed") };
    let between = measure(&scratch, &["test-commit-at-once", "--dry-run"]).output().unwrap();
    refused(&between, "servers of PostgreSQL: ");
    let said = text(&between);
    for name in ["first", "second"] {
        let server = format!("for PostgreSQL in {} (from files)", scratch.path().join(name).join("data").display());
        assert!(said.contains(&server), "{server}: {said}");
    }
    let of_first = format!("--db 'host={} ", first.data().with_file_name("sockets").display());
    let option = said.split(&of_first).nth(1).and_then(|rest| rest.split('\'').next()).unwrap_or_else(|| panic!("{said}"));
    let dsn = format!("{}{option}", of_first.trim_start_matches("--db '"));
    // The servers of these tests have a superuser of this name.
    let dsn =
        dsn.split(' ').map(|word| if word.starts_with("user=") { "user=postgres" } else { word }).collect::<Vec<_>>().join(" ");
    let planned = measure(&scratch, &["test-commit-at-once", "--dry-run", "--db", &dsn]).output().unwrap();
    assert!(planned.status.success(), "{}", text(&planned));
}

#[test]
#[ignore = "nightly: three minutes"]
fn a_shown_gain_is_kept_given_to_a_server_and_taken_back() {
    let scratch = Scratch::new("measure");
    let Some(cluster) = Cluster::start(scratch.path()) else { return skip("PostgreSQL is not installed") };
    cluster.sql("ALTER SYSTEM SET synchronous_commit = 'local'");
    let (out, work) = (scratch.path().join("out"), scratch.path().join("work"));
    std::fs::create_dir(&work).unwrap();
    let load = ["--warehouses", "1", "--users", "2", "--seconds", "2", "--warmup", "1", "--repeats", "3"];
    let mut command = measure(
        &scratch,
        &["test-commit-at-once", "--apply", "--json", "--medium", "service_ms=5,cache_hit=1,cache_ms=0", "--db"],
    );
    let output = command.arg(cluster.dsn()).args(load).arg("--out").arg(&out).arg("--work").arg(&work).output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");

    let effects: Value = serde_json::from_slice(&output.stdout).unwrap();
    let effect = &effects[0];
    assert_eq!((&effect["change"]["rule"], &effect["kept"]), (&"test-commit-at-once".into(), &true.into()), "{effects}");
    assert!(effect["ratio"].as_f64().unwrap() > 1.0 && effect["percent"]["low"].as_f64().unwrap() > 0.0, "{effects}");

    assert_eq!(set_by_alter_system(&cluster), "off");
    assert_eq!(cluster.sql("SHOW synchronous_commit"), "off\n");
    assert!(ladder_of(&out).contains("test-commit-at-once"));
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(out.join("effects.json")).unwrap()).unwrap();
    let measured = &stored["effects"][0]["measured"];
    assert!(measured["shown"] == true && measured["percent"].as_f64().unwrap() > 0.0, "{stored}");
    assert!(measured["text"].as_str().unwrap().ends_with("a gain is shown"), "{stored}");
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "something is left in the work directory");

    // The report says to use the file in this way. psql gets it on stdin because the database's
    // user cannot read the folder.
    let revert = std::fs::File::open(out.join("revert.sql")).unwrap();
    let mut psql = as_database_user(find_program("psql").unwrap());
    succeed(psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-f", "-", "-d", &cluster.dsn()]).stdin(revert));
    assert_eq!(set_by_alter_system(&cluster), "local");
}

fn set_by_alter_system(cluster: &Cluster) -> String {
    let of = "SELECT setting FROM pg_file_settings WHERE name = 'synchronous_commit' AND sourcefile LIKE '%auto.conf'";
    cluster.sql(of).trim().to_owned()
}

fn ladder_of(out: &Path) -> String {
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("ladder") || page.contains("Ladder"), "the report shows no ladder");
    page
}
