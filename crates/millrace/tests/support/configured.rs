//! A running `millrace serve --config FILE`.

use super::{Scratch, millrace, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The filer. Dropping it kills the process.
pub struct Configured {
    child: Child,
    file: PathBuf,
    pub admin: PathBuf,
    pub ready: serde_json::Value,
}

/// Writes a file that listens on free ports of both loopbacks and continues with `rest`, in which
/// `DIR` is the scratch folder.
pub fn write(scratch: &Scratch, rest: &str) -> PathBuf {
    let (file, here) = (scratch.path().join("filer.toml"), scratch.path().to_str().unwrap());
    let head = "[filer]\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]\nportmap = [\"127.0.0.1:0\"]\nstate = \"DIR/state\"\n";
    std::fs::write(&file, format!("{head}{rest}").replace("DIR", here)).unwrap();
    // The file may contain secrets.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file
}

/// The command that serves the file.
pub fn serve(file: &Path) -> Command {
    let mut command = millrace();
    command.args(["serve", "--json", "--config"]).arg(file);
    command
}

impl Configured {
    /// Writes the file and serves it.
    pub fn start(scratch: &Scratch, rest: &str) -> Self {
        let file = write(scratch, rest);
        let command = serve(&file);
        Self::spawn(file, command)
    }

    /// Serves an existing file by this command.
    pub fn spawn(file: PathBuf, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("filer said {line:?}: {error}"));
        let admin = ready["admin"].as_str().unwrap().into();
        Self { child, file, admin, ready }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The port on 127.0.0.1 (index 0) or on ::1 (index 1).
    pub fn port(&self, index: usize) -> u16 {
        self.ready["listen"][index].as_str().unwrap().parse::<SocketAddr>().unwrap().port()
    }

    pub fn portmap(&self) -> u16 {
        self.ready["portmap"][0].as_str().unwrap().parse::<SocketAddr>().unwrap().port()
    }

    /// The value of a metric without labels, from the metrics address.
    pub fn figure(&self, name: &str) -> usize {
        let url = self.ready["metrics"].as_str().unwrap();
        let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics"));
        let mut stream = TcpStream::connect(address.unwrap()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: filer\r\nConnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
    }

    /// Changes the file.
    pub fn edit(&self, change: impl FnOnce(String) -> String) {
        let text = std::fs::read_to_string(&self.file).unwrap();
        std::fs::write(&self.file, change(text)).unwrap();
    }

    /// `millrace volume ARGUMENTS`.
    pub fn volume(&self, arguments: &[&str]) -> Output {
        millrace().arg("volume").args(arguments).arg("--admin").arg(&self.admin).output().unwrap()
    }

    /// As [`Self::volume`], but the command must succeed. Returns its output.
    pub fn order(&self, arguments: &[&str]) -> String {
        let output = self.volume(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sends SIGHUP or SIGTERM.
    pub fn signal(&self, name: &str) {
        super::succeed(Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]));
    }

    /// Waits until the filer has ended. Returns its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
