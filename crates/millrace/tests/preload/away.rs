//! A server no longer exports the volume, exports another one, or has another address. Programs
//! wait and then continue by themselves.

use crate::support::filer::Filer;
use crate::support::ganesha::{Ganesha, inside};
use crate::support::withdrawn::{Withdrawn, Withdraws, mentions};
use crate::support::{
    Scratch, await_until, find_program, keepers, may_make_namespaces, millrace, preload_library, skip, succeed, text,
};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(40);
const CALLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/preload/away.py");
const GONE: &str = "the server no longer exports";

/// `millrace exec --mount /db=URL -- PROGRAM` with a time limit. Its standard error goes to the end
/// of a file.
fn exec(mut within: Command, url: &str, log: &Path, program: &str) -> Command {
    within.args(["-k", "5", "90"]).arg(millrace().get_program()).args(["exec", "--mount", &format!("/db={url}"), "--", program]);
    within.env("MILLRACE_PRELOAD", preload_library()).env("LC_ALL", "C").current_dir("/");
    within.stdout(Stdio::piped()).stderr(std::fs::File::options().create(true).append(true).open(log).unwrap());
    within
}

fn timeout() -> Command {
    Command::new("timeout")
}

fn finish(child: Child, log: &Path) -> String {
    let output = child.wait_with_output().unwrap();
    let logged = std::fs::read_to_string(log).unwrap_or_default();
    assert!(output.status.success(), "{}: {}\n{logged}", output.status, text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn exists(path: &Path) -> Option<()> {
    path.exists().then_some(())
}

/// `None`, with a message, if the server cannot run here.
fn ganesha(label: &str) -> Option<Ganesha> {
    Ganesha::start_with(label, "Squash = No_Root_Squash;", &[])
}

/// Every kind of call waits while the export is withdrawn, and succeeds when it is offered again.
fn every_call_waits(served: &mut impl Withdraws) {
    let (host, log) = (served.scratch().folder("host"), served.scratch().path().join("log"));
    let program =
        exec(served.command("timeout"), &served.url(), &log, "python3").arg(CALLS).arg("/db").arg(&host).spawn().unwrap();
    await_until("the program", SOON, || exists(&host.join("ready")));
    served.withdraw();
    std::fs::write(host.join("go"), "").unwrap();
    let calls: usize = std::fs::read_to_string(host.join("calls")).unwrap().parse().unwrap();
    // Each process reports once that it waits.
    let waiting = || std::fs::read_to_string(&log).unwrap_or_default().matches(GONE).count();
    await_until("every call to wait", SOON, || (waiting() >= calls).then_some(()));
    let done = || {
        std::fs::read_dir(&host)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("done-"))
    };
    assert_eq!(done().count(), 0, "nothing is done while the export is gone");
    served.offer();
    assert_eq!(finish(program, &log), format!("{calls} calls succeeded\n"));
    assert_eq!(done().count(), calls);
    let export = served.export();
    assert_eq!(std::fs::read(export.join("write")).unwrap()[..3], *b"new");
    assert!(std::fs::read(export.join("append")).unwrap().ends_with(b"end"));
    for name in ["commit", "close"] {
        assert_eq!(std::fs::read(export.join(name)).unwrap()[1 << 20..], [b'u'; 65536], "{name}");
    }
    let after = exec(served.command("timeout"), &served.url(), &log, "cat").arg("/db/created").spawn().unwrap();
    assert_eq!(finish(after, &log), "x", "a new program");
}

#[test]
fn every_kind_of_call_waits_for_an_export_that_is_withdrawn_and_succeeds_when_it_is_back() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    every_call_waits(&mut Withdrawn::start("away-calls"));
}

#[test]
fn every_kind_of_call_waits_for_an_export_of_ganesha_that_is_withdrawn_and_succeeds_when_it_is_back() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let Some(mut ganesha) = ganesha("away-ganesha") else { return };
    every_call_waits(&mut ganesha);
}

