//! The crash oracle. Clients write, commit, create, move and remove, and note every promise that
//! they get. Meanwhile the filer is killed, or its power is cut. It starts again, and everything is
//! compared: no data, name, size or mode that was promised stable may be lost or torn. The same for
//! a store that runs full, and with a flush that fails.
//!
//! Each test has ten injected crashes for each seed. There are `MILLRACE_E2E_SEEDS` seeds, or 1 if
//! that is at most the usual 2, so `make nightly` has 200 crashes. `MILLRACE_SEED` replays one
//! seed. A kill loses the process, but no page of the kernel. A cut loses, by the loss layer, all
//! that was not promised, or the part of it that its seed chooses.

use crate::oracle::lane::{Lane, Stopped};
use crate::support::Scratch;
use crate::support::filer::Filer;
use crate::support::wire::Wire;
use nfs_proto::nfs3::WriteVerifier;
use sim::Rng;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

const CRASHES: usize = 10;
const LANES: u64 = 4;

#[test]
fn nothing_promised_is_lost_by_a_kill_or_a_power_cut() {
    for seed in seeds() {
        let scratch = Scratch::new("oracle");
        let mut world = World::new(&scratch, seed);
        (0..CRASHES).for_each(|nth| world.crash_and_check(nth, &Beside::None));
        println!("seed {seed}: {world}");
        assert!(world.undone > 0, "no cut had anything to take back: the load promises everything");
    }
}

#[test]
fn nothing_promised_is_lost_on_a_store_that_is_full() {
    for seed in seeds() {
        let scratch = Scratch::new("oracle-full");
        let disk = SmallDisk::new(&scratch);
        let beside = if disk.is_ok() { Beside::Full } else { Beside::Fault("enospc,rate=0.3") };
        let mut world = World::new(&scratch, seed);
        (0..CRASHES).for_each(|nth| world.crash_and_check(nth, &beside));
        println!("seed {seed}: {world}, {}", disk.as_ref().map_or_else(String::as_str, |_| "on a small disk"));
        assert!(world.lanes.iter().any(|lane| lane.full > 0), "the store never ran full");
        drop(world);
    }
}

#[test]
fn nothing_promised_is_lost_by_a_flush_that_fails() {
    for seed in seeds() {
        let scratch = Scratch::new("oracle-flush");
        let mut world = World::new(&scratch, seed);
        (0..CRASHES).for_each(|nth| world.crash_and_check(nth, &Beside::FailingFlush));
        println!("seed {seed}: {world}");
        // Three of four crashes come after the failed flush, the others before it. Within one seed,
        // the number varies.
        assert!(world.poisoned > CRASHES as u64 / 4, "few flushes failed");
    }
}

/// A test that never finds a fault proves nothing.
#[test]
fn a_store_that_lies_about_its_writes_is_found_out() {
    let scratch = Scratch::new("oracle-liar");
    let mut world = World::new(&scratch, 1);
    let faults = world.crash(&Beside::Fault("torn-write,silent=yes,rate=0.2,seed=5"), 400);
    assert!(faults.iter().any(|fault| fault.contains("sector")), "not found out: {faults:?}");
}

