//! A mount of a running filer, opened as the preload library opens files, and workers in their own processes.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

use crate::support::Scratch;
use crate::support::filer::Filer;
use dnfs::mount::{Entry, FileRef, Mount, MountSpec, OpenHow, Walk};
use dnfs::{Credentials, Error, FsError, Stability};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicU32;

/// Reading and writing.
pub const READ_WRITE: OpenHow = OpenHow {
    read: true,
    write: true,
    append: false,
    create: false,
    exclusive: false,
    truncate: false,
    directory: false,
    mode: 0o600,
};
/// [`READ_WRITE`] of a file that is made if it is missing.
pub const MAKE: OpenHow = OpenHow { create: true, ..READ_WRITE };

/// A filer and a mount of it.
pub struct Mounted {
    pub mount: Mount,
    pub filer: Filer,
    /// The mounted URL, with the options of the mount.
    pub url: String,
    runtime: PathBuf,
    scratch: Scratch,
}

impl Mounted {
    pub fn new(label: &str, options: &[&str]) -> Self {
        Self::with_query(label, options, "")
    }

    /// Mounts with options, each after an `&`.
    pub fn with_query(label: &str, options: &[&str], query: &str) -> Self {
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, options);
        let url = format!("{}{query}", filer.url);
        let mount = attach(&url);
        let runtime = mount.runtime_dir().to_owned();
        Self { mount, filer, url, runtime, scratch }
    }

    /// Makes the filer drop what is not stable, as by a power cut, and change its verifier.
    pub fn power_cut(&self) {
        assert_eq!(self.filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
    }

    /// Starts a process that runs `worker_process` of the caller's file with this job. Dropping it
    /// kills the process.
    #[track_caller]
    pub fn worker(&self, job: &str, argument: &str) -> Worker {
        self.start_worker(job, argument, Command::new(std::env::current_exe().unwrap()))
    }

    /// As [`Self::worker`], on another host from the client's point of view: the process shares no
    /// memory with this one.
    #[track_caller]
    pub fn worker_on_another_host(&self, job: &str, argument: &str) -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("MILLRACE_RUNTIME_DIR", self.other_host());
        self.start_worker(job, argument, command)
    }

    /// The runtime directory of another host, for its owner alone.
    fn other_host(&self) -> PathBuf {
        let folder = self.scratch.path().join("other-host");
        let _ = std::fs::DirBuilder::new().mode(0o700).create(&folder); // exists from the second time on
        folder
    }

    #[track_caller]
    fn start_worker(&self, job: &str, argument: &str, mut command: Command) -> Worker {
        let module = Path::new(Location::caller().file()).file_stem().unwrap().to_str().unwrap();
        command
            .args(["--exact", &format!("{module}::worker_process"), "--ignored", "--nocapture"])
            .env("MOUNT_URL", &self.url)
            .env("WORKER_JOB", job);
        command.env("WORKER_ARGUMENT", argument).stdin(Stdio::piped()).stdout(Stdio::piped());
        Worker(command.spawn().unwrap())
    }

    /// Waits until the folder contains exactly these names. A fork of another test may keep a
    /// closed file open until its exec.
    pub fn await_host_names(&self, expected: &[&str]) {
        let mut found = Vec::new();
        let waited = std::time::Instant::now();
        while waited.elapsed().as_secs() < 5 {
            self.mount.sweep();
            found = self.host_names();
            if found == expected {
                return;
            }
        }
        panic!("{found:?} where {expected:?} should be");
    }

    /// Names in the exported folder, as the server's host sees them.
    pub fn host_names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.filer.export()).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.runtime);
    }
}

/// A worker process.
pub struct Worker(Child);

impl Worker {
    /// Waits until the worker has printed `ready`.
    pub fn await_ready(&mut self) {
        use std::io::{BufRead, BufReader};
        let lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        for line in lines {
            if line.unwrap().contains("ready") {
                return;
            }
        }
        panic!("worker ended before it was ready");
    }

    /// Sends a signal to the worker.
    pub fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }

    /// Kills the worker. Panics if it has ended itself, which a worker does only by a panic.
    pub fn kill(mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "worker failed");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub fn finish(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success(), "worker failed");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The task of a worker process: the URL to mount, its job and its argument. `None`, with a message, if no other test started
/// it.
pub fn worker_arguments() -> Option<[String; 3]> {
    let given = ["MOUNT_URL", "WORKER_JOB", "WORKER_ARGUMENT"].map(|name| std::env::var(name).ok());
    let [Some(url), Some(job), Some(argument)] = given else {
        crate::support::skip_unsupported("worker_process is a part of other tests, which start it");
        return None;
    };
    Some([url, job, argument])
}