/// After a line on stdin, reads and writes through an open file and by path, and prints the results.
const ON_ANOTHER_VOLUME: &str = r#"
import errno, os, sys
host = sys.argv[1]
def said(what):
    try: return what()
    except OSError as error: return errno.errorcode[error.errno]
def names():
    return sorted(os.listdir("/db"))
old = os.open("/db/file", os.O_RDWR)
os.pwrite(old, b"unstable" * 8192, 0)
open(host + "/ready", "w").close()
sys.stdin.readline()
print(said(lambda: open("/db/file").read()), said(names))
print(said(lambda: os.pread(old, 4, 0)), said(lambda: os.pwrite(old, b"x", 0)), said(lambda: os.fsync(old)), said(lambda: os.fstat(old).st_size))
new = os.open("/db/file", os.O_RDWR)
print(said(lambda: os.pwrite(new, b"w", 0)), said(lambda: os.fsync(new)), said(lambda: os.pread(old, 4, 0)))
os.execvp("python3", ["python3", "-c", "import os\ntry: os.pread(%d, 1, 0)\nexcept OSError as error: print(error.strerror)" % os.dup2(old, 100)])
"#;

/// Runs a program before and after `replace` has put another volume at the path of the first, and a
/// new program. `file` returns the path of the new volume's file.
fn another_volume<R>(
    within: impl Fn() -> Command,
    url: &str,
    scratch: &Scratch,
    replace: impl FnOnce() -> R,
    file: impl FnOnce(&R) -> PathBuf,
) {
    let (host, log) = (scratch.folder("host"), scratch.path().join("log"));
    let mut command = exec(within(), url, &log, "python3");
    let mut program = command.args(["-c", ON_ANOTHER_VOLUME]).arg(&host).stdin(Stdio::piped()).spawn().unwrap();
    await_until("the program", SOON, || exists(&host.join("ready")));
    let replacement = replace();
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let stale = "ESTALE ESTALE ESTALE ESTALE\n";
    assert_eq!(finish(program, &log), format!("new ['file']\n{stale}1 None ESTALE\nStale file handle\n"));
    assert!(mentions(&log, "exports another volume as /").is_some(), "{}", std::fs::read_to_string(&log).unwrap());
    assert_eq!(std::fs::read(file(&replacement)).unwrap(), b"wew");
    let after = exec(within(), url, &log, "cat").arg("/db/file").spawn().unwrap();
    assert_eq!(finish(after, &log), "wew", "a new program");
}

#[test]
fn another_volume_under_the_path_is_reached_by_new_opens_and_files_of_the_old_one_are_stale() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let (scratch, other) = (Scratch::new("away-replaced"), Scratch::new("away-replacement"));
    let mut filer = Filer::start(&scratch, &[]);
    std::fs::write(filer.export().join("file"), "old").unwrap();
    std::fs::write(other.folder("export").join("file"), "new").unwrap();
    let (url, port) = (filer.url.clone(), filer.port);
    let replace = || {
        filer.kill();
        Filer::start_on(&other, port, &[])
    };
    another_volume(timeout, &url, &scratch, replace, |replacement| replacement.export().join("file"));
}

#[test]
fn another_volume_of_ganesha_is_reached_by_new_opens_and_files_of_the_old_one_are_stale() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let Some(mut ganesha) = ganesha("away-ganesha-replaced") else { return };
    let (scratch, url, shell) = (Scratch::new("away-replaced"), ganesha.url(), ganesha.shell());
    let file = ganesha.export().join("file");
    std::fs::write(&file, "new").unwrap();
    std::fs::write(ganesha.cover().join("file"), "old").unwrap();
    let within = || inside(shell, Path::new("timeout"));
    another_volume(within, &url, &scratch, || ganesha.uncover(), |()| file);
}

