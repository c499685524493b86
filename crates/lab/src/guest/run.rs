//! One boot: the guest starts, runs a command as root, and ends.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::LabError;
use crate::guest::cache::Cache;
use crate::guest::initramfs::{self, Task};
use crate::guest::kvm;
pub use crate::guest::machine::Accelerator;
use crate::guest::machine::Machine;
use crate::guest::ports::{Event, Listeners};
use crate::guest::programs::QEMU;
use crate::guest::work::{self, Work};
use crate::host::interrupt;
use crate::host::process::{Launch, Process, describe};
use crate::limits::{GUEST_BOOT_MAX, GUEST_CPUS_MAX, GUEST_MEMORY_BYTES_MIN, GUEST_NICS_MAX, GUEST_SHARES_MAX, GUEST_START_MAX};

/// How to read figures that were measured in a guest.
pub const EMULATED: &str = "emulated CPU: compare shapes and counts only";
/// The same if this host's processor runs the guest.
pub const VIRTUAL: &str = "virtual machine: not comparable with this host's own figures";

/// A request to run a command.
#[derive(Debug, Clone)]
pub struct Request {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Working directory of the command; `/` in the guest if it does not exist there.
    pub directory: PathBuf,
    /// Time limit from the start to the end of the command, including the boot.
    pub timeout: Duration,
    /// Processors of the guest.
    pub cpus: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// Number of network interfaces, each with its own network.
    pub nics: u32,
    /// Directories that the guest may write to, each at the same path as here.
    pub shares: Vec<PathBuf>,
    /// Files that are its disks, in raw format, in the order of their names there: vda, vdb, …
    pub disks: Vec<PathBuf>,
    /// Whether the command reads the standard input of this process.
    pub input: bool,
    /// Accelerator; `None` for KVM if a guest starts with it, else TCG.
    pub accelerator: Option<Accelerator>,
    /// Further arguments of the kernel.
    pub kernel_arguments: Vec<String>,
}

/// Result of a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The command ended.
    Ended,
    /// The command or the boot exceeded the time limit.
    TimedOut,
    /// The guest did not start the command.
    BootFailed,
    /// The guest ended before the command did.
    GuestEnded,
    /// The reader of the output closed it.
    OutputClosed,
}

/// Record of a boot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Its result.
    pub outcome: Outcome,
    /// Exit code of the command.
    pub exit_code: Option<u8>,
    /// The accelerator.
    pub accelerator: Accelerator,
    /// How to read figures that were measured inside.
    pub label: &'static str,
    /// The kernel.
    pub kernel: String,
    /// Seconds from the start of QEMU to the start of the command.
    pub boot_s: Option<f64>,
    /// Seconds from the start of QEMU to the end.
    pub total_s: f64,
    /// After a failure, the end of the output of the guest's console and of QEMU: lines, each indented.
    pub console_end: String,
    /// After a failure, the file with the complete output.
    pub console: Option<PathBuf>,
}

