//! Random programs. The generator has an approximate model of what is open, so that most steps have
//! an effect. The actors decide the effect.

use super::compare::OTHER_USER;
use super::known::REFUSED;
use super::program::{FILER, Step};
use crate::support::is_root;
use sim::Rng;

const NAMES: [&str; 13] = ["a", "b", "c", "a", "b", "D/a", "D/b", "E/a", "l", "/a", "/D/b", "D/c", "E/b"];
const FOLDERS: [&str; 4] = ["D", "E", "D/E", "l"];
const LENGTHS: [u64; 14] = [0, 1, 10, 63, 100, 511, 512, 1000, 4096, 5000, 8192, 20_000, 65_536, 1_100_000];
/// Bytes of each write in a sequence of small ones.
const PIECES: [u64; 8] = [1, 10, 100, 1000, 4096, 5000, 8192, 20_000];
const OFFSETS: [u64; 11] = [0, 0, 1, 5, 100, 512, 4095, 4096, 8000, 8192, 65_535];
const SHELL: [&str; 10] = [
    "cat_a_>_c",
    "echo_x_>>_a",
    "cp_a_b",
    "mv_b_c",
    "cat_<_a_>_D/b",
    "ln_-f_a_b",
    "{_echo_one;_cat_a;_}_>>_c",
    "dd_if=a_of=b_bs=100_count=3_conv=notrunc",
    "sed_-i_s/x/yy/_a",
    "rm_-rf_E;_mkdir_E;_cp_a_E/b",
];
const FORKS: [&str; 9] = ["fork", "exec", "vfork", "spawn", "_Fork", "syscall", "clone", "clone3", "raw"];
const FILLERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The generator's model of a process: a bit for each slot that may be in use.
#[derive(Clone, Copy, Default)]
struct Picture {
    alive: bool,
    files: u8,
    folders: u8,
    streams: u8,
}

/// The program of a seed.
pub(crate) struct Generator {
    rng: Rng,
    processes: [Picture; 4],
    program: Vec<Step>,
    writes: usize,
    /// Whether the filer is restarted, killed or loses power between steps.
    faults: bool,
    /// Whether a process that may have had written files open has ended or become another program.
    ended: bool,
}

/// A program of 20 to 80 steps. `faults` adds faults of the filer. `all_processes` starts all
/// processes first.
pub(crate) fn generate(seed: u64, faults: bool, all_processes: bool) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let length = 20 + rng.index(60);
    let mut made = Generator { rng, processes: [Picture::default(); 4], program: Vec::new(), writes: 0, faults, ended: false };
    made.begin(all_processes);
    while made.program.len() < length {
        made.step();
    }
    made.program
}

impl Generator {
    fn begin(&mut self, all_processes: bool) {
        self.start(0, 0);
        if all_processes {
            let other = if is_root() && self.rng.chance(1, 2) { OTHER_USER } else { 0 };
            [(1, 0), (2, other), (3, other)].into_iter().for_each(|(process, uid)| self.start(process, uid));
        } else if self.rng.chance(1, 3) {
            let uid = if is_root() && self.rng.chance(1, 2) { OTHER_USER } else { 0 };
            self.start(1, uid);
        }
        self.push(0, "mkdir D 777".to_owned());
        if self.rng.chance(1, 2) {
            self.push(0, "sh echo_first_line_>_a".to_owned());
        }
    }

    fn start(&mut self, process: u8, uid: u32) {
        self.push(process, format!("start {uid}"));
        self.processes[usize::from(process)] = Picture { alive: true, ..Picture::default() };
    }

    fn push(&mut self, process: u8, text: String) {
        self.program.push(Step::new(process, text));
    }

    fn step(&mut self) {
        let alive: Vec<u8> = (0..4).filter(|number| self.processes[usize::from(*number)].alive).collect();
        let Some(&process) = self.rng.pick(&alive) else { return self.start(0, 0) };
        if self.rng.chance(1, 40) {
            return self.push(FILER, "together 20".to_owned());
        }
        if self.faults && self.rng.chance(1, 12) {
            let fault = self.fault();
            return self.push(FILER, fault);
        }
        let text = match self.rng.below(100) {
            0..16 => self.open(process),
            16..46 => self.data(process),
            46..56 => self.descriptor(process),
            56..76 => self.name(),
            76..81 => self.lock(process),
            81..88 => self.stream(process),
            88..90 => self.process(process),
            90..99 => self.other(process),
            _ => self.refused(process),
        };
        self.push(process, text);
    }

