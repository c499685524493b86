//! `millrace nfs give-up`: the end of a mount whose server does not return, or that no program
//! needs any more.

use crate::support::filer::Filer;
use crate::support::{Scratch, await_until, find_program, keepers, millrace, preload_library, skip, text};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(40);
const BYTES: u64 = 10_000;
/// Writes, reports that, keeps the file open, and ends when its standard input ends.
const WRITES: &str = "import os, sys; f = os.open('/db/f', os.O_RDWR | os.O_CREAT); os.write(f, b'x' * 10000); print(flush=True); sys.stdin.read()";

pub(crate) struct World {
    pub(crate) filer: Filer,
    pub(crate) runtime: tempfile::TempDir,
    python: PathBuf,
    _scratch: Scratch,
}

impl World {
    pub(crate) fn new(label: &str, options: &[&str]) -> Option<Self> {
        let Some(python) = find_program("python3") else {
            skip("no python3");
            return None;
        };
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, options);
        let runtime = tempfile::Builder::new().prefix("millrace-test-").tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(runtime.path(), PermissionsExt::from_mode(0o700)).unwrap();
        Some(Self { filer, runtime, python, _scratch: scratch })
    }

    /// `millrace exec … --` on the mount at /db.
    pub(crate) fn exec(&self) -> Command {
        let mut command = millrace();
        command.args(["exec", "--mount", &format!("/db={}&close=nothing", self.filer.url), "--"]).current_dir("/");
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", self.runtime.path());
        command
    }

    /// A program that has written to the mount and still has its file open.
    pub(crate) fn writer(&self) -> Child {
        let mut command = self.exec();
        command.arg(&self.python).args(["-c", WRITES]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        child
    }

    pub(crate) fn give_up(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["60"]).arg(millrace().get_program()).args(["nfs", "give-up"]).args(arguments);
        command.env("MILLRACE_RUNTIME_DIR", self.runtime.path()).output().unwrap()
    }

    /// The output of `--json` for a mount that was given up.
    pub(crate) fn given_up(&self, arguments: &[&str]) -> Value {
        let output = self.give_up(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn nothing_is_left(&self) {
        assert_eq!(keepers::of(self.filer.port), [0; 0], "no process");
        assert_eq!(std::fs::read_dir(self.runtime.path()).unwrap().count(), 0, "no file");
    }
}

pub(crate) fn end(mut program: Child) {
    let _ = program.kill();
    program.wait().unwrap();
}

#[test]
fn a_mount_whose_server_is_gone_is_given_up_by_force_alone_and_what_is_lost_is_named() {
    let Some(mut world) = World::new("give-up-gone", &[]) else { return };
    let writer = world.writer();
    let number = std::fs::metadata(world.filer.export().join("f")).unwrap().ino();
    world.filer.kill();
    end(writer);
    await_until("a keeper", SOON, || (!keepers::of(world.filer.port).is_empty()).then_some(()));
    let refused = world.give_up(&["/db"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    let file = format!("file number {number} of the export: {BYTES} bytes");
    assert!(text(&refused).contains(&file) && text(&refused).contains("hint: start the server"), "{}", text(&refused));
    assert!(!keepers::of(world.filer.port).is_empty(), "nothing was lost");
    let report = world.given_up(&["--force", "/db"]);
    assert_eq!(report["outcome"], "lost", "{report}");
    assert_eq!(report["lost"], serde_json::json!([{"fileid": number, "bytes": BYTES, "has_error": false}]));
    assert_eq!(report["lost_bytes"], BYTES);
    world.nothing_is_left();
    let again = world.give_up(&["/db"]);
    assert!(again.status.code() == Some(2) && text(&again).contains("this user has no such mount"), "{}", text(&again));
    let none = world.give_up(&[]);
    assert!(none.status.success() && text(&none).contains("nothing to give up: this user has no mount"), "{}", text(&none));
}

#[test]
fn a_mount_whose_server_answers_is_saved_before_it_ends() {
    let Some(world) = World::new("give-up-saved", &["--loss-layer"]) else { return };
    let mut writer = world.writer();
    drop(writer.stdin.take());
    assert!(writer.wait().unwrap().success());
    let report = world.given_up(&[&world.filer.url]);
    assert_eq!((&report["outcome"], &report["lost_bytes"]), (&"saved".into(), &0.into()), "{report}");
    world.nothing_is_left();
    assert_eq!(world.filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
    assert_eq!(std::fs::metadata(world.filer.export().join("f")).unwrap().len(), BYTES, "it was stable");
}

#[test]
fn a_mount_that_programs_use_is_given_up_by_force_alone() {
    let Some(mut world) = World::new("give-up-used", &[]) else { return };
    let writer = world.writer();
    world.filer.kill();
    let refused = world.give_up(&[]);
    let said = text(&refused);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("programs use it: ") && said.contains(&format!("{} python3", writer.id())) && said.contains("--force"),
        "{said}"
    );
    assert!(!keepers::of(world.filer.port).is_empty(), "nothing was done");
    assert_eq!(world.given_up(&["--force", "/db"])["lost_bytes"], BYTES);
    world.nothing_is_left();
    end(writer);
}
