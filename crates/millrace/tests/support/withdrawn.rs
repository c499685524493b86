//! A filer whose volume can be withdrawn and exported again as by an administrator: by its file and
//! `millrace volume reload`.

use super::any_server::command;
use super::configured::{Configured, serve, write};
use super::ganesha::Ganesha;
use super::{Scratch, keepers};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The filer. Dropping it kills the process.
pub struct Withdrawn {
    pub filer: Configured,
    scratch: Scratch,
    file: PathBuf,
    port: u16,
}

/// A server that may stop exporting its volume.
pub trait Withdraws {
    /// The URL, with `?` or `&` at its end.
    fn url(&self) -> String;
    /// The exported directory.
    fn export(&self) -> PathBuf;
    fn scratch(&self) -> &Scratch;
    /// A process in the namespaces from which the server is reached. `None` if those are the test's.
    fn inside(&self) -> Option<u32>;
    /// Makes the server refuse MNT and every handle of the volume.
    fn withdraw(&mut self);
    /// Exports the volume again.
    fn offer(&mut self);
    /// Ends the server by SIGKILL, so that the port refuses connections.
    fn kill(&mut self);
    /// Starts the server again after [`Self::kill`], with or without the volume.
    fn restart(&mut self, exports_volume: bool);

    /// A program that reaches the server.
    fn command(&self, program: &str) -> Command {
        command(self.inside(), 0, program)
    }
}

impl Withdraws for Withdrawn {
    fn url(&self) -> String {
        format!("{}?", Self::url(self))
    }

    fn export(&self) -> PathBuf {
        Self::export(self)
    }

    fn scratch(&self) -> &Scratch {
        Self::scratch(self)
    }

    fn inside(&self) -> Option<u32> {
        None
    }

    fn withdraw(&mut self) {
        Self::withdraw(self);
    }

    fn offer(&mut self) {
        Self::offer(self);
    }

    fn kill(&mut self) {
        Self::kill(self);
    }

    fn restart(&mut self, exports_volume: bool) {
        Self::restart(self, exports_volume);
    }
}

impl Withdraws for Ganesha {
    fn url(&self) -> String {
        format!("{}&", Self::url(self))
    }

    fn export(&self) -> PathBuf {
        Self::export(self)
    }

    fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn inside(&self) -> Option<u32> {
        Some(self.shell())
    }

    fn withdraw(&mut self) {
        Self::withdraw(self);
    }

    fn offer(&mut self) {
        Self::offer(self);
    }

    fn kill(&mut self) {
        Self::kill(self);
    }

    fn restart(&mut self, exports_volume: bool) {
        self.start_again(exports_volume);
    }
}

/// A volume that is always exported, because a filer needs at least one.
const OTHER: &str = "[[volume]]\nname = \"other\"\ndir = \"DIR/other\"\nclients = [\"127.0.0.1\"]\n";
/// The volume.
const VOLUME: &str = "[[volume]]\nname = \"vol\"\ndir = \"DIR/export\"\nclients = [\"127.0.0.1\"]\nsquash = \"none\"\n";

impl Withdrawn {
    /// Exports `SCRATCH/export` as /vol, without root squash.
    pub fn start(label: &str) -> Self {
        let scratch = Scratch::new(label);
        for folder in ["export", "other", "state"] {
            scratch.folder(folder);
        }
        let file = write(&scratch, &format!("admin = \"DIR/admin.sock\"\n{OTHER}{}", VOLUME));
        let filer = Configured::spawn(file.clone(), serve(&file));
        let port = filer.port(0);
        // From now on, the file names the port, so that a filer that is started again has the same one.
        filer.edit(|text| text.replace("\"127.0.0.1:0\", \"[::1]:0\"", &format!("\"127.0.0.1:{port}\"")));
        filer.edit(|text| text.replace("portmap = [\"127.0.0.1:0\"]\n", ""));
        Self { filer, scratch, file, port }
    }

    pub fn url(&self) -> String {
        format!("nfs://127.0.0.1:{}/vol", self.port)
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The exported directory.
    pub fn export(&self) -> PathBuf {
        self.scratch.path().join("export")
    }

    /// Makes the filer refuse MNT and every handle of the volume.
    pub fn withdraw(&self) {
        self.write_file("");
        self.reload();
    }

    /// Exports the volume again.
    pub fn offer(&self) {
        self.write_file(VOLUME);
        self.reload();
    }

    /// Ends the filer by SIGKILL, so that the port refuses connections.
    pub fn kill(&mut self) {
        self.filer.signal("KILL");
        self.filer.ended();
    }

    /// Uses another port from the next start on.
    pub fn listen_on(&mut self, port: u16) {
        let before = std::mem::replace(&mut self.port, port);
        self.filer.edit(|text| text.replace(&format!("127.0.0.1:{before}"), &format!("127.0.0.1:{port}")));
    }

    /// Starts the filer again after [`Self::kill`], with or without the volume.
    pub fn restart(&mut self, exports_volume: bool) {
        self.write_file(if exports_volume { VOLUME } else { "" });
        self.filer = Configured::spawn(self.file.clone(), serve(&self.file));
    }

    fn write_file(&self, volume: &str) {
        let text = std::fs::read_to_string(&self.file).unwrap();
        let head = text.split("[[volume]]").next().unwrap();
        let text = format!("{head}{OTHER}{volume}").replace("DIR", self.scratch.path().to_str().unwrap());
        std::fs::write(&self.file, text).unwrap();
    }

    fn reload(&self) {
        self.filer.order(&["reload"]);
    }
}

impl Drop for Withdrawn {
    fn drop(&mut self) {
        keepers::end(self.port);
    }
}

/// `Some` if a log contains this text.
pub fn mentions(log: &Path, text: &str) -> Option<()> {
    std::fs::read_to_string(log).is_ok_and(|log| log.contains(text)).then_some(())
}