#[test]
fn a_file_that_was_removed_is_stale_at_once_while_its_export_is_there() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let scratch = Scratch::new("away-removed");
    let filer = Filer::start(&scratch, &[]);
    std::fs::write(filer.export().join("file"), "content").unwrap();
    const REMOVED: &str = "import os, sys\nold = os.open('/db/file', os.O_RDONLY)\nos.unlink(sys.argv[1])\n\
                           try: os.pread(old, 4, 0)\nexcept OSError as error: print(error.strerror)";
    let log = scratch.path().join("log");
    let program = exec(timeout(), &filer.url, &log, "python3").args(["-c", REMOVED]).arg(filer.export().join("file")).spawn();
    assert_eq!(finish(program.unwrap(), &log), "Stale file handle\n");
    assert!(!std::fs::read_to_string(&log).unwrap().contains(GONE));
    assert!(filer.calls("READ") <= 2, "it is asked for once more, in case that the export was away between");
}

/// Prints the results of three calls, the last an fsync of uncommitted data.
const ASKS: &str = r#"
import errno, os, subprocess, sys
file = os.open("/db/file", os.O_RDWR | os.O_CREAT)
os.pwrite(file, b"u" * 65536, 0)
open(sys.argv[1], "w").close()
sys.stdin.readline()
if sys.argv[2:]: print(subprocess.run(["cat", "/db/there"]).returncode)
for call in [lambda: os.stat("/db/there"), lambda: os.pread(file, 1, 1 << 20), lambda: os.fsync(file)]:
    try: call(); print("ok")
    except OSError as error: print(errno.errorcode[error.errno])
"#;

/// Starts [`ASKS`], withdraws the export when the program is ready, and lets the program continue.
fn asks(served: &mut impl Withdraws, options: &str) -> Child {
    std::fs::write(served.export().join("there"), "").unwrap();
    let (ready, log) = (served.scratch().path().join("ready"), served.scratch().path().join("log"));
    let mut command = exec(served.command("timeout"), &format!("{}{options}", served.url()), &log, "python3");
    let mut program = command.args(["-c", ASKS]).arg(&ready).stdin(Stdio::piped()).spawn().unwrap();
    await_until("the program", SOON, || exists(&ready));
    served.withdraw();
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    program
}

/// What [`ASKS`] prints on a mount with these options whose export is withdrawn.
fn said_while_gone(mut served: impl Withdraws, options: &str) -> String {
    let program = asks(&mut served, options);
    let said = finish(program, &served.scratch().path().join("log"));
    served.offer();
    said
}

#[test]
fn with_gone_error_calls_of_a_withdrawn_export_are_stale_at_once() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let options = "close=nothing&gone=error";
    assert_eq!(said_while_gone(Withdrawn::start("away-error"), options), "ESTALE\nESTALE\nESTALE\n");
    let Some(ganesha) = ganesha("away-ganesha-error") else { return };
    assert_eq!(said_while_gone(ganesha, options), "ESTALE\nESTALE\nESTALE\n");
}

#[test]
fn a_soft_mount_waits_for_a_withdrawn_export_no_longer_than_for_a_silent_server() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let begun = std::time::Instant::now();
    let said = said_while_gone(Withdrawn::start("away-soft"), "close=nothing&soft&timeo=10&retrans=0");
    assert_eq!(said, "ESTALE\nESTALE\nESTALE\n");
    assert!(begun.elapsed() >= Duration::from_secs(3), "a second each");
}

#[test]
fn uncommitted_data_survives_an_export_of_ganesha_that_is_gone_and_a_restart_with_another_verifier() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let Some(mut ganesha) = ganesha("away-ganesha-restart") else { return };
    let log = ganesha.scratch.path().join("log");
    let program = asks(&mut ganesha, "close=nothing");
    await_until("the program to wait", SOON, || mentions(&log, GONE));
    ganesha.restart();
    ganesha.offer();
    assert_eq!(finish(program, &log), "ok\nok\nok\n");
    assert_eq!(std::fs::read(ganesha.export().join("file")).unwrap(), [b'u'; 65536]);
}