/// What fails in addition to the crash.
enum Beside {
    /// Some flushes are slow, so that crashes hit them.
    None,
    /// This fault, from the start of the load.
    Fault(&'static str),
    /// The store is full without a fault.
    Full,
    /// A flush fails at some point of the load.
    FailingFlush,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectedCrash {
    Kill,
    Cut { seed: u64 },
}

impl InjectedCrash {
    fn choose(rng: &mut Rng) -> Self {
        match rng.below(4) {
            0 | 1 => Self::Kill,
            2 => Self::Cut { seed: 0 },
            _ => Self::Cut { seed: 1 + rng.below(1 << 32) },
        }
    }

    fn options(self) -> Vec<String> {
        match self {
            Self::Kill => vec![],
            Self::Cut { seed } => vec!["--loss-layer".into(), "--loss-seed".into(), seed.to_string()],
        }
    }
}

/// A filer, its clients, and the next crash.
struct World {
    filer: Filer,
    lanes: Vec<Lane>,
    rng: Rng,
    next: InjectedCrash,
    seed: u64,
    undone: u64,
    poisoned: u64,
}

impl World {
    fn new(scratch: &Scratch, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let next = InjectedCrash::choose(&mut rng);
        let options = next.options();
        let filer = Filer::start(scratch, &options.iter().map(String::as_str).collect::<Vec<_>>());
        let mut wire = Wire::connect(filer.port);
        let lanes = (0..LANES).map(|number| Lane::new(&mut wire, number, rng.fork())).collect();
        Self { filer, lanes, rng, next, seed, undone: 0, poisoned: 0 }
    }

    fn crash_and_check(&mut self, nth: usize, beside: &Beside) {
        let (crash, answers) = (self.next, 60 + self.rng.below(240));
        let faults = self.crash(beside, answers);
        let stories: Vec<_> = self.lanes.iter().map(Lane::story).collect();
        assert!(
            faults.is_empty(),
            "seed {}, crash {nth} ({crash:?}): {}\nthe last calls of each client:\n{}",
            self.seed,
            faults.join("\n"),
            stories.join("\n---\n")
        );
    }

    /// Load, crash, restart, comparison. Returns what is wrong.
    fn crash(&mut self, beside: &Beside, answers: u64) -> Vec<String> {
        let before = verifier(&self.filer);
        match beside {
            Beside::None if self.rng.chance(1, 2) => {
                let seed = self.rng.bits();
                self.set(&format!("slow-flush,delay_ms=8,rate=0.2,seed={seed}"));
            }
            Beside::None | Beside::Full => {}
            Beside::Fault(fault) => self.set(fault),
            Beside::FailingFlush => {
                let after = self.rng.below(answers);
                self.set(&format!("eio,on=flush,after={after},times=1"));
            }
        }
        let crash = std::mem::replace(&mut self.next, InjectedCrash::choose(&mut self.rng));
        let refused = self.load_until(answers, crash).contains(&Stopped::Refused);
        self.poisoned += u64::from(refused);
        let options = self.next.options();
        self.filer.restart_with(&options.iter().map(String::as_str).collect::<Vec<_>>());
        let now = verifier(&self.filer);
        match crash {
            // The page cache survived, so nothing was lost.
            InjectedCrash::Kill if matches!(beside, Beside::None) => assert_eq!(now, before),
            // The verifier may have changed: a flush may have failed after the last reply, and on a
            // full store also for older data.
            InjectedCrash::Kill if !refused => {}
            _ => assert_ne!(now, before, "{crash:?}, refused: {refused}"),
        }
        let mut wire = Wire::connect(self.filer.port);
        let export = self.filer.export().to_path_buf();
        self.lanes.iter_mut().flat_map(|lane| lane.check(&mut wire, &export, now)).collect()
    }

    fn set(&self, fault: &str) {
        let fault = volume::faults::FaultSpec::parse(fault).unwrap();
        let reply = self.filer.admin(&serde_json::json!({"op": "fault-add", "fault": fault}).to_string());
        assert_eq!(reply["ok"], true, "{reply}");
    }

    /// Lets all clients work until this number of replies has arrived, then injects the crash.
    /// Returns how each client was stopped.
    fn load_until(&mut self, answers: u64, crash: InjectedCrash) -> Vec<Stopped> {
        let (port, filer, undone) = (self.filer.port, &mut self.filer, &mut self.undone);
        let (answered, heard) = mpsc::channel();
        std::thread::scope(|scope| {
            let load = |lane: &mut Lane, answered: mpsc::Sender<()>| lane.load(port, || answered.send(()).is_ok());
            let lanes = self.lanes.iter_mut().map(|lane| (lane, answered.clone()));
            let lanes: Vec<_> = lanes.map(|(lane, answered)| scope.spawn(move || load(lane, answered))).collect();
            drop(answered);
            let came = (0..answers).take_while(|_| match heard.recv_timeout(Duration::from_secs(60)) {
                Ok(()) => true,
                Err(mpsc::RecvTimeoutError::Disconnected) => false,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("the load stands still"),
            });
            if (came.count() as u64) < answers {
                let stats = filer.admin(r#"{"op":"stats"}"#);
                assert_eq!(stats["poisoned"], true, "all clients were refused, and not by a poisoned volume: {stats}");
            }
            if let InjectedCrash::Cut { .. } = crash {
                let cut = filer.admin(r#"{"op":"power-cut"}"#);
                assert_eq!(cut["ok"], true, "{cut}");
                *undone += cut["undone_writes"].as_u64().unwrap() + cut["undone_names"].as_u64().unwrap();
            }
            filer.kill();
            lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
        })
    }
}

impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum = |of: fn(&Lane) -> u64| self.lanes.iter().map(of).sum::<u64>();
        let (answers, full, undone, poisoned) = (sum(|lane| lane.answers), sum(|lane| lane.full), self.undone, self.poisoned);
        write!(f, "{answers} answers, {full} of them \"full\"; cuts took {undone} changes back; {poisoned} flushes failed")
    }
}

fn verifier(filer: &Filer) -> WriteVerifier {
    let stats = filer.admin(r#"{"op":"stats"}"#);
    WriteVerifier(u64::from_str_radix(stats["verifier"].as_str().unwrap(), 16).unwrap().to_be_bytes())
}

fn seeds() -> Vec<u64> {
    crate::support::seeds(|count| if count > 2 { count } else { 1 })
}

/// A small, nearly full ext4 on a loop device, as the exported folder. Dropping it unmounts it.
struct SmallDisk {
    mounted: PathBuf,
}

impl SmallDisk {
    fn new(scratch: &Scratch) -> Result<Self, String> {
        let (image, mounted) = (scratch.path().join("image"), scratch.folder("export"));
        let (file, folder) = (image.to_str().unwrap(), mounted.to_str().unwrap().to_owned());
        run("truncate", &["-s", "24m", file])?;
        run("mkfs.ext4", &["-q", "-b", "4096", "-J", "size=4", "-m", "0", file])?;
        run("mount", &["-o", "loop", file, &folder])?;
        let disk = Self { mounted };
        // The loss layer needs a block for its directory, for which a full store has no space.
        std::fs::create_dir(disk.mounted.join(".millrace-limbo")).unwrap();
        let free = run("stat", &["-f", "-c", "%a", &folder])?;
        let ballast = free.trim().parse::<u64>().unwrap().saturating_sub(384) * 4096;
        run("fallocate", &["-l", &ballast.to_string(), disk.mounted.join("ballast").to_str().unwrap()])?;
        Ok(disk)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &[self.mounted.to_str().unwrap()]).unwrap();
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(crate::support::text(&output))
    }
}