    fn fault(&mut self) -> String {
        let mut kinds = vec!["kill", "stop", "reboot", "crash", "cut", "crash-now", "cut-now"];
        if !self.ended {
            kinds.push("cut-closed");
        }
        (*self.rng.pick(&kinds).unwrap()).to_owned()
    }

    /// A slot that may be in use, rarely any other.
    fn taken(&mut self, bits: u8) -> usize {
        let taken: Vec<usize> = (0..8).filter(|slot| bits & 1 << slot != 0).collect();
        if self.rng.chance(1, 20) {
            return self.rng.index(8);
        }
        self.rng.pick(&taken).copied().unwrap_or(0)
    }

    /// A slot that is free according to the model.
    fn free(&mut self, bits: u8) -> usize {
        let free: Vec<usize> = (0..8).filter(|slot| bits & 1 << slot == 0).collect();
        self.rng.pick(&free).copied().unwrap_or(7)
    }

    fn path(&mut self) -> String {
        let name = if self.rng.chance(1, 10) { self.rng.pick(&FOLDERS) } else { self.rng.pick(&NAMES) };
        (*name.unwrap()).to_owned()
    }

    /// A path, sometimes relative to an open directory.
    fn path_of(&mut self, process: u8) -> String {
        let (name, folders) = (self.path(), self.processes[usize::from(process)].folders);
        if folders == 0 || name.starts_with('/') || self.rng.chance(2, 3) {
            return name;
        }
        format!("@{}/{name}", self.taken(folders))
    }

    fn length(&mut self) -> u64 {
        let few = if self.rng.chance(1, 15) { LENGTHS.len() } else { LENGTHS.len() - 2 };
        LENGTHS[self.rng.index(few)]
    }

    fn offset(&mut self) -> u64 {
        OFFSETS[self.rng.index(OFFSETS.len())]
    }

    fn letter(&mut self) -> char {
        self.writes += 1;
        FILLERS.chars().nth(self.writes % FILLERS.len()).unwrap()
    }

    fn open(&mut self, process: u8) -> String {
        let picture = self.processes[usize::from(process)];
        let slot = self.free(picture.files | picture.folders);
        if self.rng.chance(1, 10) {
            self.processes[usize::from(process)].folders |= 1 << slot;
            let folder = self.rng.pick(&["D", "E", ".", "/"]).unwrap();
            return format!("open {slot} {folder} r+dir");
        }
        let path = self.path_of(process);
        let mut flags = (*self.rng.pick(&["r", "w", "rw", "rw", "rw"]).unwrap()).to_owned();
        let chances = [("creat", 2), ("trunc", 6), ("append", 5), ("excl", 12), ("direct", 10), ("sync", 12), ("dsync", 12)];
        for (flag, of) in chances.into_iter().chain([("cloexec", 5), ("nofollow", 15)]) {
            if self.rng.chance(1, of) {
                flags = format!("{flags}+{flag}");
            }
        }
        self.processes[usize::from(process)].files |= 1 << slot;
        let mode = self.rng.pick(&["644", "600", "666", "640"]).unwrap();
        format!("open {slot} {path} {flags} {mode}")
    }

    fn data(&mut self, process: u8) -> String {
        let slot = self.taken(self.processes[usize::from(process)].files);
        let (length, offset) = (self.length(), self.offset());
        match self.rng.below(28) {
            24..28 => {
                let piece = *self.rng.pick(&PIECES).unwrap();
                format!("run {slot} {piece} {} {}", 3 + self.rng.below(40), self.letter())
            }
            20 => format!("share {slot}"),
            21 | 22 => format!("store {offset} {}", self.letter()),
            23 => (*self.rng.pick(&["look", "look", "msync", "unshare"]).unwrap()).to_owned(),
            0..4 => format!("write {slot} {length} {}", self.letter()),
            4..7 => format!("pwrite {slot} {length} {} {offset}", self.letter()),
            7 => format!("writev {slot} {length} {}", self.letter()),
            8 => format!("pwritev {slot} {length} {} {offset}", self.letter()),
            9 => {
                let how = self.rng.pick(&["pappend", "pwritedsync"]).unwrap();
                format!("{how} {slot} {length} {} {offset}", self.letter())
            }
            10..12 => format!("read {slot} {length}"),
            12..14 => format!("pread {slot} {length} {offset}"),
            14 => format!("readv {slot} {length}"),
            15 => format!("preadv {slot} {length} {offset}"),
            16..18 => self.seek("lseek", slot),
            18 => {
                let how = *self.rng.pick(&["fadvise", "fadvise", "readahead", "syncrange"]).unwrap();
                format!("{how} {slot} {offset} {length} {}", self.rng.below(9))
            }
            _ => format!("mmap {slot}"),
        }
    }

