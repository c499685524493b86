//! Processes that are stopped, threads that leave their calls by `siglongjmp`, and cancelled
//! threads: no other process waits for them, and no data is lost.

use crate::support::ganesha::Ganesha;
use crate::support::world::{World, compile};
use crate::support::{
    Scratch, await_until, environment_number, find_program, millrace, preload_library, skip, skip_unsupported, succeed,
};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn script() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/stopped.py").to_str().unwrap().to_owned()
}

fn python(world: &World) -> Option<Command> {
    let Some(python) = find_program("python3") else {
        skip("no python3");
        return None;
    };
    let mut command = world.exec(python.to_str().unwrap());
    command.arg(script());
    Some(command)
}

#[test]
fn no_call_waits_for_a_process_that_is_stopped_in_a_call_and_its_own_call_ends_when_it_goes_on() {
    let world = World::new("stopped-held");
    let Some(mut command) = python(&world) else { return };
    let output = succeed(command.args(["held", "/db"]).arg(&world.filer.admin));
    assert_eq!(output, "done\n");
}

#[test]
fn appends_of_a_process_that_is_stopped_in_one_and_those_of_others_meanwhile_are_each_in_the_file_once() {
    let world = World::new("stopped-appends");
    let Some(mut command) = python(&world) else { return };
    assert_eq!(succeed(command.args(["appends", "/db"]).arg(&world.filer.admin)), "done\n");
}

/// Stops, kills and debugs processes and leaves calls at random moments.
fn disturb(command: &mut Command, jumping: &Path, times: u64, seed: u64) {
    println!("seed {seed}");
    let output = succeed(command.args(["many", "/db", &times.to_string(), &seed.to_string()]).arg(jumping));
    assert_eq!(output, "done\n");
}

fn disturb_many(name: &str, times: u64, seed: u64) {
    if find_program("gdb").is_none() {
        skip("no gdb");
    }
    let world = World::new(name);
    let Some(jumping) = compile(&world.scratch, "jumping", &["-O1"]) else { return };
    let Some(mut command) = python(&world) else { return };
    disturb(&mut command, &jumping, times, seed);
}

#[test]
fn fifty_stops_kills_jumps_and_debuggers_at_any_moment_lose_nothing_and_hold_up_no_other_process() {
    disturb_many("stopped-many", 50, environment_number("MILLRACE_SEED").unwrap_or(1));
}

#[test]
#[ignore = "nightly: 500 stops, kills, jumps and debuggers, five minutes"]
fn five_hundred_stops_kills_jumps_and_debuggers_lose_nothing_and_hold_up_no_other_process() {
    for seed in 1..=10 {
        disturb_many("stopped-nightly", 50, seed);
    }
}

#[test]
#[ignore = "nightly: 100 stops beside a server that cannot fence, a minute"]
fn a_hundred_stops_beside_another_server_hold_up_no_other_process() {
    let Some(ganesha) = Ganesha::start_with("stopped-ganesha", "Squash = No_Root_Squash;", &[]) else { return };
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let scratch = Scratch::new("stopped-jumping");
    let Some(jumping) = compile(&scratch, "jumping", &["-O1"]) else { return };
    let mut command = ganesha.inside(Path::new(millrace().get_program()));
    command.env("MILLRACE_PRELOAD", preload_library()).current_dir("/");
    command.args(["exec", "--mount", &format!("/db={}", ganesha.url()), "--"]).arg(python).arg(script());
    disturb(&mut command, &jumping, 100, 1);
}

