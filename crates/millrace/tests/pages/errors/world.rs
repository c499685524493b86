//! Where the commands of docs/errors.md run: a directory with the files that they name, filers, and
//! a port on which another service listens.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use sim::authority::Valid;

use super::files::{DAEMON, make_files, private, spoil_configurations, volumes};
use super::page::{self, Row};
use crate::support::configured::Configured;
use crate::support::filer::Filer;
use crate::support::tls::Pki;
use crate::support::{Scratch, is_root, keepers};

/// No message may contain this.
pub(crate) const PASSWORD: &str = "hunter2";
/// Time limit of a command, in seconds.
const COMMAND_SECONDS: &str = "60";
/// What a command printed on stderr, and its exit code.
pub(crate) struct Answer {
    pub(crate) said: String,
    pub(crate) code: Option<i32>,
}

/// Everything that the commands need. Dropping it ends and removes all of it.
pub(crate) struct World {
    // The filers are dropped first, before their directories are removed.
    filer: Configured,
    expired: Filer,
    others: Vec<Child>,
    other_service: OtherService,
    names: Vec<(&'static str, String)>,
    scratch: Scratch,
    _second: Scratch,
}

impl World {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new("errors");
        let here = scratch.path();
        make_files(&scratch);
        let pki = Pki::new(&scratch);
        pki.issue("old", &["127.0.0.1"], Valid::Once);
        pki.issue("open", &["client"], Valid::Now);
        pki.open_key("open", 0o644);
        Pki::named(&scratch, "foreign");
        let filer = Configured::start(&scratch, &volumes());
        spoil_configurations(here);
        let options = pki.serve("required", "old");
        let second = Scratch::new("errors-expired");
        let expired = Filer::start(&second, &options.iter().map(String::as_str).collect::<Vec<_>>());
        let other_service = OtherService::start();
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let names = vec![
            ("EXPIRED", format!("127.0.0.1:{}", expired.port)),
            ("FILER", format!("127.0.0.1:{}", filer.port(0))),
            ("UNUSED", unused.to_string()),
            ("SOCKET", filer.admin.display().to_string()),
            ("TAKEN", other_service.port.to_string()),
            ("HERE", here.display().to_string()),
        ];
        let others = if is_root() { filers_of_daemon(&scratch) } else { Vec::new() };
        let world = Self { filer, expired, others, other_service, names, scratch, _second: second };
        world.make_segment_of_another_version();
        world
    }

    /// Runs the command of a row in a shell.
    pub(crate) fn make(&self, row: &Row) -> Answer {
        self.run(&self.with_names(&row.command))
    }

    fn run(&self, command: &str) -> Answer {
        let here = self.scratch.path();
        let path = format!("{}:{}", here.join("bin").display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("timeout");
        shell.args(["-k", "5", COMMAND_SECONDS, "sh", "-c", command]).current_dir(here).stdin(Stdio::null());
        shell.env("PATH", path).env("LC_ALL", "C").env("PGPASSWORD", PASSWORD).env("XDG_STATE_HOME", here.join("state-of-users"));
        shell.env("MILLRACE_RUNTIME_DIR", here.join("runtime")).env_remove("MILLRACE_PRELOAD").env_remove("MILLRACE_ADMIN");
        let output = shell.output().unwrap();
        Answer { said: String::from_utf8_lossy(&output.stderr).into_owned(), code: output.status.code() }
    }

    /// Replaces the names in a text of the page with their values here.
    pub(crate) fn with_names(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// The row that this answer would need.
    pub(crate) fn row_of(&self, row: &Row, answer: &Answer) -> String {
        let named = |text: &str| self.names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(value, name));
        let is_message = |line: &&str| line.starts_with("millrace: cannot ") || line.starts_with("error: ");
        let is_fix = |line: &&str| ["hint: ", "  tip: "].into_iter().any(|mark| line.starts_with(mark));
        let mut lines = answer.said.lines();
        let message = lines.find(is_message).unwrap_or_default();
        let fix = lines.find(is_fix).unwrap_or_default().trim_start();
        let code = answer.code.map_or_else(String::new, |code| code.to_string());
        let cells = [&row.what, &page::code(&row.command), &code, &page::code(&named(message)), &page::code(&named(fix))];
        format!("| {} |", cells.map(String::as_str).join(" | "))
    }

    /// Changes the segment of /vol in `old` so that it has another version.
    fn make_segment_of_another_version(&self) {
        let old = private(&self.scratch, "old");
        let command = format!("MILLRACE_RUNTIME_DIR={} millrace exec --mount /db=nfs://FILER/vol -- ls /db", old.display());
        let answer = self.run(&self.with_names(&command));
        assert_eq!(answer.code, Some(0), "{}", answer.said);
        keepers::end(self.filer.port(0));
        let mut names = std::fs::read_dir(&old).unwrap().map(|entry| entry.unwrap().path());
        let mount = names.find(|path| path.is_dir()).unwrap();
        let segment = std::fs::OpenOptions::new().write(true).open(mount.join("segment")).unwrap();
        // The version is after the eight bytes of the magic number (docs/design/002-segment.md).
        std::os::unix::fs::FileExt::write_all_at(&segment, &1u32.to_ne_bytes(), 8).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for other in &mut self.others {
            let _ = other.kill();
            let _ = other.wait();
        }
        keepers::end(self.filer.port(0));
        keepers::end(self.expired.port);
        self.other_service.stop();
    }
}

/// Two filers that run as one user.
fn filers_of_daemon(scratch: &Scratch) -> Vec<Child> {
    let here = scratch.path();
    let start = |name: &str| {
        let folders = ["", "-state"].map(|suffix| scratch.folder(&format!("{name}{suffix}")));
        folders.iter().for_each(|folder| chown(folder, Some(DAEMON), Some(DAEMON)).unwrap());
        let mut command = Command::new(here.join("bin/millrace"));
        command.args(["serve", "--json", "--listen", "0", "--state"]).args([&folders[1], &folders[0]]);
        let mut child = command.uid(DAEMON).gid(DAEMON).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        child
    };
    ["first", "second"].map(start).into()
}

/// A server that does not speak NFS.
struct OtherService {
    port: u16,
    is_over: Arc<AtomicBool>,
    work: Option<JoinHandle<()>>,
}

impl OtherService {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let work = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let _ = stream.unwrap().write_all(&b"HTTP/1.0 400 Bad Request\r\n\r\n".repeat(20));
            }
        });
        Self { port, is_over, work: Some(work) }
    }

    fn stop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = self.work.take().map(JoinHandle::join);
    }
}