    fn seek(&mut self, name: &str, slot: usize) -> String {
        let offset = self.offset();
        match self.rng.below(4) {
            0 => format!("{name} {slot} -{} end", offset % 200),
            1 => format!("{name} {slot} -{} cur", offset % 200),
            2 => format!("{name} {slot} 0 end"),
            _ => format!("{name} {slot} {offset} set"),
        }
    }

    fn descriptor(&mut self, process: u8) -> String {
        let picture = self.processes[usize::from(process)];
        let (slot, free) = (self.taken(picture.files), self.free(picture.files | picture.folders));
        let (length, on) = (self.length(), self.rng.below(2));
        match self.rng.below(20) {
            0..4 => {
                self.processes[usize::from(process)].files &= !(1 << slot);
                format!("close {slot}")
            }
            4..8 => {
                let how = self.rng.pick(&["dup", "dupfd", "dup2", "dup3"]).unwrap();
                let to = if self.rng.chance(1, 4) && how.ends_with(['2', '3']) { self.taken(picture.files) } else { free };
                self.processes[usize::from(process)].files |= 1 << to;
                format!("{how} {slot} {to}")
            }
            8..10 => format!("{} {slot}", self.rng.pick(&["fsync", "fdatasync"]).unwrap()),
            10..12 => self.cut_off(&format!("ftruncate {slot}"), length),
            12 => format!("{} {slot} {on}", self.rng.pick(&["setfl", "cloexec"]).unwrap()),
            13 => format!("{} {slot}", self.rng.pick(&["getfl", "getfd"]).unwrap()),
            14..16 => format!("fstat {slot}"),
            16 => format!("same {slot} {}", self.path()),
            17 => format!("moves {slot} {}", self.rng.pick(&["truncate", "mode", "write"]).unwrap()),
            _ => {
                let (how, to) = (*self.rng.pick(&["sendfile", "copy_file_range"]).unwrap(), self.taken(picture.files));
                format!("{how} {slot} {to} {length}")
            }
        }
    }

    fn cut_off(&mut self, how: &str, length: u64) -> String {
        format!("{how} {length}")
    }

    fn name(&mut self) -> String {
        let process = 0;
        let (one, other) = (self.path_of(process), self.path());
        let folder = *self.rng.pick(&FOLDERS).unwrap();
        let mode = *self.rng.pick(&["600", "644", "755", "0"]).unwrap();
        let length = self.length();
        match self.rng.below(32) {
            0..3 => format!("rename {one} {other}"),
            3 => format!("noreplace {one} {other}"),
            4..8 => format!("unlink {one}"),
            8 => format!("link {one} {other}"),
            9 => format!("linkfollow {one} {other}"),
            10 => format!("symlink {} {}", self.path().trim_start_matches('/'), self.rng.pick(&["l", "a", "D/l", "l"]).unwrap()),
            11 => format!("readlink {one}"),
            12..14 => format!("mkdir {folder} 755"),
            14 => format!("rmdir {folder}"),
            15 => format!("remove {one}"),
            16 => format!("rename {folder} {}", self.rng.pick(&FOLDERS).unwrap()),
            17..19 => format!("stat {one}"),
            19 => format!("lstat {one}"),
            20 => self.cut_off(&format!("truncate {one}"), length),
            21 => format!("chmod {one} {mode}"),
            22 => format!("access {one} {}", self.rng.below(8)),
            23 => format!("chdir {}", self.rng.pick(&["D", "..", "/", ".", "E", "l"]).unwrap()),
            24 => format!("fchdir {}", self.rng.below(8)),
            25 => "getcwd".to_owned(),
            26 => format!("utimes {one} {}", 1_000_000 + self.rng.below(1_000_000_000)),
            27 => format!("umask {}", self.rng.pick(&["022", "077", "0"]).unwrap()),
            28 => format!("ls {}", self.rng.pick(&[".", "D", "E", "/"]).unwrap()),
            29 => "tree /".to_owned(),
            _ => format!("cat {one}"),
        }
    }

    fn lock(&mut self, process: u8) -> String {
        let slot = self.taken(self.processes[usize::from(process)].files);
        if self.rng.chance(1, 3) {
            return format!("flock {slot} {}", self.rng.pick(&["shared", "exclusive", "unlock"]).unwrap());
        }
        let name = *self.rng.pick(&["osetlk", "ogetlk", "setlk", "getlk"]).unwrap();
        let kind = *self.rng.pick(&["read", "write", "unlock"]).unwrap();
        let kind = if name.ends_with("getlk") && kind == "unlock" { "write" } else { kind };
        let (start, length, from) =
            (self.rng.below(4) * 50, self.rng.below(3) * 60, self.rng.pick(&["set", "set", "cur"]).unwrap());
        format!("{name} {slot} {kind} {start} {length} {from}")
    }

