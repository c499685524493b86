//! `millrace unmount`: unmounts what `millrace mount` mounted.

use crate::error_printing::print_error;
use anyhow::anyhow;
use fuse_mount::mounting::Unmounted;
use fuse_mount::{MountError, mounting};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The time limit for the end of the process that served the mount.
const END: Duration = Duration::from_secs(15);
/// The pause between two checks.
const LOOK: Duration = Duration::from_millis(10);

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The mount point
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Lazy unmount: detach now, finish when the last program closes it
    #[arg(long)]
    lazy: bool,
}

const AFTER_HELP: &str = "\
Examples:
  millrace unmount /mnt
  millrace unmount --lazy /mnt

Does what `umount DIR` (root) or `fusermount3 -u DIR` does, then waits until the process that
served the mount has ended. It does not wait if a container or another mount namespace has a copy of
the mount. A mount whose process was killed is unmounted too.

Exit codes: 0 unmounted; 1 a program uses it; 2 could not unmount (no such mount, …).";

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let directory = super::mount::resolved(&args.directory)?;
    let serving = daemons(&directory);
    let unmounted = match mounting::unmount(&directory, args.lazy) {
        Ok(unmounted) => unmounted,
        Err(error) => {
            let is_busy = matches!(error, MountError::Busy(_));
            let error = anyhow!(error).context(format!("unmount {}", directory.display()));
            if !is_busy {
                return Err(error);
            }
            print_error(&error);
            return Ok(ExitCode::FAILURE);
        }
    };
    if !args.lazy {
        await_end(&unmounted, serving);
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until the processes that served the file system have ended, unless another mount namespace has a copy of it.
fn await_end(unmounted: &Unmounted, mut serving: Vec<u32>) {
    let limit = Instant::now() + END;
    serving.retain(|pid| unmounted.is_served_by(*pid));
    while let Some(pid) = serving.first() {
        if let Some(user) = unmounted.mounted_elsewhere() {
            eprintln!(
                "millrace: process {user} has a copy of the mount in its mount namespace: process {pid} serves it until that ends"
            );
            return;
        }
        if Instant::now() >= limit {
            eprintln!("millrace: process {pid}, which served the mount, has not ended within {} s", END.as_secs());
            return;
        }
        std::thread::sleep(LOOK);
        serving.retain(|pid| unmounted.is_served_by(*pid));
    }
}

/// The background processes that serve a directory: one, or none if it was killed.
fn daemons(directory: &Path) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| serves(*pid, directory)).collect()
}

/// Whether a process is `millrace mount --daemon … DIR`.
fn serves(pid: u32, directory: &Path) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).filter(|argument| !argument.is_empty()).collect();
    arguments.get(1..3) == Some([b"mount".as_slice(), b"--daemon"].as_slice())
        && arguments.last() == Some(&directory.as_os_str().as_bytes())
}
