//! Whether a standard guest starts with KVM here: tried once, and remembered for this kernel and this QEMU.
//!
//! An accessible /dev/kvm is not sufficient: in containers and on nested hosts, QEMU can exit at its first instruction, or the guest
//! can hang.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::guest::cache::{Cache, Kernel};
use crate::guest::initramfs::{self, Task};
use crate::guest::machine::{Accelerator, Machine};
use crate::guest::work::{self, Work};
use crate::host::interrupt;
use crate::host::process::Launch;

const DEVICE: &str = "/dev/kvm";
const REMEMBERED: &str = "kvm.json";
/// Time limit of the test: with KVM, a guest loads its modules within two seconds; a much slower one is not useful.
const TRY_MAX: Duration = Duration::from_secs(15);
/// Memory of the guest in the test.
const TRY_MEMORY_BYTES: u64 = 256 << 20;

/// Result of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tried {
    /// The host's kernel and the QEMU of the test.
    on: String,
    /// Whether the guest started.
    pub(crate) works: bool,
    /// Observed behaviour.
    pub(crate) found: String,
}

/// The result if it is known without a test: there is no KVM, or it was already tested. `None` if a test is needed.
pub(crate) fn known(cache: &Cache, qemu: &Path) -> Option<Tried> {
    let on = host_and_qemu(qemu);
    if let Err(error) = fs::File::options().read(true).write(true).open(DEVICE) {
        return Some(Tried { on, works: false, found: format!("{DEVICE} cannot be used: {error}") });
    }
    cache.read::<Tried>(REMEMBERED).filter(|tried| tried.on == on)
}

/// The known result, or that of a new test.
///
/// # Errors
/// The test cannot be made, or a signal was received.
pub(crate) fn choose(cache: &Cache, kernel: &Kernel, qemu: &Path) -> Result<Tried, LabError> {
    if let Some(known) = known(cache, qemu) {
        return Ok(known);
    }
    let found = try_out(cache, kernel, qemu)?;
    let tried =
        Tried { on: host_and_qemu(qemu), works: found.is_none(), found: found.unwrap_or_else(|| "a guest started".to_owned()) };
    cache.write(REMEMBERED, &tried)?;
    Ok(tried)
}

/// Boots a guest that ends at once. Returns why that failed; `None` if it did not.
fn try_out(cache: &Cache, kernel: &Kernel, qemu: &Path) -> Result<Option<String>, LabError> {
    let (work, mark) = (Work::make()?, work::mark()?);
    let (directory, path) = (Path::new("/"), OsStr::new("/bin"));
    let accelerator = Accelerator::Kvm;
    let task = Task { mark: &mark, probe: true, accelerator, input: false, nics: 0, shares: &[], command: &[], directory, path };
    let (image, initramfs) = (cache.image(kernel), work.write_initramfs(&initramfs::build(cache, kernel, &task)?)?);
    let console = work.console();
    let machine = Machine {
        qemu,
        accelerator,
        cpus: 1,
        memory_bytes: TRY_MEMORY_BYTES,
        nics: 0,
        shares: &[],
        disks: &[],
        kernel: &image,
        initramfs: &initramfs,
        console: &console,
        ports: &[],
        kernel_arguments: &[],
    };
    let mut launch = Launch::new("QEMU", machine.command(), work.log());
    launch.stop_signal = libc::SIGKILL;
    let mut process = launch.start()?;
    let started = || fs::read(&console).is_ok_and(|text| text.windows(mark.len()).any(|window| window == mark.as_bytes()));
    let why = interrupt::wait_for(TRY_MAX, || {
        if started() {
            return Ok(Some(None));
        }
        Ok(process.poll().map(|status| (!started()).then(|| format!("QEMU {}", crate::host::process::describe(status)))))
    })?;
    Ok(why.unwrap_or_else(|| Some(format!("a guest did not start within {} s", TRY_MAX.as_secs()))))
}

/// Identifies the host's kernel and this QEMU, by its file.
fn host_and_qemu(qemu: &Path) -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let facts = fs::metadata(qemu).map(|facts| format!("{} bytes of {}", facts.size(), facts.mtime())).unwrap_or_default();
    format!("Linux {}, {} ({facts})", release.trim(), qemu.display())
}