fn left(world: &World, case: &str, slow: Option<(&str, u64)>) -> Option<String> {
    let program = compile(&world.scratch, "left", &["-pthread", "-O1"])?;
    std::fs::write(world.filer.export().join("file"), vec![b'x'; 16384]).unwrap();
    if let Some((procedures, delay_ms)) = slow {
        let fault = format!(r#"{{"op":"fault-add","fault":{{"kind":"slow","on":["{procedures}"],"delay_ms":{delay_ms}}}}}"#);
        assert_eq!(world.filer.admin(&fault)["ok"], true);
    }
    Some(succeed(world.exec(program.to_str().unwrap()).args(["/db", case])))
}

#[test]
fn a_thread_may_leave_any_number_of_reads_by_siglongjmp_and_reads_on() {
    for case in ["reads", "stack"] {
        let Some(output) = left(&World::new("stopped-reads"), case, Some(("READ", 60))) else { return };
        assert!(output.ends_with("right\n") && !output.contains("left 0\n"), "{case}: {output}");
    }
}

#[test]
fn a_thread_may_leave_any_number_of_writes_by_siglongjmp_and_the_last_one_stands() {
    let Some(output) = left(&World::new("stopped-writes"), "writes", Some(("WRITE", 60))) else { return };
    assert!(output.ends_with("right\n") && !output.contains("left 0\n"), "{output}");
}

#[test]
fn a_handler_on_a_stack_of_its_own_that_reads_is_not_taken_for_a_call_that_was_left() {
    let Some(output) = left(&World::new("stopped-handlers"), "handlers", Some(("WRITE", 15))) else { return };
    assert_eq!(output, "handled 1\nright\n");
}

#[test]
fn a_thread_that_reads_or_writes_a_mount_can_be_cancelled() {
    let Some(output) = left(&World::new("stopped-cancel"), "cancel", None) else { return };
    assert_eq!(output, "right\n");
}

#[test]
fn what_a_thread_left_of_a_log_by_siglongjmp_is_read_by_others_while_it_lives() {
    let world = World::new("stopped-logs");
    let Some(program) = compile(&world.scratch, "left", &["-pthread", "-O1"]) else { return };
    std::fs::write(world.filer.export().join("file"), b"").unwrap();
    let mut logs = world.exec(program.to_str().unwrap());
    let mut child = logs.args(["/db", "logs"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "begun");
    let slow = r#"{"op":"fault-add","fault":{"kind":"slow","on":["WRITE"],"delay_ms":500,"times":1}}"#;
    assert_eq!(world.filer.admin(slow)["ok"], true);
    writeln!(child.stdin.as_mut().unwrap()).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "left 1");
    let begun = Instant::now();
    let output = world.shell("stat -c %s /db/file; wc -c </db/file; ls -l /db >/dev/null; echo more >>/db/file; wc -c </db/file");
    assert_eq!(output, "384\n384\n389\n");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    succeed(Command::new("kill").arg(child.id().to_string())); // the child is timeout(1), which ends the program
    child.wait().unwrap();
}

/// Without the correction, the process's times in shared memory would be a minute older than those of others.
#[test]
fn a_slow_append_of_a_process_that_runs_in_a_time_namespace_of_its_own_is_waited_for() {
    let may = Command::new("unshare").args(["--time", "--monotonic", "-60", "--fork", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        return skip_unsupported("this user may not make time namespaces");
    }
    let world = World::new("stopped-time");
    std::fs::write(world.filer.export().join("log"), b"").unwrap();
    assert_eq!(world.shell("cat /db/log; echo ready"), "ready\n");
    let slow = r#"{"op":"fault-add","fault":{"kind":"slow","on":["WRITE"],"delay_ms":2500,"times":1}}"#;
    assert_eq!(world.filer.admin(slow)["ok"], true);
    let writer = world.exec("sh");
    let mut apart = Command::new("unshare");
    apart.args(["--time", "--monotonic", "-60", "--fork"]).arg(writer.get_program()).args(writer.get_args());
    apart.envs(writer.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir("/");
    let mut slow = apart.args(["-c", "echo slow | dd of=/db/log oflag=append,dsync conv=notrunc status=none"]).spawn().unwrap();
    await_until("the slow WRITE to be at the server", Duration::from_secs(30), || {
        (world.filer.admin(r#"{"op":"fault-list"}"#)["report"]["faults"][0]["injected"] == 1).then_some(())
    });
    world.shell("echo next >> /db/log");
    assert!(slow.wait().unwrap().success());
    assert_eq!(world.exported("log"), b"slow\nnext\n");
}