#[test]
fn a_program_that_waits_for_an_export_is_ended_by_sigterm() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let mut served = Withdrawn::start("away-sigterm");
    let log = served.scratch().path().join("log");
    let mut program = asks(&mut served, "");
    await_until("the program to wait", SOON, || mentions(&log, GONE));
    succeed(Command::new("kill").args(["-TERM", &program.id().to_string()])); // timeout(1) passes it on
    let ended = await_until("the program to end", SOON, || program.try_wait().unwrap());
    assert!(!ended.success());
}

#[test]
fn uncommitted_data_survives_an_export_that_is_gone_a_server_that_dies_and_its_lost_memory() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let scratch = Scratch::new("away-data");
    let loses = ["--loss-layer", "--boot-id", "11111111-2222-3333-4444-000000000001"];
    let mut filer = Filer::start(&scratch, &loses);
    std::fs::write(filer.export().join("there"), "").unwrap();
    let (ready, log) = (scratch.path().join("ready"), scratch.path().join("log"));
    let mut command = exec(timeout(), &format!("{}&close=nothing", filer.url), &log, "python3");
    let mut program = command.args(["-c", ASKS]).arg(&ready).arg("and a program").stdin(Stdio::piped()).spawn().unwrap();
    await_until("the program", SOON, || exists(&ready));
    assert_eq!(filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
    filer.kill();
    // Another server takes the port, which knows neither the path nor the handles. The keeper is
    // ended too, so that a program that attaches asks for MNT itself.
    let mut other = Withdrawn::start("away-data-other");
    let port = filer.port;
    other.kill();
    other.listen_on(port);
    other.restart(false);
    keepers::end(port);
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    await_until("the program to wait", SOON, || mentions(&log, "no longer exports /vol; waiting"));
    other.kill();
    filer.restart_with(&["--loss-layer", "--boot-id", "11111111-2222-3333-4444-000000000002"]);
    assert_eq!(finish(program, &log), "0\nok\nok\nok\n");
    assert_eq!(std::fs::read(filer.export().join("file")).unwrap(), [b'u'; 65536]);
}

/// Mounts a private /etc/hosts and runs the program.
const WITH_HOSTS: &str = r#"mount --bind "$1" /etc/hosts; shift; exec "$@""#;

#[test]
fn a_server_whose_name_has_another_address_is_found_there_by_programs_that_wait() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    if !may_make_namespaces() {
        return;
    }
    let scratch = Scratch::new("away-moved");
    let hosts = scratch.path().join("hosts");
    let names = |address: &str| std::fs::write(&hosts, format!("127.0.0.1 localhost\n{address} filer.test\n")).unwrap();
    let mut filer = Filer::start_at(&scratch, "127.0.0.2:0", &[]);
    std::fs::write(filer.export().join("there"), "").unwrap();
    names("127.0.0.2");
    let (ready, log) = (scratch.path().join("ready"), scratch.path().join("log"));
    let url = format!("nfs://filer.test:{}/vol?close=nothing&local=127.0.0.1", filer.port);
    let within = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-euc", WITH_HOSTS, "sh"]).arg(&hosts).arg("timeout");
        command
    };
    let mut command = exec(within(), &url, &log, "python3");
    let mut program = command.args(["-c", ASKS]).arg(&ready).stdin(Stdio::piped()).spawn().unwrap();
    await_until("the program", SOON, || exists(&ready));
    filer.kill();
    names("127.0.0.3");
    filer.restart_at(&format!("127.0.0.3:{}", filer.port));
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(finish(program, &log), "ok\nok\nok\n");
    assert_eq!(std::fs::read(filer.export().join("file")).unwrap(), [b'u'; 65536]);
    let after = exec(within(), &url, &log, "cat").arg("/db/file").spawn().unwrap();
    assert_eq!(finish(after, &log).len(), 65536, "a new program");
}
