//! Runs a program on both sides step by step, and compares every result and, at the end, the files
//! on the server's disk.

use super::known::{NOT_BY_FUSE, REFUSED, is_moved_by_a_resend};
use super::program::{FILER, Step};
use super::side::{Fuse, NO_PROCESS, Side};
use crate::support::any_server::{AnyServer, Server, command, segments};
use crate::support::filer::Filer;
use crate::support::{Scratch, fuse, is_root, millrace, preload_library, share_with_group};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The second user of programs, and its group.
pub(crate) const OTHER_USER: u32 = 65534;

/// Number of checks before a difference on disk counts.
const LOOKS: u32 = 250;

/// The first difference between the two sides.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The index of its step. For a difference on disk, the length of the program.
    pub(crate) at: usize,
    pub(crate) local: String,
    pub(crate) mount: String,
}

/// A server, and actors on a mount of it and on a local directory.
pub(crate) struct Exerciser {
    pub(crate) mount: Side,
    pub(crate) local: Side,
    server: AnyServer,
    folder: PathBuf,
    runs: u32,
    boots: u32,
    /// Whether the filer went down in this program.
    went_down: bool,
    /// Options for a restart of the filer.
    filer_options: Vec<&'static str>,
    _scratch: Scratch,
}

impl Exerciser {
    /// With these further options of the filer and of the mount.
    pub(crate) fn new(actor: &Path, filer_options: &[&'static str], mount_options: &str, beside_fuse: bool) -> Self {
        let server = AnyServer::filer_with("exerciser-server", filer_options);
        Self { filer_options: filer_options.to_vec(), ..Self::on(server, actor, mount_options, beside_fuse) }
    }

    /// On this server. With `beside_fuse`, every second process has the export through FUSE.
    pub(crate) fn on(server: AnyServer, actor: &Path, mount_options: &str, beside_fuse: bool) -> Self {
        let scratch = Scratch::new("exerciser");
        if is_root() {
            share_with_group(server.runtime.path(), OTHER_USER);
        }
        std::fs::set_permissions(&server.export, std::fs::Permissions::from_mode(0o777)).unwrap();
        let (folder, inside) = (scratch.folder("local"), server.inside());
        let native = |inside: Option<u32>| {
            let actor = actor.to_str().unwrap().to_owned();
            move |uid| as_user(inside, uid, &actor)
        };
        let local = Side::new(scratch.path(), false, folder.to_str().unwrap(), native(None));
        let (there, shared) = (actor.to_owned(), server.runtime.path().to_owned());
        let url = format!("{}{mount_options}", server.url);
        let program = millrace().get_program().to_str().unwrap().to_owned();
        let fuse = beside_fuse.then(|| {
            let directory = scratch.folder("fuse");
            let mut by = server.command(&program);
            by.env("MILLRACE_RUNTIME_DIR", &shared);
            Fuse { pid: fuse::mount(by, &[], &url, &directory), directory, command: Box::new(native(inside)) }
        });
        let mounted = format!("/db={url}");
        let mount = Side::new(scratch.path(), true, "/db", move |uid| {
            let mut command = as_user(inside, uid, &program);
            command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", &shared);
            command.args(["exec", "--mount", &mounted, "--"]).arg(&there);
            command
        })
        .beside(fuse);
        Self { mount, local, server, folder, runs: 0, boots: 0, went_down: false, filer_options: Vec::new(), _scratch: scratch }
    }

    /// The server, which must be a filer for steps on it.
    fn filer(&mut self) -> &mut Filer {
        match &mut self.server.server {
            Server::Filer(filer, _) => filer,
            Server::Ganesha(_) => panic!("no filer"),
        }
    }

    /// Runs a program in new directories. Returns the first difference between the sides.
    pub(crate) fn run(&mut self, program: &[Step]) -> Option<Difference> {
        let (here, there) = self.begin();
        let difference = program
            .iter()
            .enumerate()
            .find_map(|(at, step)| self.step(step).map(|(local, mount)| Difference { at, local, mount }));
        self.finish();
        difference.or_else(|| self.left(program.len(), &here, &there))
    }

    /// Creates new directories for a program. Returns the paths of both on the host.
    pub(crate) fn begin(&mut self) -> (PathBuf, PathBuf) {
        self.runs += 1;
        self.went_down = false;
        let name = format!("r{}", self.runs);
        let (here, there) = (self.folder.join(&name), self.server.export.join(&name));
        for path in [&here, &there] {
            std::fs::create_dir(path).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        self.local.begin(&name);
        self.mount.begin(&name);
        (here, there)
    }

    /// Ends all processes.
    pub(crate) fn finish(&mut self) {
        self.local.end();
        self.mount.end();
    }

    /// Runs one step on both sides. Returns both results if they differ.
    fn step(&mut self, step: &Step) -> Option<(String, String)> {
        if step.process == FILER {
            return self.disturb(step);
        }
        if self.mount.is_by_fuse(step.process) && NOT_BY_FUSE.iter().any(|(begin, _)| step.text.starts_with(begin)) {
            return None;
        }
        let local = match step.name() {
            "refused" => self.refusal(step),
            _ => self.local.step(step),
        };
        let mount = self.mount.step(step);
        let is_known = self.went_down && is_moved_by_a_resend(&local, &mount);
        (local != mount && !is_known).then_some((local, mount))
    }

    /// The expected result of a step that only the mount executes.
    fn refusal(&mut self, step: &Step) -> String {
        let is_open = self.local.step(&Step::new(step.process, format!("fstat {}", step.word(2))));
        if is_open == NO_PROCESS {
            return is_open;
        }
        if is_open == "EBADF" || is_open.starts_with("ok d") {
            return "free".to_owned();
        }
        // The access mode of the descriptor is checked before what the file system supports.
        if step.word(1) == "fallocate" && self.may_only_read(step) {
            return "EBADF".to_owned();
        }
        REFUSED.iter().find(|(what, ..)| *what == step.word(1)).map(|(_, error, _)| (*error).to_owned()).unwrap()
    }

    fn may_only_read(&mut self, step: &Step) -> bool {
        let said = self.local.step(&Step::new(step.process, format!("getfl {}", step.word(2))));
        u32::from_str_radix(&said, 8).unwrap_or_else(|_| panic!("{said}")) & 0o3 == 0
    }

    /// A step on all processes, or on the filer, whose faults no program may notice.
    pub(crate) fn disturb(&mut self, step: &Step) -> Option<(String, String)> {
        let needs_barrier = ["crash", "cut", "cut-closed"].contains(&step.name());
        if needs_barrier && self.mount.alive().is_empty() {
            return None; // no process can make anything durable
        }
        self.went_down |= step.name() != "together";
        match step.name() {
            "together" => {
                let (local, mount) = (self.local.together(step.word(1)), self.mount.together(step.word(1)));
                return (local != mount).then_some((local, mount));
            }
            "kill" => self.filer().kill(),
            "stop" | "reboot" => {
                self.filer().stop();
            }
            "crash-now" => {
                self.filer().kill();
            }
            "cut-now" => {
                return self.power_cut();
            }
            "crash" => {
                if let Some(failed) = self.barrier("syncfs") {
                    return Some(failed);
                }
                self.filer().kill();
            }
            "cut" => return self.cut("syncfs"),
            "cut-closed" => return self.cut("fsyncs"),
            other => panic!("{other:?} is nothing that can happen to a filer"),
        }
        if ["reboot", "crash", "crash-now"].contains(&step.name()) {
            self.boots += 1;
            let id = format!("11111111-2222-3333-4444-{:012}", self.boots);
            let options = [&self.filer_options[..], &["--boot-id", &id]].concat();
            self.filer().restart_with(&options);
        } else {
            self.filer().restart();
        }
        None
    }

    /// Makes written data durable: all of it by sync, or, where close commits, that of open files by fsync.
    fn barrier(&mut self, how: &str) -> Option<(String, String)> {
        let failed = |process: u8, said: String| ("ok".to_owned(), format!("{how} of process {process}: {said}"));
        self.mount.alive().into_iter().find_map(|process| {
            let said = self.mount.step(&Step::new(process, how));
            (said != "ok").then(|| failed(process, said))
        })
    }

    /// A power cut when all data is durable.
    fn cut(&mut self, barrier: &str) -> Option<(String, String)> {
        if let Some(failed) = self.barrier(barrier) {
            return Some(failed);
        }
        self.power_cut()
    }

    fn power_cut(&mut self) -> Option<(String, String)> {
        let answer = self.filer().admin(r#"{"op":"power-cut"}"#);
        assert_eq!(answer["ok"], true, "{answer}");
        None
    }

    /// The difference between the files of both sides on the host.
    fn left(&self, at: usize, here: &Path, there: &Path) -> Option<Difference> {
        let wanted = tree(here, here);
        let mut found = tree(there, there);
        for _ in 0..LOOKS {
            if found == wanted {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20)); // between checks
            found = tree(there, there);
        }
        let only = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
            let lines = one.iter().filter(|(name, value)| other.get(*name) != Some(value));
            lines.map(|(name, value)| format!("{name}: {value}\n")).collect::<String>()
        };
        Some(Difference { at, local: only(&wanted, &found), mount: only(&found, &wanted) })
    }

    /// Number of mounts of the processes: one, after the first process.
    pub(crate) fn segments(&self) -> usize {
        segments(self.server.runtime.path())
    }

    /// Hidden names that remain although no process has their files open. The keeper removes them
    /// within seconds.
    pub(crate) fn hidden_names(&self) -> Vec<String> {
        let all = || walk(&self.server.export).into_iter().filter(|name| name.contains("/.nfs")).collect::<Vec<_>>();
        for _ in 0..LOOKS {
            if all().is_empty() {
                return Vec::new();
            }
            std::thread::sleep(Duration::from_millis(20)); // between checks
        }
        all()
    }
}

/// Paths of everything below a folder.
fn walk(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&entry.path()));
        }
        found.push(entry.path().display().to_string());
    }
    found
}

fn as_user(inside: Option<u32>, uid: u32, program: &str) -> Command {
    let mut command = command(inside, uid, program);
    command.env("LC_ALL", "C").current_dir("/");
    command
}

/// Kind, mode, links, size and bytes of everything below a folder.
fn tree(top: &Path, folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(top).unwrap().display().to_string();
        if name.contains(".nfs") {
            continue; // counted once, when all programs have run
        }
        let meta = std::fs::symlink_metadata(&path).unwrap();
        let what = if meta.is_dir() {
            found.extend(tree(top, &path));
            "directory".to_owned()
        } else if meta.is_symlink() {
            format!("link to {}", std::fs::read_link(&path).unwrap().display())
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let hash = bytes
                .iter()
                .fold(14_695_981_039_346_656_037_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211));
            format!("{} bytes {hash:x}", bytes.len())
        };
        found.insert(name, format!("{what}, mode {:o}, {} links", meta.mode(), meta.nlink()));
    }
    found
}
