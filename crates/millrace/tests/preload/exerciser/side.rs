//! One side of a comparison: actors on a local directory or on the mount, and their results.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::program::Step;
use crate::support::await_until;

/// Longest wait for a step; a step takes milliseconds.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// What a step gave when no process has its number.
pub(crate) const NO_PROCESS: &str = "no such process";

/// A process of the program.
struct Actor {
    stream: BufReader<UnixStream>,
    pid: u32,
}

/// Actors, started by one parent for each user.
pub(crate) struct Side {
    starters: BTreeMap<u32, (Child, Actor)>,
    listener: UnixListener,
    address: PathBuf,
    actors: BTreeMap<u8, Actor>,
    /// Process ids seen in this program, ended ones too.
    pids: BTreeMap<u32, u8>,
    /// Where the program runs, as the actor sees it.
    root: String,
    on_mount: bool,
    command: Box<dyn Fn(u32) -> Command + Sync + Send>,
}

impl Side {
    /// `command` gives the actor's program, run as a user, to which its arguments are added.
    pub(crate) fn new(scratch: &Path, on_mount: bool, command: impl Fn(u32) -> Command + Sync + Send + 'static) -> Self {
        let address = scratch.join(if on_mount { "mount.sock" } else { "local.sock" });
        let _ = std::fs::remove_file(&address);
        let listener = UnixListener::bind(&address).unwrap();
        std::fs::set_permissions(&address, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (starters, actors, pids) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { starters, listener, address, actors, pids, root: String::new(), on_mount, command: Box::new(command) }
    }

    /// Begins a program in this directory.
    pub(crate) fn begin(&mut self, root: String) {
        self.end();
        self.root = root;
    }

    /// Ends all processes of the program, and waits for that.
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

    /// Carries out a step and returns its result.
    pub(crate) fn step(&mut self, step: &Step) -> String {
        if step.name() == "start" {
            return self.start(step);
        }
        let Some(actor_pid) = self.actors.get(&step.process).map(|actor| actor.pid) else { return NO_PROCESS.to_owned() };
        // An exec answers by what is alive behind it.
        let asked = if step.name() == "exec" { "exec\nalive\n".to_owned() } else { format!("{}\n", step.text) };
        if step.name() == "fork" && step.word(1).parse().is_ok_and(|child: u8| self.actors.contains_key(&child)) {
            return "busy".to_owned();
        }
        let said = self.actors.get_mut(&step.process).unwrap().ask(&asked);
        match said {
            Said::Line(line) if step.name() == "fork" => self.adopt(step.word(1), &line),
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

    /// Lets all processes work on a file of their own at the same time; what each said.
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
        if !self.starters.contains_key(&uid) {
            let mut command = (self.command)(uid);
            command.arg("start").arg(&self.address).arg(if self.on_mount { "1" } else { "0" });
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
            let stream = self.accept();
            self.starters.insert(uid, (child, stream));
        }
        // The starter runs as that user already, where it could not become it.
        let order = format!("start {} {uid} {}\n", step.process, self.root);
        let Said::Line(line) = self.starters.get_mut(&uid).unwrap().1.ask(&order) else { panic!("the actors' parent ended") };
        self.adopt(&step.process.to_string(), &line)
    }

    /// Takes the connection of a new process when its parent said that it made one.
    fn adopt(&mut self, number: &str, line: &str) -> String {
        let mut actor = self.accept();
        let Some((said, pid)) = line.split_once('\t') else { return line.to_owned() };
        actor.pid = pid.parse().unwrap();
        let number = number.parse().unwrap();
        self.pids.insert(actor.pid, number);
        self.actors.insert(number, actor);
        said.to_owned()
    }

    fn accept(&self) -> Actor {
        let stream = await_until("an actor to connect", ANSWER_MAX, || self.listener.accept().ok()).0;
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        let mut actor = Actor { stream: BufReader::new(stream), pid: 0 };
        let mut hello = String::new();
        actor.stream.read_line(&mut hello).unwrap();
        actor
    }

    /// Process ids are replaced by the program's numbers.
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
            drop(actor); // the end of its connection is its end
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

/// Whether a process has ended: its files are closed then, whether anybody waited for it or not.
fn gone(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']))
}
