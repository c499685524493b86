//! An export of Millrace's filer or of NFS-Ganesha, and programs on it. For guarantees that hold
//! with any server.

use super::filer::Filer;
use super::ganesha::Ganesha;
use super::world::LIMIT_S;
use super::{Scratch, millrace, preload_library};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The server, without root squash.
pub struct AnyServer {
    pub server: Server,
    pub url: String,
    /// The exported directory.
    pub export: PathBuf,
    /// A runtime directory that only this test uses.
    pub runtime: TempDir,
}

pub enum Server {
    Filer(Filer, Scratch),
    Ganesha(Ganesha),
}

impl AnyServer {
    pub fn filer(label: &str) -> Self {
        Self::filer_with(label, &[])
    }

    /// Starts the filer with more options.
    pub fn filer_with(label: &str, options: &[&str]) -> Self {
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, options);
        let (url, export) = (filer.url.clone(), filer.export().to_owned());
        Self { server: Server::Filer(filer, scratch), url, export, runtime: runtime() }
    }

    /// Starts NFS-Ganesha. `None`, with a message, if it cannot run here.
    pub fn ganesha(label: &str) -> Option<Self> {
        let ganesha = Ganesha::start_with(label, "Squash = No_Root_Squash;", &[])?;
        let (url, export) = (ganesha.url(), ganesha.export());
        Some(Self { server: Server::Ganesha(ganesha), url, export, runtime: runtime() })
    }

    /// A process in the network namespace of the server. `None` if that is the test's.
    pub fn inside(&self) -> Option<u32> {
        match &self.server {
            Server::Filer(..) => None,
            Server::Ganesha(ganesha) => Some(ganesha.shell()),
        }
    }

    /// The port of the server's NFS service.
    pub const fn port(&self) -> u16 {
        match &self.server {
            Server::Filer(filer, _) => filer.port,
            Server::Ganesha(_) => 2049,
        }
    }

    /// A program that reaches the server.
    pub fn command(&self, program: &str) -> Command {
        command(self.inside(), 0, program)
    }

    /// `millrace exec --mount /db=URL -- program`, which a time limit ends.
    pub fn exec(&self, program: &str) -> Command {
        self.exec_by(&self.url, &self.runtime, program)
    }

    /// As [`Self::exec`], by another URL of the server and with another runtime directory.
    pub fn exec_by(&self, url: &str, runtime: &TempDir, program: &str) -> Command {
        let mut command = self.command("timeout");
        command.args(["-k", "5", &LIMIT_S.to_string()]).arg(millrace().get_program());
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", runtime.path());
        command.env("LC_ALL", "C").current_dir("/");
        command.args(["exec", "--mount", &format!("/db={url}"), "--", program]);
        command
    }
}

/// A program in the network and mount namespaces of a process, as a user and a group with the same number.
pub fn command(inside: Option<u32>, uid: u32, program: &str) -> Command {
    let user = uid.to_string();
    let Some(pid) = inside else {
        let mut command = Command::new(program);
        if uid != 0 {
            command.uid(uid).gid(uid);
        }
        return command;
    };
    let mut command = Command::new("nsenter");
    command.args(["-t", &pid.to_string(), "-n", "-m", "-S", &user, "-G", &user, "--", program]);
    command
}

/// A new runtime directory.
pub fn runtime() -> TempDir {
    let private = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("millrace-test-").permissions(private).tempdir_in("/dev/shm").unwrap()
}

/// Number of segments in a runtime directory. Each mount has one.
pub fn segments(runtime: &Path) -> usize {
    std::fs::read_dir(runtime).unwrap().flatten().filter(|directory| directory.path().join("segment").exists()).count()
}
