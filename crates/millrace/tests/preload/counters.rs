//! What `nfs counters` reports about the mounts of real programs: who uses them, which calls wait
//! and since when, what is dead.

use crate::support::filer::Filer;
use crate::support::{Scratch, await_until, find_program, keepers, millrace, preload_library, skip, succeed};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// Creates a file and forks a child that asks the server every moment. Writes the pids of both to a
/// file outside the mount.
const PARENT_AND_CHILD: &str = "
import os, sys, time
open('/db/here', 'w').write('x')
child = os.fork()
if child:
    open(sys.argv[1] + '.new', 'w').write(f'{os.getpid()} {child}')
    os.rename(sys.argv[1] + '.new', sys.argv[1])
    os.wait()
while True:
    os.stat('/db/here')
    time.sleep(0.02)
";

/// Writes without a COMMIT, reports that in a file, and waits.
const UNSAVED: &str = "
import os, sys, time
fd = os.open('/db/unsaved', os.O_CREAT | os.O_WRONLY)
os.write(fd, b'kept until COMMIT')
open(sys.argv[1] + '.new', 'w').write(f'{os.getpid()} 0')
os.rename(sys.argv[1] + '.new', sys.argv[1])
time.sleep(600)
";

/// Reads that file, and reports whether the content is right.
const READER: &str = "
import os, sys, time
data = open('/db/unsaved').read()
open(sys.argv[1] + '.new', 'w').write(f'{os.getpid()} 0' if data == 'kept until COMMIT' else 'read ' + data)
os.rename(sys.argv[1] + '.new', sys.argv[1])
time.sleep(600)
";

/// Programs of one user, with their own runtime directory.
struct Host {
    scratch: Scratch,
    runtime: PathBuf,
    python: PathBuf,
}

/// A program on a mount. Dropping it kills the program and its child.
struct Program {
    child: Child,
    pids: Vec<u64>,
}

impl Host {
    fn new() -> Option<Self> {
        let python = find_program("python3")?;
        let scratch = Scratch::new("nfs-counters");
        let runtime = scratch.folder("runtime");
        std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Some(Self { scratch, runtime, python })
    }

    fn start(&self, name: &str, mount: &str, code: &str) -> Program {
        let told = self.scratch.path().join(name);
        let mut command = millrace();
        command.args(["exec", "--mount", mount, "--"]).arg(&self.python).args(["-c", code]).arg(&told);
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", &self.runtime);
        let child = command.env("MILLRACE_LOG", "0").current_dir("/").stdout(Stdio::null()).spawn().unwrap();
        let numbers = await_until(name, SOON, || std::fs::read_to_string(&told).ok());
        let pids = numbers.split(' ').map(|pid| pid.parse().unwrap()).filter(|pid| *pid > 0).collect();
        Program { child, pids }
    }

    fn counters(&self, options: &[&str]) -> std::process::Output {
        millrace().args(["nfs", "counters"]).args(options).env("MILLRACE_RUNTIME_DIR", &self.runtime).output().unwrap()
    }

