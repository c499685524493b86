//! Processes are killed at any moment while others work. Every reported step lasts, and no other
//! process waits for long or gets an error. The test also kills keepers, and sometimes cuts the
//! filer's power.

use crate::support::filer::Filer;
use crate::support::{
    Scratch, await_until, environment_number, find_program, keepers, millrace, preload_library, seeds, skip, succeed,
};
use sim::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WORKERS: u64 = 4;
const RECORD_BYTES: usize = 64;
const BLOCK_BYTES: usize = 4096;
/// Time limit without a finished step. A process that waits for a killed one waits 3 s.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The reports of one worker, over all its processes.
#[derive(Default)]
struct Said {
    /// Version of each block of its file.
    blocks: BTreeMap<u32, u32>,
    /// Records of the log: process and number.
    records: BTreeSet<(u64, u64)>,
    counts: u64,
    replaced: Option<(u64, u64)>,
    steps: u64,
    wrong: Vec<String>,
}

impl Said {
    fn hear(&mut self, line: &str) {
        self.steps += 1;
        let mut words = line.split(' ');
        let step = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        match (step, numbers.as_slice()) {
            ("found", [block, version]) => {
                let known = self.blocks.insert(*block as u32, *version as u32).unwrap_or(0);
                // The last process may have executed the write in which it was killed.
                if *version as u32 != known && *version as u32 != known + 1 {
                    self.wrong.push(format!("block {block} holds version {version}, and {known} was written"));
                }
            }
            ("wrote", [block, version]) => drop(self.blocks.insert(*block as u32, *version as u32)),
            ("appended", [process, number]) => drop(self.records.insert((*process, *number))),
            ("counted", [_]) => self.counts += 1,
            ("replaced", [process, number]) => self.replaced = Some((*process, *number)),
            ("size", [_]) => {}
            _ => self.wrong.push(format!("it said {line:?}")),
        }
    }
}

/// A worker's process, and the thread that reads its reports. Dropping it kills the process and its children.
struct Worker {
    child: Child,
    ear: Option<JoinHandle<()>>,
    errors: PathBuf,
}

struct World {
    filer: Filer,
    python: PathBuf,
    said: Vec<Arc<Mutex<Said>>>,
    /// Current process group of each worker.
    groups: Vec<u32>,
    started: u64,
    scratch: Scratch,
}

impl World {
    fn start(&mut self, number: u64) -> Worker {
        self.started += 1;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/kills.py");
        let errors = self.scratch.path().join(format!("errors{}", self.started));
        let mut command = millrace();
        command.env("MILLRACE_PRELOAD", preload_library()).current_dir("/");
        command.args(["exec", "--mount", &format!("/db={}", self.filer.url), "--"]).arg(&self.python).arg(script);
        command.args(["/db".to_owned(), number.to_string(), self.started.to_string()]);
        let mut child =
            command.process_group(0).stdout(Stdio::piped()).stderr(std::fs::File::create(&errors).unwrap()).spawn().unwrap();
        self.groups[number as usize] = child.id();
        let (said, lines) = (Arc::clone(&self.said[number as usize]), BufReader::new(child.stdout.take().unwrap()));
        let ear =
            std::thread::spawn(move || lines.lines().map_while(Result::ok).for_each(|line| said.lock().unwrap().hear(&line)));
        Worker { child, ear: Some(ear), errors }
    }

    /// Version of each block of a worker's file, as the server has it.
    fn versions_on_disk(&self, number: usize) -> Vec<u32> {
        let own = std::fs::read(self.filer.export().join(format!("own{number}"))).unwrap();
        own.chunks(BLOCK_BYTES)
            .map(|block| block.get(4..8).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap())))
            .collect()
    }

    fn steps(&self) -> Vec<u64> {
        self.said.iter().map(|said| said.lock().unwrap().steps).collect()
    }
}

impl Worker {
    /// Kills the process, which must run, with SIGKILL. On return all its reports have been read.
    fn kill(mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("a worker ended by itself, {status}: {}", std::fs::read_to_string(&self.errors).unwrap());
        }
        // The children are killed too: a surviving child would write old data, as it may on any file system.
        let group = format!("-{}", self.child.id());
        succeed(Command::new("kill").args(["-KILL", "--", &group]));
        self.child.wait().unwrap();
        await_until("the group to be gone", Duration::from_secs(20), || {
            (!Command::new("kill").args(["-0", "--", &group]).output().unwrap().status.success()).then_some(())
        });
        if let Some(ear) = self.ear.take() {
            ear.join().unwrap();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).output();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "nightly: twenty processes are killed, half a minute"]
fn twenty_processes_killed_at_any_moment_leave_nothing_wrong_for_the_others() {
    for seed in seeds(|count| count.div_ceil(2)) {
        kill_many(seed, environment_number("MILLRACE_KILLS").unwrap_or(20));
    }
}

#[test]
#[ignore = "nightly: 200 processes are killed, some minutes"]
fn two_hundred_processes_killed_at_any_moment_leave_nothing_wrong_for_the_others() {
    kill_many(environment_number("MILLRACE_SEED").unwrap_or(1), 200);
}