    fn stream(&mut self, process: u8) -> String {
        let picture = self.processes[usize::from(process)];
        let stream = self.taken(picture.streams) % 4;
        let modes = ["r", "w", "r+", "w+", "re", "wx", "a", "a+"];
        let length = self.length();
        match self.rng.below(20) {
            0..5 => {
                let stream = self.free(picture.streams) % 4;
                self.processes[usize::from(process)].streams |= 1 << stream;
                format!("fopen {stream} {} {}", self.path(), self.rng.pick(&modes).unwrap())
            }
            5 => {
                let (stream, slot) = (self.free(picture.streams) % 4, self.taken(picture.files));
                self.processes[usize::from(process)].streams |= 1 << stream;
                format!("fdopen {stream} {slot} {}", self.rng.pick(&modes).unwrap())
            }
            6..9 => format!("fwrite {stream} {length} {}", self.letter()),
            9 => format!("fprintf {stream} {length}"),
            10 => format!("fputc {stream} {}", self.letter()),
            11..13 => format!("fread {stream} {length}"),
            13 => format!("{} {stream}", self.rng.pick(&["fgetc", "ungetc"]).unwrap()),
            14 => self.seek("fseek", stream),
            15 => format!("{} {stream}", self.rng.pick(&["rewind", "fdpos"]).unwrap()),
            16 => format!("ftell {stream}"),
            17 => format!("{} {stream}", self.rng.pick(&["fflush", "flushall"]).unwrap()),
            18 => {
                let path = if self.rng.chance(1, 2) { "-".to_owned() } else { self.path() };
                format!("freopen {stream} {path} {}", self.rng.pick(&modes).unwrap())
            }
            _ => {
                self.processes[usize::from(process)].streams &= !(1 << stream);
                format!("fclose {stream}")
            }
        }
    }

    fn process(&mut self, process: u8) -> String {
        let dead: Vec<u8> = (0..4).filter(|number| !self.processes[usize::from(*number)].alive).collect();
        match (self.rng.below(10), dead.first().copied()) {
            (0..5, Some(child)) => {
                let kind = FORKS[self.rng.index(FORKS.len())];
                let mut picture = self.processes[usize::from(process)];
                picture.streams = if FORKS[1..4].contains(&kind) { 0 } else { picture.streams };
                self.processes[usize::from(child)] = picture;
                format!("fork {child} {kind}")
            }
            (5, _) => {
                self.ended = true;
                self.processes[usize::from(process)].streams = 0;
                "exec".to_owned()
            }
            (6, _) => {
                self.ended = true;
                self.processes[usize::from(process)].alive = false;
                let ends = ["exit", "_exit", "die"];
                (*self.rng.pick(&ends).unwrap()).to_owned()
            }
            _ => format!("sh {}", self.rng.pick(&SHELL).unwrap()),
        }
    }

    /// libc's other functions for files.
    fn other(&mut self, process: u8) -> String {
        let picture = self.processes[usize::from(process)];
        let (slot, free, held) = (self.taken(picture.files), self.free(picture.files | picture.folders), self.rng.below(2));
        let (path, offset, length) = (self.path(), self.offset(), self.length());
        match self.rng.below(14) {
            0..2 => format!("opendir {held} {}", self.rng.pick(&[".", "D", "E", "/"]).unwrap()),
            2..4 => format!("listdir {held}"),
            4 => format!("closedir {held}"),
            5..7 => {
                let how = self.rng.pick(&["read", "write", "rlist", "wlist"]).unwrap();
                format!("aio {slot} {how} {length} {offset}")
            }
            7 => {
                self.processes[usize::from(process)].files |= 1 << free;
                format!("mkstemp {free} x")
            }
            8 => format!("popen {}", self.rng.pick(&["a", "b", "D/b"]).unwrap()),
            9 => format!("statx {path}"),
            10 => format!("dprintf {slot} {}", self.letter()),
            11 => format!("lockf {slot} {} {}", self.rng.pick(&["lock", "test", "unlock"]).unwrap(), self.rng.below(3) * 60),
            12 => format!("poll {slot}"),
            _ => {
                self.processes[usize::from(process)].files |= 1 << free;
                format!("creat {free} {path}")
            }
        }
    }

    fn refused(&mut self, process: u8) -> String {
        let what = REFUSED[self.rng.index(REFUSED.len())].0;
        format!("refused {what} {}", self.taken(self.processes[usize::from(process)].files))
    }
}
