//! One side of a comparison: actors on a local directory or on the mount, and their results.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::program::Step;
use crate::support::{await_until, fuse};

/// Time limit of a step, which normally takes milliseconds.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The result of a step whose process does not exist.
pub(crate) const NO_PROCESS: &str = "no such process";

/// A process of the program.
struct Actor {
    stream: BufReader<UnixStream>,
    pid: u32,
    /// Whether it uses the FUSE mount, as its children do.
    by_fuse: bool,
}

/// An export that is also mounted through FUSE: processes with odd numbers and their children use that mount.
pub(crate) struct Fuse {
    pub(crate) directory: PathBuf,
    pub(crate) pid: u32,
    pub(crate) command: Box<dyn Fn(u32) -> Command + Sync + Send>,
}

impl Drop for Fuse {
    fn drop(&mut self) {
        fuse::end(&self.directory, self.pid);
    }
}

/// Actors. One parent for each user and kind of mount starts them.
pub(crate) struct Side {
    starters: BTreeMap<(u32, bool), (Child, Actor)>,
    listener: UnixListener,
    address: PathBuf,
    actors: BTreeMap<u8, Actor>,
    /// Process ids in this program, including ended processes.
    pids: BTreeMap<u32, u8>,
    /// The program's directory, below `top` or below the FUSE mount.
    name: String,
    top: String,
    on_mount: bool,
    command: Box<dyn Fn(u32) -> Command + Sync + Send>,
    fuse: Option<Fuse>,
}

