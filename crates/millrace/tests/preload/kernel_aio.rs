//! Kernel AIO on files of a mount: the same results as on a local file, several requests in flight,
//! and fio's own verification.

use crate::support::filer::Filer;
use crate::support::{Scratch, find_program, millrace, preload_library, skip, succeed, text, world};
use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/preload/kernel_aio.py");

struct World {
    filer: Filer,
    scratch: Scratch,
    python: PathBuf,
}

impl World {
    fn new(label: &str, options: &[&str]) -> Option<Self> {
        let python = find_program("python3");
        let library = std::process::Command::new("python3").args(["-c", "import ctypes; ctypes.CDLL('libaio.so.1')"]).output();
        if python.is_none() || !library.is_ok_and(|done| done.status.success()) {
            skip("no python3 or no libaio.so.1 (libaio1)");
            return None;
        }
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, options);
        Some(Self { filer, scratch, python: python? })
    }

    fn exec(&self, options: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "120"]).arg(millrace().get_program()).env("MILLRACE_PRELOAD", preload_library());
        command.current_dir("/").args(["exec", "--mount", &format!("/db={}{options}", self.filer.url), "--"]);
        command
    }

    /// The output of a part of the script on the mount.
    fn on_the_mount(&self, part: &str) -> String {
        let elsewhere = self.elsewhere();
        succeed(self.exec("").arg(&self.python).args([SCRIPT, "/db"]).arg(elsewhere).arg(part))
    }

    /// The output of the same part on a local file system that supports O_DIRECT.
    fn on_local_disk(&self, part: &str) -> String {
        let elsewhere = self.elsewhere();
        succeed(Command::new(&self.python).args([SCRIPT.as_ref(), elsewhere.as_os_str(), elsewhere.as_os_str()]).arg(part))
    }

    fn elsewhere(&self) -> PathBuf {
        let elsewhere = self.scratch.path().join("elsewhere");
        std::fs::create_dir_all(&elsewhere).unwrap();
        elsewhere
    }
}

fn same_as_local(part: &str) {
    let Some(world) = World::new(&format!("kernel-aio-{part}"), &[]) else { return };
    let local = world.on_local_disk(part);
    assert!(local.lines().count() > 0);
    assert_eq!(world.on_the_mount(part), local);
}

#[test]
fn requests_on_a_mount_are_answered_as_on_a_local_file() {
    same_as_local("basics");
}

#[test]
fn an_eventfd_is_told_of_each_request() {
    same_as_local("notified");
}

#[test]
fn a_program_may_have_more_requests_in_flight_than_descriptors() {
    same_as_local("more_than_descriptors");
}

#[test]
fn what_is_not_direct_is_written_when_io_submit_returns() {
    same_as_local("buffered");
}

#[test]
fn a_context_does_not_survive_fork_and_who_ends_waits_for_what_is_in_flight() {
    same_as_local("children");
}

#[test]
fn a_signal_handler_ends_the_wait_for_events() {
    same_as_local("interrupted");
}

#[test]
fn one_context_has_requests_on_the_mount_and_on_the_host() {
    let Some(world) = World::new("kernel-aio-together", &[]) else { return };
    let expected = world.on_local_disk("together");
    assert_eq!(world.on_the_mount("together"), expected);
}

/// fio's arguments for a job that verifies what it writes.
fn verifying(engine: &str, seconds: u32) -> Vec<String> {
    let fixed = ["--name=verify", "--filename=/db/verify", "--size=8m", "--bsrange=4k-64k", "--bs_unaligned=0", "--rw=randrw"];
    let more = [
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--time_based",
        "--thread",
        "--direct=1",
        "--iodepth=16",
    ];
    let mut arguments: Vec<String> = fixed.iter().chain(&more).map(ToString::to_string).collect();
    arguments.extend([format!("--ioengine={engine}"), format!("--runtime={seconds}")]);
    arguments
}

fn fio_verifies(world: &World, seconds: u32) {
    let Some(fio) = find_program("fio") else { return skip("no fio") };
    for engine in ["psync", "pvsync2", "libaio", "posixaio"] {
        succeed(world.exec("").arg(&fio).args(verifying(engine, seconds)));
    }
}

#[test]
fn fio_verifies_what_it_wrote_by_each_engine() {
    if let Some(world) = World::new("kernel-aio-fio", &[]) {
        fio_verifies(&world, 1);
    }
}

#[test]
#[ignore = "nightly: four minutes of fio"]
fn fio_verifies_a_minute_by_each_engine() {
    if let Some(world) = World::new("kernel-aio-fio-long", &[]) {
        fio_verifies(&world, 60);
    }
}

#[test]
fn io_uring_is_refused_with_a_line_that_names_the_setting() {
    let Some(world) = World::new("kernel-aio-uring", &[]) else { return };
    let Some(fio) = find_program("fio") else { return skip("no fio") };
    let done = world.exec("").arg(fio).args(verifying("io_uring", 1)).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("ioengine=libaio (fio)"), "{said}");
}

