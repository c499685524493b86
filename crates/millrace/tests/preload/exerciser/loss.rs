//! A filer that loses power while written data is not yet durable, and a mount that retains no
//! written data (`retain=0`).
//!
//! The local side has the expected data. Data that was made durable must be there. Each byte that
//! was written later may be old or new until an fsync answers: 0 only if all data is there,
//! otherwise EIO, once.

use super::compare::Exerciser;
use super::program::{FILER, Step};
use sim::Rng;
use std::path::PathBuf;

/// Files of a program, each open in two slots.
const FILES: [&str; 2] = ["a", "b"];
const EIO: &str = "EIO";

/// What the disk may have of a file.
#[derive(Default)]
struct Contents {
    /// The content when the file was last durable, and after each change since then.
    versions: Vec<Vec<u8>>,
    /// Whether power was lost since then while there was data to lose.
    in_doubt: bool,
}

/// A program that runs on both sides.
pub(crate) struct Loss<'a> {
    world: &'a mut Exerciser,
    files: [Contents; FILES.len()],
    here: PathBuf,
    there: PathBuf,
    /// Steps so far, for the text of a failure.
    log: String,
    /// Number of losses that an fsync reported.
    pub(crate) told: u32,
}

/// The file of a slot: slots 0 and 2 have `a` open, slots 1 and 3 `b`.
fn file_of(slot: usize) -> usize {
    slot % FILES.len()
}

impl<'a> Loss<'a> {
    /// Runs the program of a seed. Returns the number of reported losses, or the fault.
    pub(crate) fn run(world: &'a mut Exerciser, seed: u64) -> Result<u32, String> {
        let (here, there) = world.begin();
        let mut program = Self { world, files: Default::default(), here, there, log: String::new(), told: 0 };
        let outcome = program.steps(&mut Rng::new(seed));
        let told = program.told;
        let log = std::mem::take(&mut program.log);
        program.world.finish();
        outcome.map(|()| told).map_err(|wrong| format!("seed {seed}: {wrong}\n{log}"))
    }

    fn steps(&mut self, rng: &mut Rng) -> Result<(), String> {
        for step in ["start 0", "open 0 a rw+creat 644", "open 1 b rw+creat 644", "open 2 a rw", "open 3 b rw", "fork 1 fork"] {
            self.same(0, step)?;
        }
        for file in 0..FILES.len() {
            self.durable(file)?;
        }
        for number in 0..20 + rng.below(30) {
            let (process, slot) = (rng.below(2) as u8, rng.index(4));
            match rng.below(10) {
                0..6 => self.write(rng, number, process, slot)?,
                6..8 => self.sync(process, slot)?,
                8 => self.look(process, slot)?,
                _ => self.power_cut()?,
            }
        }
        self.power_cut()?;
        (0..4).try_for_each(|slot| self.sync(1, slot))
    }

    fn write(&mut self, rng: &mut Rng, number: u64, process: u8, slot: usize) -> Result<(), String> {
        let letter = char::from(b'A' + (number % 26) as u8);
        let length = [1, 100, 4096, 5000, 20_000][rng.index(5)];
        let offset = [0, 10, 4095, 8192, 30_000][rng.index(5)];
        let how = if rng.chance(1, 6) { "pwritedsync" } else { "pwrite" };
        let text = format!("{how} {slot} {length} {letter} {offset}");
        let (local, mount) = self.both(process, &text);
        let contents = self.bytes(file_of(slot), true)?;
        self.files[file_of(slot)].versions.push(contents);
        self.allowed(slot, &local, &mount)
    }

    /// A read by a writer's descriptor returns the newest data, or reports a loss.
    fn look(&mut self, process: u8, slot: usize) -> Result<(), String> {
        let text = format!("pread {slot} 50000 0");
        let (local, mount) = self.both(process, &text);
        self.allowed(slot, &local, &mount)
    }

    fn allowed(&self, slot: usize, local: &str, mount: &str) -> Result<(), String> {
        let lost = mount == EIO && self.files[file_of(slot)].in_doubt;
        if local == mount || lost { Ok(()) } else { Err(format!("local: {local}\nmount: {mount}")) }
    }

