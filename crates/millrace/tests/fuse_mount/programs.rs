//! Programs that the preload library cannot reach.

use crate::mounted::Mounted;
use crate::support::postgres::{as_database_user, give_to_database_user, server_programs};
use crate::support::world::compile;
use crate::support::{find_program, skip, succeed};
use std::process::Command;

#[test]
fn a_statically_linked_program_works_with_files_of_the_mount() {
    let Some(mounted) = Mounted::new("fuse-static") else { return };
    let Some(program) = compile(&mounted.world.scratch, "static_files", &["-static"]) else { return };
    assert_eq!(succeed(Command::new(&program).arg(&mounted.directory)), "12000 bytes in 1000 lines\n");
    // The program itself is a file of the mount.
    std::fs::copy(&program, mounted.path("program")).unwrap();
    assert_eq!(succeed(Command::new(mounted.path("program")).arg(&mounted.directory)), "12000 bytes in 1000 lines\n");
    assert_eq!(mounted.shell("ls"), "program\n");
}

#[test]
#[ignore = "nightly: compiles with Go, twenty seconds"]
fn a_go_program_works_with_files_of_the_mount() {
    let Some(mounted) = Mounted::new("fuse-go") else { return };
    let Some(go) =
        find_program("go").or_else(|| Some("/usr/local/go/bin/go".into()).filter(|path: &std::path::PathBuf| path.is_file()))
    else {
        return skip("no go");
    };
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/files.go");
    let program = mounted.world.scratch.path().join("files");
    let mut build = Command::new(go);
    build.args(["build", "-o"]).arg(&program).arg(source).env("CGO_ENABLED", "0").env("GO111MODULE", "off").env("GOFLAGS", "");
    succeed(build.env("GOCACHE", mounted.world.scratch.folder("go-cache")).env("GOTOOLCHAIN", "local"));
    assert_eq!(succeed(Command::new(&program).arg(&mounted.directory)), "12000 bytes in 1000 lines\n");
    assert_eq!(mounted.shell("ls"), "");
}

#[test]
#[ignore = "nightly: half a minute of PostgreSQL"]
fn postgresql_lives_on_the_mount() {
    let Some(mounted) = Mounted::new("fuse-postgres") else { return };
    let Some(programs) = server_programs() else { return skip("PostgreSQL is not installed") };
    let (data, sockets) = (mounted.path("pg"), mounted.world.scratch.folder("sockets"));
    std::fs::create_dir(&data).unwrap();
    for folder in [&data, &sockets] {
        give_to_database_user(folder);
    }
    let run = |program: &str, arguments: &[&str]| succeed(as_database_user(programs.join(program)).args(arguments));
    let (data, sockets) = (data.to_str().unwrap(), sockets.to_str().unwrap());
    run("initdb", &["-k", "-A", "trust", "-U", "postgres", "-D", data]);
    let log = mounted.world.scratch.path().join("sockets/log");
    let options = format!("-k {sockets} -c listen_addresses=");
    let start = ["start", "-w", "-s", "-D", data, "-l", log.to_str().unwrap(), "-o", &options];
    let on_it = |program: &str, arguments: &[&str]| run(program, &[&["-h", sockets, "-U", "postgres"], arguments].concat());
    run("pg_ctl", &start);
    on_it("pgbench", &["-i", "-q", "-s", "2", "postgres"]);
    on_it("pgbench", &["-c", "4", "-T", "10", "postgres"]);
    let sum = "SELECT sum(abalance), (SELECT sum(delta) FROM pgbench_history) FROM pgbench_accounts";
    let before = on_it("psql", &["-XAtq", "-c", sum, "postgres"]);
    run("pg_ctl", &["stop", "-w", "-s", "-m", "fast", "-D", data]);
    run("pg_checksums", &["--check", "-D", data]);
    run("pg_ctl", &start);
    assert_eq!(on_it("psql", &["-XAtq", "-c", sum, "postgres"]), before);
    let (accounts, history) = before.trim().split_once('|').unwrap();
    assert_eq!(accounts, history, "each transaction is there as a whole");
    run("pg_ctl", &["stop", "-w", "-s", "-m", "immediate", "-D", data]);
    run("pg_ctl", &start);
    assert_eq!(on_it("psql", &["-XAtq", "-c", sum, "postgres"]), before, "after recovery");
    run("pg_ctl", &["stop", "-w", "-s", "-D", data]);
}