/// Defines `worker_process` of a file. It does the job, a function of that name, for which
/// [`Mounted::worker`] started the process.
macro_rules! workers {
    ($($job:ident),+) => {
        #[test]
        #[ignore = "worker: a process that other tests start"]
        fn worker_process() {
            let Some([url, job, argument]) = $crate::mounted::worker_arguments() else { return };
            let mount = $crate::mounted::attach(&url);
            match job.as_str() {
                $(stringify!($job) => $job(&mount, &argument),)+
                other => panic!("no job {other}"),
            }
        }
    };
}

/// Called in a worker: prints `ready`, then waits until the parent wants it to end.
pub fn report_ready() {
    println!("ready");
    let _ = std::io::stdin().read_line(&mut String::new());
}

pub fn attach(url: &str) -> Mount {
    try_attach(url).unwrap()
}

pub fn try_attach(url: &str) -> Result<Mount, Error> {
    let spec = MountSpec::parse(format!("/db={url}").as_bytes()).unwrap();
    Mount::attach(&spec, &Credentials::of_process())
}

/// The entry at the path. Follows links.
pub fn at(mount: &Mount, path: &str) -> Entry {
    match mount.walk(path.as_bytes(), true) {
        Ok(Walk::At(entry)) => entry,
        other => panic!("{path}: {other:?}"),
    }
}

/// The entry at the path. Does not follow a link at its end.
pub fn at_link(mount: &Mount, path: &str) -> Entry {
    match mount.walk(path.as_bytes(), false) {
        Ok(Walk::At(entry)) => entry,
        other => panic!("{path}: {other:?}"),
    }
}

/// An open file description, as the preload library makes one.
pub struct Description<'a> {
    pub mount: &'a Mount,
    pub file: FileRef,
    pub cursor: AtomicU32,
    placeholder: Option<File>,
}

pub fn try_open<'a>(mount: &'a Mount, path: &str, how: &OpenHow) -> Result<Description<'a>, Error> {
    for _ in 0..100 {
        let Walk::At(entry) = mount.walk(path.as_bytes(), true)? else { panic!("{path} leaves the mount") };
        let file = match mount.open(&entry, how) {
            Err(Error::Fs(FsError::Stale)) => continue,
            other => other?,
        };
        let path = mount.placeholder_path(file);
        let path = std::ffi::CStr::from_bytes_until_nul(&path).unwrap();
        let Ok(placeholder) = File::open(std::ffi::OsStr::from_bytes(path.to_bytes())) else { continue };
        match mount.opened(file, placeholder.as_fd()) {
            Err(Error::Fs(FsError::Stale)) => continue,
            other => other?,
        }
        let cursor = AtomicU32::new(mount.error_cursor(file));
        return Ok(Description { mount, file, cursor, placeholder: Some(placeholder) });
    }
    panic!("{path} is removed again and again")
}

pub fn open<'a>(mount: &'a Mount, path: &str, how: &OpenHow) -> Description<'a> {
    try_open(mount, path, how).unwrap_or_else(|error| panic!("{path}: {error}"))
}

impl Description<'_> {
    pub fn write(&self, offset: u64, data: &[u8]) {
        let bytes = self.mount.write(self.file, offset, &[IoSlice::new(data)], Stability::Unstable).unwrap();
        assert_eq!(bytes, data.len());
    }

    /// Writes as with O_DSYNC.
    pub fn write_stable(&self, offset: u64, data: &[u8]) {
        let bytes = self.mount.write(self.file, offset, &[IoSlice::new(data)], Stability::DataSync).unwrap();
        assert_eq!(bytes, data.len());
    }

    pub fn append(&self, data: &[u8]) -> u64 {
        let (bytes, offset) = self.mount.append(self.file, &[IoSlice::new(data)], Stability::Unstable).unwrap();
        assert_eq!(bytes, data.len());
        offset
    }

    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut data = vec![0; length];
        let bytes = self.mount.read(self.file, offset, &mut [IoSliceMut::new(&mut data)]).unwrap();
        data.truncate(bytes);
        data
    }

    pub fn sync(&self) -> Result<(), Error> {
        self.mount.sync(self.file, &self.cursor)
    }
}

impl Drop for Description<'_> {
    fn drop(&mut self) {
        drop(self.placeholder.take());
        self.mount.closed(self.file);
    }
}

/// The status with which the server refused.
pub fn status<T>(result: Result<T, Error>) -> Option<FsError> {
    result.err().and_then(|error| error.fs_error())
}