    fn mounts(&self, options: &[&str]) -> Vec<Value> {
        let output = self.counters(&[&["--json"], options].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", crate::support::text(&output)))
    }
}

impl Program {
    fn end(&mut self) {
        for pid in &self.pids {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

fn signal(filer: &Filer, name: &str) {
    succeed(Command::new("kill").args([&format!("-{name}"), &filer.pid().to_string()]));
}

fn pids(mount: &Value) -> Vec<u64> {
    mount["processes"].as_array().unwrap().iter().map(|process| process["pid"].as_u64().unwrap()).collect()
}

#[test]
fn a_mount_is_told_of_by_path_and_processes_with_the_calls_that_wait_and_forgotten_once_dead() {
    let Some(host) = Host::new() else { return skip("no python3") };
    let (one, two) = (Scratch::new("counters-one"), Scratch::new("counters-two"));
    let (old, new) = (Filer::start(&one, &[]), Filer::start(&two, &[]));
    let older = host.start("older", &format!("/db={}", old.url), PARENT_AND_CHILD);
    let mut newer = host.start("newer", &format!("/db={}", new.url), PARENT_AND_CHILD);

    let shown = host.mounts(&[]);
    let urls: Vec<_> = shown.iter().map(|mount| mount["paths"][0]["url"].as_str().unwrap().to_owned()).collect();
    let without_options = |filer: &Filer| filer.url.split('?').next().unwrap().to_owned();
    assert_eq!(urls, [without_options(&new), without_options(&old)], "the last attached first");
    for (mount, program) in shown.iter().zip([&newer, &older]) {
        assert_eq!((&mount["paths"][0]["path"], &mount["state"]), (&"/db".into(), &"in_use".into()));
        let mut expected = program.pids.clone();
        expected.sort_unstable();
        assert_eq!(pids(mount), expected, "parent and child");
        assert_eq!(mount["calls_in_progress"], serde_json::json!([]));
        assert!(mount["processes"][0]["command"].as_str().unwrap().starts_with("python3"));
    }

    signal(&old, "STOP");
    let waiting = await_until("a call that waits", SOON, || {
        let shown = host.mounts(&[]);
        (!shown[1]["calls_in_progress"].as_array().unwrap().is_empty()).then_some(shown)
    });
    let call = &waiting[1]["calls_in_progress"][0];
    assert_eq!(call["pid"].as_u64(), older.pids.get(1).copied(), "{call}");
    assert!(call["seconds"].as_f64().unwrap() >= 1.0 && call["since"].as_str().unwrap().ends_with('Z'), "{call}");
    assert!(["GETATTR", "LOOKUP", "ACCESS"].contains(&call["procedure"].as_str().unwrap()), "{call}");
    assert_eq!(waiting[0]["calls_in_progress"], serde_json::json!([]), "of the other filer nobody waits");
    let text = String::from_utf8(host.counters(&[]).stdout).unwrap();
    assert!(
        text.contains(&format!("in progress: {} of process {} for ", call["procedure"].as_str().unwrap(), call["pid"])),
        "{text}"
    );
    signal(&old, "CONT");
    await_until("its answer", SOON, || (host.mounts(&[])[1]["calls_in_progress"] == serde_json::json!([])).then_some(()));

    newer.end();
    await_until("the mount without programs to be forgotten", SOON, || (host.mounts(&[]).len() == 1).then_some(()));
    assert_eq!(host.mounts(&[])[0]["paths"][0]["url"], without_options(&old));
    assert_eq!(host.mounts(&["--all"])[0]["state"], "dead");
    assert!(
        crate::support::text(&host.counters(&[])).contains("1 mount that no program uses and that keeps no data is not shown")
    );
    let removed = host.counters(&["--remove-dead"]);
    assert!(removed.status.success() && crate::support::text(&removed).starts_with("removed the shared state in "));
    assert_eq!(host.mounts(&["--all"]).len(), 1, "only the one in use is left");
    let again = host.start("again", &format!("/db={}", new.url), PARENT_AND_CHILD);
    assert_eq!(pids(&host.mounts(&[])[0]).len(), again.pids.len(), "a mount can be made where one was removed");
}

#[test]
fn a_mount_that_keeps_unsaved_data_is_shown_and_not_removed_when_all_its_processes_were_killed() {
    let Some(host) = Host::new() else { return skip("no python3") };
    let place = Scratch::new("counters-unsaved");
    let filer = Filer::start(&place, &[]);
    let mount = format!("/db={}", filer.url);
    let mut program = host.start("unsaved", &mount, UNSAVED);
    signal(&filer, "STOP"); // so that no keeper can commit
    program.end();
    keepers::end(filer.port);
    let shown = host.mounts(&[]);
    assert_eq!((&shown[0]["state"], shown[0]["retained_bytes"].as_u64()), (&"unsaved".into(), Some(17)), "{shown:?}");
    assert!(host.counters(&["--remove-dead"]).stdout.is_empty());
    assert_eq!(host.mounts(&[])[0]["retained_bytes"], 17);
    signal(&filer, "CONT");
    let _reader = host.start("reader", &mount, READER);
    await_until("the data to be committed", SOON, || (host.mounts(&[])[0]["retained_bytes"] == 0).then_some(()));
}

#[test]
fn a_mount_whose_data_the_server_refused_names_the_lost_file_until_an_fsync_has_returned_the_error() {
    let Some(host) = Host::new() else { return skip("no python3") };
    let place = Scratch::new("counters-refused");
    let filer = Filer::start(&place, &[]);
    let file = filer.export().join("unsaved");
    std::fs::write(&file, "").unwrap();
    let fault = r#"{"op":"fault-add","volume":"vol","fault":{"kind":"eio","on":["flush"],"path":"unsaved","times":1}}"#;
    assert_eq!(filer.admin(fault)["ok"], true);
    let mount = format!("/db={}", filer.url);
    host.start("refused", &mount, UNSAVED).end();
    await_until("the keeper to end", SOON, || (host.mounts(&[])[0]["state"] == "unsaved").then_some(()));

    let number = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&file).unwrap());
    let kept = serde_json::json!({"uncommitted_files": 0, "uncommitted_bytes": 0, "lost_files": [number], "hidden_names": 0});
    assert_eq!(host.mounts(&[])[0]["unsaved"], kept);
    let shown = crate::support::text(&host.counters(&[]));
    assert!(
        shown.contains(&format!("lost: written data of file number {number}")) && !shown.contains("not committed"),
        "{shown}"
    );
    let run = |command: &[&str]| {
        let mut exec = millrace();
        exec.args(["exec", "--mount", &mount, "--"]).args(command).env("MILLRACE_PRELOAD", preload_library());
        exec.env("MILLRACE_RUNTIME_DIR", &host.runtime).current_dir("/").output().unwrap().status.success()
    };
    assert!(run(&["true"]), "a program that does not sync the file");
    await_until("that program's keeper to end", SOON, || (host.mounts(&[])[0]["state"] == "unsaved").then_some(()));
    assert!(!run(&["sync", "/db/unsaved"]), "the first fsync reports the loss");
    await_until("the mount to be dead", SOON, || host.mounts(&[]).is_empty().then_some(()));
}
