//! A volume over a fresh directory, and a few shorthands.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::path::PathBuf;

use tempfile::TempDir;
use volume::{Config, CreateHow, Error, LossConfig, Node, OpenError, Options, Owner, SetAttr, Stability, Volume};

/// The owner of what tests make: whoever runs them.
pub fn owner() -> Owner {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self").expect("proc");
    Owner { uid: own.uid(), gid: own.gid() }
}

pub struct Scratch {
    pub base: TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// For sweeps that make thousands of flushes: on tmpfs where there is one, the promises are the same.
    pub fn in_memory() -> Self {
        let memory = std::path::Path::new("/dev/shm");
        if memory.is_dir() { Self::below(memory) } else { Self::new() }
    }

    fn below(above: &std::path::Path) -> Self {
        let base = tempfile::Builder::new().prefix("millrace-volume-").tempdir_in(above).expect("scratch directory");
        std::fs::create_dir(base.path().join("dir")).expect("served directory");
        Self { base }
    }

    pub fn dir(&self) -> PathBuf {
        self.base.path().join("dir")
    }

    pub fn config(&self, loss: Option<u64>) -> Config {
        Config {
            dir: self.dir(),
            state_dir: self.base.path().join("state"),
            loss: loss.map(|seed| LossConfig { seed }),
            options: Options::default(),
        }
    }

    pub fn open(&self) -> Volume {
        open(self.config(None))
    }

    pub fn open_lossy(&self, seed: u64) -> Volume {
        open(self.config(Some(seed)))
    }
}

/// Opens a volume. A test beside this one that starts a program has a copy of the lock between fork and exec: that is waited for.
fn open(config: Config) -> Volume {
    for _ in 0..10_000 {
        match Volume::open(config.clone()) {
            Err(OpenError::InUse { .. } | OpenError::Served { .. }) => std::thread::sleep(std::time::Duration::from_millis(1)),
            other => return other.expect("open volume"),
        }
    }
    panic!("another process serves this volume");
}

/// Whom tests run as that shall be nobody special.
pub const USER: u32 = 65_534;

/// Runs a test as a user without capabilities, on a thread of its own: the raw call changes the
/// identity of that thread alone, and the threads it starts inherit it.
pub fn without_privilege(test: impl FnOnce(&Scratch) + Send + 'static) {
    without_privilege_in(Scratch::new(), test);
}

/// The same in a given place.
pub fn without_privilege_in(scratch: Scratch, test: impl FnOnce(&Scratch) + Send + 'static) {
    if owner().uid == 0 {
        for path in [scratch.base.path().to_path_buf(), scratch.dir()] {
            std::os::unix::fs::chown(&path, Some(USER), Some(USER)).unwrap();
        }
    }
    let outcome = std::thread::spawn(move || {
        // SAFETY: plain system calls that change the identity of the calling thread.
        unsafe {
            if libc::geteuid() == 0 {
                assert_eq!(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()), 0);
                assert_eq!(libc::syscall(libc::SYS_setresgid, USER, USER, USER), 0);
                assert_eq!(libc::syscall(libc::SYS_setresuid, USER, USER, USER), 0);
            }
        }
        test(&scratch);
        scratch
    })
    .join();
    drop(outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
}

pub fn make_file(volume: &Volume, dir: &Node, name: &str, content: &[u8]) -> Node {
    let (node, _) = volume
        .create(dir, name.as_bytes(), CreateHow::Guarded(SetAttr::default()), owner())
        .unwrap_or_else(|error| panic!("create {name}: {error}"));
    if !content.is_empty() {
        assert_eq!(volume.write(&node, 0, content, Stability::FileSync), Ok(content.len()));
    }
    node
}

pub fn make_dir(volume: &Volume, dir: &Node, name: &str) -> Node {
    volume.mkdir(dir, name.as_bytes(), &SetAttr::default(), owner()).expect("mkdir").0
}

pub fn content(volume: &Volume, node: &Node) -> Result<Vec<u8>, Error> {
    let size = volume.attr(node)?.size as usize;
    let mut bytes = vec![0; size + 1];
    let (got, eof) = volume.read(node, 0, &mut bytes)?;
    assert!(eof, "a read past the size must see the end");
    bytes.truncate(got);
    Ok(bytes)
}

pub fn names(volume: &Volume, dir: &Node) -> Vec<String> {
    let mut names = Vec::new();
    let eof = volume
        .read_dir(dir, 0, &mut |entry| {
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            true
        })
        .expect("read_dir");
    assert!(eof);
    names.sort();
    names
}

/// Repeats a call while the object is being searched for.
pub fn retry_busy<T>(mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..5000 {
        match ask() {
            Err(Error::Busy) => std::thread::yield_now(),
            other => return other,
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("still busy after five seconds");
}