    /// fsync: 0 says that all data is there, EIO that data was lost, which is right only after a power cut.
    fn sync(&mut self, process: u8, slot: usize) -> Result<(), String> {
        let file = file_of(slot);
        let said = self.mount_alone(process, &format!("fsync {slot}"));
        if said == "ok" && !self.files[file].in_doubt {
            return self.durable(file);
        }
        match (said.as_str(), self.files[file].in_doubt) {
            ("ok", _) => self.durable(file),
            (EIO, true) => self.recover(file),
            (other, in_doubt) => Err(format!("fsync said {other}, in doubt: {in_doubt}")),
        }
    }

    /// Asserts that all written data is on the server's disk.
    fn durable(&mut self, file: usize) -> Result<(), String> {
        let (wanted, found) = (self.bytes(file, true)?, self.bytes(file, false)?);
        if wanted != found {
            let at = wanted.iter().zip(&found).position(|(one, other)| one != other);
            let lengths = (wanted.len(), found.len());
            return Err(format!("{} is said to be durable and is not: {lengths:?} bytes, first at {at:?}", FILES[file]));
        }
        self.files[file] = Contents { versions: vec![wanted], in_doubt: false };
        Ok(())
    }

    /// After EIO, the file has no byte that was never written there. Every open file description
    /// reports the loss at most once more. Then writes succeed again.
    fn recover(&mut self, file: usize) -> Result<(), String> {
        self.told += 1;
        let found = self.bytes(file, false)?;
        let versions = &self.files[file].versions;
        let was = |at: usize, byte: u8| versions.iter().any(|version| version.get(at).copied().unwrap_or(0) == byte);
        if let Some(at) = (0..found.len()).find(|at| !was(*at, found[*at])) {
            return Err(format!("{}: byte {at} is {:?}, which was never written there", FILES[file], char::from(found[at])));
        }
        let kept = &versions[0];
        let untouched = |at: usize| versions.iter().all(|version| version.get(at) == kept.get(at));
        if let Some(at) = (0..kept.len()).find(|at| untouched(*at) && found.get(*at) != Some(&kept[*at])) {
            return Err(format!("{}: byte {at} was durable and is gone", FILES[file]));
        }
        for process in 0..2 {
            for slot in (0..4).filter(|slot| file_of(*slot) == file) {
                self.mount_alone(process, &format!("fsync {slot}"));
                let again = self.mount_alone(process, &format!("fsync {slot}"));
                if again != "ok" {
                    return Err(format!("process {process}, slot {slot}: told of one loss more than once: {again}"));
                }
            }
        }
        for text in [format!("ftruncate {file} 0"), format!("pwrite {file} 300 z 0"), format!("fsync {file}")] {
            self.same(0, &text)?;
        }
        self.durable(file)
    }

    fn power_cut(&mut self) -> Result<(), String> {
        self.log.push_str("9 cut-now\n");
        for file in &mut self.files {
            file.in_doubt |= file.versions.len() > 1;
        }
        match self.world.disturb(&Step::new(FILER, "cut-now")) {
            None => Ok(()),
            Some((_, said)) => Err(said),
        }
    }

    fn same(&mut self, process: u8, text: &str) -> Result<(), String> {
        let (local, mount) = self.both(process, text);
        if local == mount { Ok(()) } else { Err(format!("{text}: local: {local}, mount: {mount}")) }
    }

    fn both(&mut self, process: u8, text: &str) -> (String, String) {
        let step = Step::new(process, text);
        let (local, mount) = (self.world.local.step(&step), self.world.mount.step(&step));
        let shown: String = mount.chars().take(60).collect();
        self.log.push_str(&format!("{step}    # {shown}\n"));
        (local, mount)
    }

    fn mount_alone(&mut self, process: u8, text: &str) -> String {
        let step = Step::new(process, text);
        let said = self.world.mount.step(&step);
        self.log.push_str(&format!("{step}    # {said}\n"));
        said
    }

    /// The content of a file, on the local side or on the server's disk.
    fn bytes(&self, file: usize, local: bool) -> Result<Vec<u8>, String> {
        let path = if local { &self.here } else { &self.there }.join(FILES[file]);
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}