/// Boots a guest and runs a command in it. Passes its output and errors on as they come.
///
/// Must be called on the main thread: the kernel ends QEMU when the thread that started it ends.
///
/// # Errors
/// [`LabError::Missing`] and [`LabError::Plan`] if a guest cannot be started here; [`LabError::Interrupted`].
pub fn run(cache: &Cache, request: &Request, output: [Box<dyn Write + Send>; 2]) -> Result<Record, LabError> {
    interrupt::catch();
    check(request)?;
    let qemu = QEMU.require()?;
    let kernel = cache.kernel().ok_or_else(|| LabError::Missing {
        what: format!("boot a guest: no kernel in {}", cache.root().display()),
        hint: "millrace guest fetch".to_owned(),
    })?;
    let accelerator = match request.accelerator {
        Some(named) => named,
        None if kvm::choose(cache, &kernel, &qemu)?.works => Accelerator::Kvm,
        None => Accelerator::Tcg,
    };
    let (work, mark) = (Work::make()?, work::mark()?);
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin".into());
    let task = Task {
        path: &path,
        mark: &mark,
        probe: false,
        accelerator,
        input: request.input,
        nics: request.nics,
        shares: &request.shares,
        command: &request.command,
        directory: &request.directory,
    };
    let initramfs = work.write_initramfs(&initramfs::build(cache, &kernel, &task)?)?;
    let mut listeners = Listeners::make(&work)?;
    let (image, console) = (cache.booted(&kernel, accelerator), work.console());
    let machine = Machine {
        qemu: &qemu,
        accelerator,
        cpus: request.cpus,
        memory_bytes: request.memory_bytes,
        nics: request.nics,
        shares: &request.shares,
        disks: &request.disks,
        kernel: &image,
        initramfs: &initramfs,
        console: &console,
        ports: &listeners.paths,
        kernel_arguments: &request.kernel_arguments,
    };
    let mut launch = Launch::new("QEMU", machine.command(), work.log());
    launch.stop_signal = libc::SIGKILL; // nothing in it is to be kept: its root is never written
    let began = Instant::now();
    let mut process = launch.start()?;
    let connected = interrupt::wait_for(GUEST_START_MAX, || Ok((listeners.accept()? || process.poll().is_some()).then_some(())))?;
    let mut watch = Watch { began, timeout: request.timeout, boot_s: None, code: None, streams_left: 2 };
    let outcome = if connected.is_some() && process.poll().is_none() {
        let (sender, events) = mpsc::channel();
        listeners.carry(&mark, request.input, output, &sender);
        drop(sender);
        watch.until_end(&events, &mut process)?
    } else {
        Outcome::BootFailed
    };
    let ended = process.poll();
    drop(process);
    let mut record = watch.record(outcome, accelerator, kernel.version);
    if !matches!(outcome, Outcome::Ended | Outcome::OutputClosed) {
        let panic = panic_in(&fs::read(&console).unwrap_or_default()).map(|line| format!("\n    {line}")).unwrap_or_default();
        let said = ended.map(|status| format!("\n    QEMU {}", describe(status))).unwrap_or_default();
        record.console_end = format!("{panic}{}{}{said}", Work::end_of(&console), Work::end_of(&work.log()));
        record.console = keep(&console, &cache.console());
    }
    Ok(record)
}

/// State of the loop that waits for the end.
struct Watch {
    began: Instant,
    timeout: Duration,
    boot_s: Option<f64>,
    code: Option<u8>,
    /// Number of streams (output, errors) that are not complete.
    streams_left: u32,
}

