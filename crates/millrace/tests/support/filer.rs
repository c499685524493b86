//! A running `millrace serve`.

use super::process::memory;
use super::{Scratch, await_until, keepers, millrace};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The filer. Dropping it kills the process.
pub struct Filer {
    child: Child,
    export: PathBuf,
    state: PathBuf,
    options: Vec<String>,
    /// `nfs://127.0.0.1:PORT/vol?…`
    pub url: String,
    pub admin: PathBuf,
    pub port: u16,
    /// Every address on which it listens.
    pub listen: Vec<String>,
}

impl Filer {
    /// Serves `SCRATCH/export` on a free port, without root squash.
    pub fn start(scratch: &Scratch, options: &[&str]) -> Self {
        Self::start_on(scratch, 0, options)
    }

    /// As [`Self::start`], on this port. 0 means a free one.
    pub fn start_on(scratch: &Scratch, port: u16, options: &[&str]) -> Self {
        Self::start_at(scratch, &port.to_string(), options)
    }

    /// As [`Self::start`], at this address with its port. A port alone is one of 127.0.0.1.
    pub fn start_at(scratch: &Scratch, listen: &str, options: &[&str]) -> Self {
        let (export, state) = (scratch.folder("export"), scratch.folder("state"));
        let options: Vec<String> = [&["--no-root-squash"][..], options].concat().into_iter().map(str::to_owned).collect();
        let admin = scratch.path().join("admin.sock");
        let (child, url, listen) = spawn(&export, &state, &admin, listen, &options);
        let port = url.split(':').nth(2).and_then(|rest| rest.split('/').next()).unwrap().parse().unwrap();
        Self { child, export, state, options, url, admin, port, listen }
    }

    /// The exported directory.
    pub fn export(&self) -> &Path {
        &self.export
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory of the filer in bytes.
    pub fn resident(&self) -> u64 {
        memory(self.pid(), "VmRSS:")
    }

    /// Anonymous memory of the filer in bytes. The pages of the program and its libraries, which
    /// are three times as many in a debug build, do not count.
    pub fn anonymous(&self) -> u64 {
        memory(self.pid(), "RssAnon:")
    }

    /// Ends the filer by SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Starts the filer again on the same port, after [`Self::kill`].
    pub fn restart(&mut self) {
        let url = self.url.clone();
        self.restart_at(&self.port.to_string());
        assert_eq!(url, self.url);
    }

    /// As [`Self::restart`], at another address.
    pub fn restart_at(&mut self, listen: &str) {
        let (child, url, listen) = spawn(&self.export, &self.state, &self.admin, listen, &self.options);
        (self.child, self.url, self.listen) = (child, url, listen);
    }

    /// Restarts the filer by a program that then executes it.
    pub fn restart_by(&mut self, starter: &[&str]) {
        let mut command = Command::new(starter[0]);
        command.args(&starter[1..]).arg(millrace().get_program());
        (self.child, self.url, self.listen) =
            spawn_by(command, &self.export, &self.state, &self.admin, &self.port.to_string(), &self.options);
    }

    /// As [`Self::restart`], with other options.
    pub fn restart_with(&mut self, options: &[&str]) {
        self.options = [&["--no-root-squash"][..], options].concat().into_iter().map(str::to_owned).collect();
        self.restart();
    }

    /// Sends SIGTERM. Returns the exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let pid = self.pid().to_string();
        super::succeed(Command::new("kill").args(["-TERM", &pid]));
        let mut code = None;
        await_until("the filer to stop", Duration::from_secs(20), || {
            code = self.child.try_wait().unwrap();
            code
        });
        code.and_then(|status| status.code())
    }

    /// Sends one line to the admin socket, and returns the line of the reply.
    pub fn admin(&self, request: &str) -> serde_json::Value {
        let mut stream = UnixStream::connect(&self.admin).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Number of calls of a procedure so far.
    pub fn calls(&self, procedure: &str) -> u64 {
        self.admin(r#"{"op":"stats"}"#)["procedures"][procedure]["calls"].as_u64().unwrap()
    }
}

impl Drop for Filer {
    fn drop(&mut self) {
        self.kill();
        keepers::end(self.port);
    }
}

fn spawn(export: &Path, state: &Path, admin: &Path, listen: &str, options: &[String]) -> (Child, String, Vec<String>) {
    spawn_by(millrace(), export, state, admin, listen, options)
}

fn spawn_by(
    mut command: Command,
    export: &Path,
    state: &Path,
    admin: &Path,
    listen: &str,
    options: &[String],
) -> (Child, String, Vec<String>) {
    let mut child = command
        .arg("serve")
        .arg(export)
        .args(["--listen", listen, "--json", "--state"])
        .arg(state)
        .arg("--admin")
        .arg(admin)
        .args(options)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("filer said {line:?}: {error}"));
    let listen = ready["listen"].as_array().unwrap().iter().map(|address| address.as_str().unwrap().to_owned()).collect();
    (child, ready["nfs"].as_str().unwrap().to_owned(), listen)
}