impl Side {
    /// `command` returns the command of the actor's program as a user, without its arguments. The
    /// actor has the files below `top`.
    pub(crate) fn new(
        scratch: &Path,
        on_mount: bool,
        top: &str,
        command: impl Fn(u32) -> Command + Sync + Send + 'static,
    ) -> Self {
        let address = scratch.join(if on_mount { "mount.sock" } else { "local.sock" });
        let _ = std::fs::remove_file(&address);
        let listener = UnixListener::bind(&address).unwrap();
        std::fs::set_permissions(&address, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (starters, actors, pids) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (top, command) = (top.to_owned(), Box::new(command));
        Self { starters, listener, address, actors, pids, name: String::new(), top, on_mount, command, fuse: None }
    }

    /// The same with a FUSE mount for some processes.
    pub(crate) fn beside(mut self, fuse: Option<Fuse>) -> Self {
        self.fuse = fuse;
        self
    }

    /// Begins a program in the directory of this name.
    pub(crate) fn begin(&mut self, name: &str) {
        self.end();
        name.clone_into(&mut self.name);
    }

    /// Whether a process uses the FUSE mount.
    pub(crate) fn is_by_fuse(&self, process: u8) -> bool {
        self.actors.get(&process).is_some_and(|actor| actor.by_fuse)
    }

    /// Ends all processes of the program, and waits until they have ended.
    pub(crate) fn end(&mut self) {
        for (_, actor) in std::mem::take(&mut self.actors) {
            let pid = actor.pid;
            drop(actor);
            let stuck = || (!gone(pid)).then_some(());
            if (0..400).all(|_| stuck().inspect(|()| std::thread::sleep(Duration::from_millis(5))).is_some()) {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            }
        }
        self.pids.clear();
    }

    /// Executes a step and returns its result.
    pub(crate) fn step(&mut self, step: &Step) -> String {
        if step.name() == "start" {
            return self.start(step);
        }
        let Some(actor_pid) = self.actors.get(&step.process).map(|actor| actor.pid) else { return NO_PROCESS.to_owned() };
        // The program that an exec starts answers.
        let asked = if step.name() == "exec" { "exec\nalive\n".to_owned() } else { format!("{}\n", step.text) };
        if step.name() == "fork" && step.word(1).parse().is_ok_and(|child: u8| self.actors.contains_key(&child)) {
            return "busy".to_owned();
        }
        let said = self.actors.get_mut(&step.process).unwrap().ask(&asked);
        match said {
            Said::Line(line) if step.name() == "fork" => {
                let by_fuse = self.is_by_fuse(step.process);
                self.adopt(step.word(1), by_fuse, &line)
            }
            Said::Line(line) => self.with_numbers(&line),
            Said::Ended => {
                self.actors.remove(&step.process);
                await_until("a process that closed its connection to end", ANSWER_MAX, || gone(actor_pid).then_some(()));
                "ended".to_owned()
            }
            Said::Nothing => {
                let _ = Command::new("kill").args(["-KILL", &actor_pid.to_string()]).status();
                self.actors.remove(&step.process);
                format!("no answer in {ANSWER_MAX:?}")
            }
        }
    }

    /// Lets every process work on its own file at the same time. Returns their results.
    pub(crate) fn together(&mut self, rounds: &str) -> String {
        for (number, actor) in &mut self.actors {
            let _ = actor.stream.get_mut().write_all(format!("own {number} {rounds}\n").as_bytes());
        }
        let said = self.actors.iter_mut().map(|(number, actor)| match actor.hear() {
            Said::Line(line) => format!("{number}: {line}"),
            Said::Ended => format!("{number}: ended"),
            Said::Nothing => format!("{number}: no answer in {ANSWER_MAX:?}"),
        });
        said.collect::<Vec<_>>().join(", ")
    }

    /// Numbers of the processes that run.
    pub(crate) fn alive(&self) -> Vec<u8> {
        self.actors.keys().copied().collect()
    }

    fn start(&mut self, step: &Step) -> String {
        if self.actors.contains_key(&step.process) {
            return "busy".to_owned();
        }
        let uid: u32 = step.word(1).parse().unwrap();
        let fuse = self.fuse.as_ref().filter(|_| step.process % 2 == 1);
        let (by_fuse, top) = (fuse.is_some(), fuse.map_or_else(|| self.top.clone(), |fuse| fuse.directory.display().to_string()));
        if !self.starters.contains_key(&(uid, by_fuse)) {
            let mut command = fuse.map_or(&self.command, |fuse| &fuse.command)(uid);
            command.arg("start").arg(&self.address).arg(if self.on_mount { "1" } else { "0" });
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
            let stream = self.accept();
            self.starters.insert((uid, by_fuse), (child, stream));
        }
        // If the starter cannot change its user, it runs as that user already.
        let order = format!("start {} {uid} {top}/{}\n", step.process, self.name);
        let starter = &mut self.starters.get_mut(&(uid, by_fuse)).unwrap().1;
        let Said::Line(line) = starter.ask(&order) else { panic!("the actors' parent ended") };
        self.adopt(&step.process.to_string(), by_fuse, &line)
    }

    /// Accepts the connection of a new process after its parent reported it.
    fn adopt(&mut self, number: &str, by_fuse: bool, line: &str) -> String {
        let mut actor = self.accept();
        let Some((said, pid)) = line.split_once('\t') else { return line.to_owned() };
        (actor.pid, actor.by_fuse) = (pid.parse().unwrap(), by_fuse);
        let number = number.parse().unwrap();
        self.pids.insert(actor.pid, number);
        self.actors.insert(number, actor);
        said.to_owned()
    }

    fn accept(&self) -> Actor {
        let stream = await_until("an actor to connect", ANSWER_MAX, || self.listener.accept().ok()).0;
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        let mut actor = Actor { stream: BufReader::new(stream), pid: 0, by_fuse: false };
        let mut hello = String::new();
        actor.stream.read_line(&mut hello).unwrap();
        actor
    }

    /// Replaces process ids with the program's numbers.
    fn with_numbers(&self, line: &str) -> String {
        let Some((before, pid)) = line.rsplit_once('#') else { return line.to_owned() };
        let known = pid.parse().ok().and_then(|pid: u32| self.pids.get(&pid));
        known.map_or_else(|| line.to_owned(), |number| format!("{before}#process {number}"))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.end();
        for (_, (mut child, actor)) in std::mem::take(&mut self.starters) {
            drop(actor); // the actor ends when its connection ends
            child.wait().unwrap();
        }
    }
}

enum Said {
    Line(String),
    Ended,
    Nothing,
}

impl Actor {
    fn ask(&mut self, text: &str) -> Said {
        if self.stream.get_mut().write_all(text.as_bytes()).is_err() {
            return Said::Ended;
        }
        self.hear()
    }

    fn hear(&mut self) -> Said {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(0) => Said::Ended,
            Ok(_) => Said::Line(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Said::Nothing,
            Err(_) => Said::Ended,
        }
    }
}

/// Whether a process has ended. Its files are closed then, even if no process has waited for it.
fn gone(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']))
}
