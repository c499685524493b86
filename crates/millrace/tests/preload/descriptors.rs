//! Descriptors of a mount: what the kernel keeps of them over dup, fork and exec, which programs
//! their locks exclude, and what they do in a program that the preload library cannot see.

use crate::support::world::{World, compile};
use crate::support::{find_program, skip, succeed, text};
use std::process::Command;

/// Runs a shell script, some of whose commands may fail.
fn shell(world: &World, script: &str) -> String {
    let output = world.exec("/bin/sh").args(["-uc", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The program that bypasses the preload library. `None`, with a message, if it cannot be built.
fn stray_program(world: &World) -> Option<String> {
    let static_library = find_program("cc").map(|cc| Command::new(cc).arg("-print-file-name=libc.a").output().unwrap());
    if !static_library.is_some_and(|found| found.stdout.starts_with(b"/")) {
        skip("no C compiler, or no static C library");
        return None;
    }
    Some(compile(&world.scratch, "stray", &["-static"])?.to_str().unwrap().to_owned())
}

const EISDIR: i32 = 21;
const EBADF: i32 = 9;

#[test]
fn access_modes_flags_and_locks_are_those_of_local_disk_over_dup_fork_exec_and_close() {
    let world = World::new("descriptors");
    let Some(program) = compile(&world.scratch, "descriptors", &["-O1"]) else { return };
    let local = world.scratch.folder("local");
    let oracle = Command::new("timeout").args(["-k", "5", "60"]).arg(&program).arg(&local).output().unwrap();
    assert!(oracle.status.success(), "on local disk: {}", text(&oracle));
    let seen = world.exec(program.to_str().unwrap()).arg("/db").output().unwrap();
    assert!(seen.status.success(), "on the mount: {}", text(&seen));
}

#[test]
fn record_locks_survive_one_exec_after_another_and_cost_the_program_no_descriptor() {
    let world = World::new("lock-exec");
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let script = r#"
import fcntl, os, subprocess, sys
program, path, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
if left == 3:
    opened = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(opened, 5)
    os.close(opened)
    fcntl.lockf(5, fcntl.LOCK_EX)
os.fstat(5)
other = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
is_locked = subprocess.run([sys.executable, "-c", other, path], stderr=subprocess.DEVNULL).returncode != 0
print(left, is_locked, os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), flush=True)
if left:
    os.execv(sys.executable, [sys.executable, "-c", program, program, path, str(left - 1)])
os.close(5)
print(subprocess.run([sys.executable, "-c", other, path]).returncode)
"#;
    let run = |command: &mut Command, path: &str| succeed(command.args(["-c", script, script, path, "3"]));
    let local = run(&mut Command::new(&python), world.scratch.path().join("file").to_str().unwrap());
    assert_eq!(run(&mut world.exec(python.to_str().unwrap()), "/db/file"), local);
}

#[test]
fn stray_write_and_read_fail_at_once_in_the_stray_program_and_harm_nobody() {
    let world = World::new("stray");
    let Some(stray) = stray_program(&world) else { return };
    // Redirections of a shell, and a daemon whose messages go to the mount.
    let script = format!(
        "echo before > /db/log; {stray} 1 write >> /db/log; echo $?; {stray} 2 write 2>> /db/log; echo $?
         {stray} 0 read < /db/log; echo $?; {stray} 1 write > /db/other; echo $?
         {{ {stray} 2 write 2>> /db/log & }}; wait $!; echo $?
         echo after >> /db/log; cat /db/log; wc -c < /db/other"
    );
    let errors = format!("{EBADF}\n{EBADF}\n{EISDIR}\n{EBADF}\n{EBADF}\n");
    assert_eq!(shell(&world, &script), format!("{errors}before\nafter\n0\n"));
    // Another program of this user finds the file undamaged.
    assert_eq!(shell(&world, "echo more >> /db/log; sync /db/log; mv /db/log /db/log.1; cat /db/log.1"), "before\nafter\nmore\n");
    assert_eq!(world.exported("log.1"), b"before\nafter\nmore\n");
}

#[test]
fn stray_program_started_by_posix_spawn_fails_at_once_and_its_parent_goes_on() {
    let world = World::new("stray-spawn");
    let Some(stray) = stray_program(&world) else { return };
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let script = r#"
import os, sys
log = os.open("/db/log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
os.write(log, b"starts\n"); os.dup2(log, 2)
pid = os.posix_spawn(sys.argv[1], [sys.argv[1], "2", "write"], {})
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.write(log, b"goes on\n"), os.fsync(log))
print(open("/db/log").read(), end="")
"#;
    let out = succeed(world.exec(python.to_str().unwrap()).args(["-c", script, &stray]));
    assert_eq!(out, format!("{EBADF} 8 None\nstarts\ngoes on\n"));
}

#[test]
fn no_system_call_of_a_stray_program_pretends_to_have_done_something() {
    let world = World::new("stray-calls");
    let Some(stray) = stray_program(&world) else { return };
    let script = format!(
        "echo data > /db/f; exec 5<> /db/f 6< /db/f 7>> /db/f; {stray} 5; {stray} 6; {stray} 7
         cat <&6; echo more >&7; cat /db/f; sh -c 'echo end >> /db/f'; cat /db/f"
    );
    assert_eq!(shell(&world, &script), "data\ndata\nmore\ndata\nmore\nend\n");
}

#[test]
fn flock_of_a_descriptor_of_the_shell_outlives_the_program_that_took_it() {
    let Some(_) = find_program("flock") else { return skip("no flock") };
    let world = World::new("flock");
    let script = "exec 9> /db/lock; flock 9
        (exec 8> /db/lock; flock -n 8; echo $?); (exec 8> /db/lock; flock -w 0.1 8; echo $?); (flock -n 9; echo $?)
        flock -u 9; (exec 8< /db/lock; flock -n 8; echo $?)";
    assert_eq!(shell(&world, script), "1\n1\n0\n0\n");
}

#[test]
fn a_program_gets_a_number_that_the_client_has_for_itself_by_dup2_and_the_mount_goes_on() {
    let world = World::new("own-numbers");
    let script = "exec 7>/db/f; for n in 900 901; do eval \"exec $n>/db/f$n\"; echo $n >&$n; done; echo on >&7; cat /db/f /db/f900 /db/f901";
    let output = succeed(world.exec("/bin/bash").args(["-euc", script]));
    assert_eq!(output, "on\n900\n901\n");
}