fn kill_many(seed: u64, kills: u64) {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let scratch = Scratch::new("kills");
    let filer = Filer::start(&scratch, &["--loss-layer"]);
    let said = (0..WORKERS).map(|_| Arc::default()).collect();
    let mut world = World { filer, python, said, groups: vec![0; WORKERS as usize], started: 0, scratch };
    let mut rng = Rng::new(seed);
    let mut workers: Vec<Worker> = (0..WORKERS).map(|number| world.start(number)).collect();
    let mut last = (world.steps(), vec![Instant::now(); WORKERS as usize]);
    let began = Instant::now();
    for kill in 0..kills {
        let until = Instant::now() + Duration::from_millis(30 + rng.below(600));
        while Instant::now() < until {
            listen(&world, &mut last);
            std::thread::sleep(Duration::from_millis(10)); // load goes on; the moment of the kill is what is drawn
        }
        if rng.chance(1, 20) {
            println!("{:?} power cut", began.elapsed());
            assert_eq!(world.filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
        }
        if rng.chance(1, 6) {
            println!("{:?} keepers", began.elapsed());
            keepers::of(world.filer.port).into_iter().take(1 + rng.index(2)).for_each(keepers::kill);
            continue;
        }
        let number = rng.below(WORKERS);
        workers.remove(number as usize).kill();
        workers.insert(number as usize, world.start(number));
        println!("{:?} kill {kill}: worker {number}", began.elapsed());
    }
    // Every worker continues once more.
    let before = world.steps();
    await_until("every worker to finish a step", SILENCE_MAX, || {
        listen(&world, &mut last);
        world.steps().iter().zip(&before).all(|(now, before)| now > before).then_some(())
    });
    workers.into_iter().for_each(Worker::kill);
    check(&world, kills + WORKERS);
}

/// Asserts that no worker is silent for long or reported a fault.
fn listen(world: &World, (steps, heard): &mut (Vec<u64>, Vec<Instant>)) {
    for (number, now) in world.steps().into_iter().enumerate() {
        if now != steps[number] {
            steps[number] = now;
            heard[number] = Instant::now();
        }
        let wrong = &world.said[number].lock().unwrap().wrong;
        assert!(wrong.is_empty(), "worker {number}: {wrong:?}; on disk now: {:?}", world.versions_on_disk(number));
        let silent = heard[number].elapsed() >= SILENCE_MAX;
        assert!(!silent, "worker {number} finished nothing in {SILENCE_MAX:?}:\n{}", where_waits(world.groups[number]));
    }
}

/// For each process of a group: its command line, its system call, and where in the kernel it
/// sleeps (proc(5); for root only).
fn where_waits(group: u32) -> String {
    let mut told = String::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let of = |file: &str| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        // The fields after the name: state, parent, group.
        let is_of = of("stat").rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(2)?.parse().ok()) == Some(group);
        if is_of {
            told += &format!("{} call {}{}", of("cmdline").replace('\0', " "), of("syscall"), of("stack"));
        }
    }
    told
}

/// Compares the files on the server's disk at the end with the reports.
fn check(world: &World, killed: u64) {
    let export = world.filer.export();
    let hidden = || {
        let names = std::fs::read_dir(export).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(".nfs")).collect::<Vec<_>>()
    };
    await_until("hidden names to be removed by the keeper", Duration::from_secs(30), || hidden().is_empty().then_some(()));
    // The keeper commits what no program committed. After that a power cut loses nothing.
    let dirty = || world.filer.admin(r#"{"op":"stats"}"#)["procedures"]["COMMIT"]["calls"].as_u64();
    let mut commits = dirty();
    await_until("the keeper to have committed all", Duration::from_secs(60), || {
        std::thread::sleep(Duration::from_secs(3)); // a keeper looks each second: none in three is the condition
        let now = dirty();
        (std::mem::replace(&mut commits, now) == now).then_some(())
    });
    assert_eq!(world.filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);

    let log = std::fs::read(export.join("log")).unwrap();
    let mut found = BTreeSet::new();
    for record in log.chunks(RECORD_BYTES) {
        let text = String::from_utf8_lossy(record);
        let mut words = text.split(' ').filter_map(|word| word.parse::<u64>().ok());
        match (words.next(), words.next(), words.next()) {
            (Some(_), Some(process), Some(number)) => {
                assert!(record.ends_with(b".\n") && found.insert((process, number)), "twice or torn: {text:?}");
            }
            // An appender was killed after it took its place and before it wrote its bytes.
            _ => assert!(record.iter().all(|byte| *byte == 0), "no record: {text:?}"),
        }
    }
    let mut counts = 0;
    for (number, said) in world.said.iter().enumerate() {
        let said = said.lock().unwrap();
        assert!(said.wrong.is_empty(), "worker {number}: {:?}", said.wrong);
        let gone: Vec<_> = said.records.difference(&found).collect();
        assert!(gone.is_empty(), "records of worker {number} are gone: {gone:?}");
        counts += said.counts;
        let own = world.versions_on_disk(number);
        for (block, version) in &said.blocks {
            let there = own.get(*block as usize).copied().unwrap_or(0);
            assert!(there == *version || there == version + 1, "worker {number}, block {block}: {there}, written {version}");
        }
        if let Some(replaced) = said.replaced {
            let kept = std::fs::read_to_string(export.join(format!("kept{number}"))).unwrap();
            let one = &kept[..kept.len() / 100];
            let words: Vec<u64> = one.split(' ').map(|word| word.parse().unwrap()).collect();
            assert!(
                kept == one.repeat(100) && (words[0], words[1]) >= replaced,
                "worker {number} replaced by {replaced:?}: {one}"
            );
        }
    }
    let counter = std::fs::read_to_string(export.join("counter")).unwrap();
    let counter: u64 = counter.parse().unwrap();
    assert!((counts..=counts + killed).contains(&counter), "{counter} counted, {counts} said");
    println!("{} steps, {} records, {counter} counts", world.steps().iter().sum::<u64>(), found.len());
}
