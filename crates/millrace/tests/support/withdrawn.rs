//! A filer whose volume can be withdrawn and exported again, as an administrator does it: by its file and
//! `millrace volume reload`.

use super::any_server::command;
use super::configured::{Configured, serve, write};
use super::ganesha::Ganesha;
use super::{Scratch, keepers};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The filer, killed when dropped.
pub struct Withdrawn {
    pub filer: Configured,
    scratch: Scratch,
    file: PathBuf,
    port: u16,
}

/// A server that may stop exporting its volume.
pub trait Withdraws {
    /// With `?` or `&` at its end.
    fn url(&self) -> String;
    /// What it exports.
    fn export(&self) -> PathBuf;
    fn scratch(&self) -> &Scratch;
    /// A process in the namespaces from which it is reached, if those are not the test's.
    fn inside(&self) -> Option<u32>;
    /// MNT is refused from now on, and so is every handle of the volume.
    fn withdraw(&mut self);
    /// The volume is exported as it was.
    fn offer(&mut self);
    /// The end by SIGKILL: the port refuses connections.
    fn kill(&mut self);
    /// Starts again after [`Self::kill`], with or without the volume.
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

/// A volume that is always there: a filer exports one at least.
const OTHER: &str = "[[volume]]\nname = \"other\"\ndir = \"DIR/other\"\nclients = [\"127.0.0.1\"]\n";
/// The volume.
const VOLUME: &str = "[[volume]]\nname = \"vol\"\ndir = \"DIR/export\"\nclients = [\"127.0.0.1\"]\nsquash = \"none\"\n";

impl Withdrawn {
    /// Exports `SCRATCH/export` as /vol, root not squashed.
    pub fn start(label: &str) -> Self {
        let scratch = Scratch::new(label);
        for folder in ["export", "other", "state"] {
            scratch.folder(folder);
        }
        let file = write(&scratch, &format!("admin = \"DIR/admin.sock\"\n{OTHER}{}", VOLUME));
        let filer = Configured::spawn(file.clone(), serve(&file));
        let port = filer.port(0);
        // From now on by its number: a filer that is started again has the same.
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

    /// What it exports.
    pub fn export(&self) -> PathBuf {
        self.scratch.path().join("export")
    }

    /// MNT is refused from now on, and so is every handle of the volume.
    pub fn withdraw(&self) {
        self.write_file("");
        self.reload();
    }

    /// The volume is exported as it was.
    pub fn offer(&self) {
        self.write_file(VOLUME);
        self.reload();
    }

    /// The end by SIGKILL: the port refuses connections.
    pub fn kill(&mut self) {
        self.filer.signal("KILL");
        self.filer.ended();
    }

    /// Takes another port from the next start on.
    pub fn listen_on(&mut self, port: u16) {
        let before = std::mem::replace(&mut self.port, port);
        self.filer.edit(|text| text.replace(&format!("127.0.0.1:{before}"), &format!("127.0.0.1:{port}")));
    }

    /// Starts again after [`Self::kill`], with or without the volume.
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

/// Whether a log has this text by now.
pub fn mentions(log: &Path, text: &str) -> Option<()> {
    std::fs::read_to_string(log).is_ok_and(|log| log.contains(text)).then_some(())
}