impl Watch {
    fn until_end(&mut self, events: &Receiver<Event>, process: &mut Process) -> Result<Outcome, LabError> {
        loop {
            interrupt::check()?;
            match events.recv_timeout(interrupt::POLL_EVERY) {
                Ok(Event::Up(_)) => self.boot_s = Some(self.began.elapsed().as_secs_f64()),
                Ok(Event::Ended(code)) => {
                    self.code = Some(code);
                    self.streams_left -= 1;
                    if self.streams_left == 0 {
                        return Ok(Outcome::Ended);
                    }
                }
                Ok(Event::Unwritable) => return Ok(Outcome::OutputClosed),
                Ok(Event::Cut) | Err(mpsc::RecvTimeoutError::Disconnected) => {
                    // QEMU closes its sockets shortly before it exits.
                    let _ = process.wait(GUEST_START_MAX)?;
                    return Ok(self.gone());
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let elapsed = self.began.elapsed();
            if elapsed >= self.timeout {
                return Ok(Outcome::TimedOut);
            }
            if self.boot_s.is_none() && elapsed >= GUEST_BOOT_MAX {
                return Ok(Outcome::BootFailed);
            }
        }
    }

    /// The record of a boot, without its console.
    fn record(&self, outcome: Outcome, accelerator: Accelerator, kernel: String) -> Record {
        Record {
            outcome,
            exit_code: self.code.filter(|_| outcome == Outcome::Ended),
            accelerator,
            label: if accelerator == Accelerator::Tcg { EMULATED } else { VIRTUAL },
            kernel,
            boot_s: self.boot_s,
            total_s: self.began.elapsed().as_secs_f64(),
            console_end: String::new(),
            console: None,
        }
    }

    fn gone(&self) -> Outcome {
        if self.boot_s.is_some() { Outcome::GuestEnded } else { Outcome::BootFailed }
    }
}

/// The line with the reason of a kernel panic: the trace after it is longer than the shown lines.
fn panic_in(console: &[u8]) -> Option<String> {
    String::from_utf8_lossy(console).lines().rev().find(|line| line.contains("Kernel panic - ")).map(str::to_owned)
}

/// Copies the console to a place that outlives this run.
fn keep(console: &Path, place: &Path) -> Option<PathBuf> {
    fs::copy(console, place).ok().map(|_| place.to_owned())
}

fn check(request: &Request) -> Result<(), LabError> {
    let within = |what: &str, value: u64, least: u64, most: u64| {
        let text = || format!("use {value} {what}");
        let hint = format!("{what} of a guest lie between {least} and {most}");
        if (least..=most).contains(&value) { Ok(()) } else { Err(LabError::plan(text(), &hint)) }
    };
    within("processors", request.cpus.into(), 1, GUEST_CPUS_MAX.into())?;
    within("network interfaces", request.nics.into(), 0, GUEST_NICS_MAX.into())?;
    within("shared directories", request.shares.len() as u64, 0, GUEST_SHARES_MAX as u64)?;
    if request.memory_bytes < GUEST_MEMORY_BYTES_MIN {
        let text = format!("boot a guest with {} of memory", results::sizes::size_text(request.memory_bytes));
        let hint = format!("it needs {} or more, as in --memory 2GiB", results::sizes::bytes_text(GUEST_MEMORY_BYTES_MIN));
        return Err(LabError::plan(text, &hint));
    }
    for share in &request.shares {
        let text = format!("share {}", share.display());
        if !share.is_absolute() || !share.is_dir() {
            let why = if share.exists() { "it is not a directory" } else { "no such directory" };
            return Err(LabError::plan(format!("{text}: {why}"), "name a directory of this host"));
        }
        if share.to_string_lossy().contains(char::is_whitespace) {
            return Err(LabError::plan(format!("{text}: there is white space in its name"), "share a directory without"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            command: vec!["true".into()],
            directory: "/".into(),
            timeout: Duration::from_secs(1),
            cpus: 1,
            memory_bytes: 1 << 30,
            nics: 1,
            shares: Vec::new(),
            disks: Vec::new(),
            input: false,
            accelerator: None,
            kernel_arguments: Vec::new(),
        }
    }

    #[test]
    fn what_no_guest_can_have_is_refused_with_the_limits() {
        assert!(check(&request()).is_ok());
        let refused = |request: Request| check(&request).unwrap_err();
        let error = refused(Request { cpus: 0, ..request() });
        assert_eq!(error.to_string(), "use 0 processors");
        assert!(error.hint().unwrap().contains("between 1 and"));
        refused(Request { nics: GUEST_NICS_MAX + 1, ..request() });
        refused(Request { memory_bytes: 1 << 20, ..request() });
        assert!(refused(Request { shares: vec!["/no/such".into()], ..request() }).to_string().contains("no such directory"));
    }

    #[test]
    fn the_reason_of_a_panic_is_found_before_its_trace() {
        let console = "[1] ok\n[2] Kernel panic - not syncing: VFS\n[3] Call Trace:\n";
        assert_eq!(panic_in(console.as_bytes()).as_deref(), Some("[2] Kernel panic - not syncing: VFS"));
        assert_eq!(panic_in(b"[1] ok\n"), None);
    }

    #[test]
    fn without_a_kernel_nothing_is_started_and_the_hint_is_to_fetch_one() {
        if QEMU.find().is_none() {
            return sim::skip("no QEMU");
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(Some(folder.path().join("guest"))).unwrap();
        let error = run(&cache, &request(), [Box::new(std::io::sink()), Box::new(std::io::sink())]).unwrap_err();
        assert_eq!(error.hint(), Some("millrace guest fetch"));
    }
}