#[test]
fn requests_are_in_flight_together() {
    let Some(world) = World::new("kernel-aio-depth", &[]) else { return };
    let Some(fio) = find_program("fio") else { return skip("no fio") };
    let job = ["--name=deep", "--filename=/db/deep", "--size=8m", "--bs=8k", "--rw=randread", "--direct=1", "--ioengine=libaio"];
    let depth = ["--iodepth=32", "--iodepth_batch_submit=32", "--iodepth_batch_complete_min=32", "--number_ios=2000", "--thread"];
    let runtime = world.scratch.path().join("runtime");
    succeed(world.exec("&slots=64").env("MILLRACE_RUNTIME_DIR", &runtime).arg(fio).args(job).args(depth));
    let counters = succeed(millrace().args(["nfs", "counters", "--json"]).env("MILLRACE_RUNTIME_DIR", &runtime));
    let record: serde_json::Value = serde_json::from_str(&counters).unwrap();
    assert!(record[0]["slots"]["most"].as_u64().is_some_and(|most| most >= 24), "{record:#}");
}

#[test]
fn a_filer_that_is_killed_again_and_again_loses_no_request() {
    let Some(mut world) = World::new("kernel-aio-kills", &[]) else { return };
    let Some(fio) = find_program("fio") else { return skip("no fio") };
    let mut job = world.exec("").arg(fio).args(verifying("libaio", 5)).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut kills = 0;
    while job.try_wait().unwrap().is_none() {
        let calls = world.filer.calls("WRITE");
        while job.try_wait().unwrap().is_none() && world.filer.calls("WRITE") < calls + 200 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        if job.try_wait().unwrap().is_none() {
            world.filer.kill();
            world.filer.restart();
            kills += 1;
        }
    }
    let done = job.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert!(kills > 1, "killed {kills} times: this proves little");
}

#[test]
fn what_is_in_flight_is_written_before_the_program_becomes_another_by_any_function_of_exec() {
    const FUNCTIONS: [&str; 10] =
        ["execl", "execlp", "execle", "execv", "execvp", "execve", "execvpe", "execveat", "fexecve", "SYS_execve"];
    let world = crate::support::world::World::served("kernel-aio-exec", &["--fault", "slow,on=WRITE,delay_ms=20"]);
    let Some(program) = crate::support::world::compile(&world.scratch, "exec", &["-O1"]) else { return };
    for function in FUNCTIONS {
        // Only one call is in flight at a time, so that requests for which the program does not
        // wait would never be sent.
        let mut command = world.exec_with("&slots=1", program.to_str().unwrap());
        succeed(command.args(["inflight", function]).arg(format!("/db/{function}")));
        let written = world.exported(function);
        assert!(written.len() == 24 * 16384 && written.iter().all(|byte| *byte == b'x'), "{function}: {} bytes", written.len());
    }
}

#[test]
fn execl_and_its_kin_hand_on_every_argument_and_the_environment() {
    let world = crate::support::world::World::new("exec-lists");
    let Some(program) = crate::support::world::compile(&world.scratch, "exec", &["-O1"]) else { return };
    std::fs::write(world.filer.export().join("f"), b"here\n").unwrap();
    for function in ["execl", "execlp", "execle"] {
        let mut command = world.exec(program.to_str().unwrap());
        assert_eq!(succeed(command.args(["run", function, "/bin/echo", "0"])), "0 1 2 3 4 5 6 7 8 9 10\n", "{function}");
        let missing = world.exec(program.to_str().unwrap()).args(["run", function, "/none", "0"]).output().unwrap();
        let said = String::from_utf8_lossy(&missing.stderr);
        assert!(missing.status.code() == Some(3) && said.contains("No such file"), "{function}: {said}");
        let mut command = world.exec(program.to_str().unwrap());
        let shown = command.args(["run", function, "/bin/cat", "/db/f"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&shown.stdout), "here\n", "{function}");
    }
}

#[test]
fn a_program_that_takes_events_from_the_ring_itself_is_served_as_on_a_local_file() {
    let world = world::World::new("aio-ring");
    let Some(program) = world::compile(&world.scratch, "aio_ring", &["-O1"]) else { return };
    let (local, beside) = (world.scratch.folder("local"), world.scratch.folder("beside"));
    let expected = succeed(Command::new(&program).args([&local, &beside]));
    assert!(expected.contains("6400 written, 6400 read"), "{expected}");
    assert_eq!(succeed(world.exec(program.to_str().unwrap()).arg("/db").arg(&beside)), expected);
    if find_program("qemu-img").is_none() {
        return skip("no qemu-img");
    }
    let image = "qemu-img create -q -f qcow2 /db/image 16M; qemu-img bench -w -q -t none -i native -c 500 /db/image; qemu-img check -q /db/image";
    let output = world.exec("/bin/sh").args(["-euc", image]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let lines = String::from_utf8_lossy(&output.stderr);
    assert!(lines.matches("io_uring").count() <= 1, "each of QEMU's tools asks for a ring, and goes on without: {lines}");
}
