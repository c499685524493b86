//! `detach`: detaches a LUN, or all LUNs of a volume, also if the process that served it has ended.

use super::attached::{self, Attached};
use super::kernel_sessions;
use crate::error_printing::{print_error, refusal};
use anyhow::{Context as _, anyhow, bail};
use initiator::IscsiUrl;
use initiator::attach::{BlockDevice, is_mount, unmount, users};
use initiator::kernel::{self, Nobody};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The daemon has this long to finish, flush and log out (its own limits are 10 s each for the first two).
const END: Duration = Duration::from_secs(25);
/// Programs that read all block devices (blkid, mkfs.btrfs) keep one open for less than this. The
/// command also waits for udev.
const GLANCE: Duration = Duration::from_secs(1);
/// After this time a line on stderr names what the command waits for.
const REMINDER: Duration = Duration::from_secs(2);
/// The pause between two checks.
const LOOK: Duration = Duration::from_millis(20);

#[derive(clap::Args)]
pub(super) struct Detach {
    /// Block device, mount point or URL of the LUN; any LUN of a striped volume detaches all of it
    #[arg(value_name = "DEVICE|DIR|URL", required_unless_present = "all")]
    which: Option<String>,
    /// Detach every attached LUN
    #[arg(long, conflicts_with = "which")]
    all: bool,
}

pub(super) fn run(args: &Detach) -> anyhow::Result<()> {
    let all = attached::all()?;
    let volumes = volumes(&all);
    let Some(which) = &args.which else {
        let failed = volumes.iter().filter_map(|luns| Some((luns.len(), detach(luns).err()?)));
        let failed: usize = failed.inspect(|(_, error)| print_error(error)).map(|(count, _)| count).sum();
        return if failed == 0 { Ok(()) } else { Err(anyhow!("detach {failed} of {} LUNs", all.len())) };
    };
    match volumes.iter().find(|luns| luns.iter().any(|attached| is_named(attached, which))) {
        Some(luns) => detach(luns),
        None => {
            Err(refusal(format!("detach {}: it is not attached", without_secret(which)), "`millrace iscsi list` shows what is"))
        }
    }
}

/// Groups LUNs by volume; a LUN without a volume is a group of its own.
fn volumes(all: &[Attached]) -> Vec<Vec<&Attached>> {
    let mut volumes: Vec<Vec<&Attached>> = Vec::new();
    for attached in all {
        let volume = &attached.record.volume;
        match volumes.iter_mut().find(|luns| volume.is_some() && luns.iter().any(|lun| lun.record.volume == *volume)) {
            Some(luns) => luns.push(attached),
            None => volumes.push(vec![attached]),
        }
    }
    volumes
}

/// The argument for messages: a URL without its secrets.
fn without_secret(which: &str) -> String {
    match which.parse::<IscsiUrl>() {
        Ok(url) => url.to_string(),
        Err(error) if which.starts_with("iscsi:") => error.url,
        Err(_) => which.to_owned(),
    }
}

fn is_named(attached: &Attached, which: &str) -> bool {
    let record = &attached.record;
    let path = std::fs::canonicalize(which).ok();
    record.device.as_deref() == Some(which)
        || (record.mount.is_some() && record.mount == path)
        || record.url == without_secret(which)
        || attached.devices().is_ok_and(|devices| devices.iter().any(|device| device.is_at(Path::new(which))))
}

fn detach(luns: &[&Attached]) -> anyhow::Result<()> {
    let phrase = || {
        let names: Vec<&str> = luns.iter().map(|lun| lun.record.device.as_deref().unwrap_or(&lun.record.url)).collect();
        format!("detach {}", names.join(", "))
    };
    after_glances(|| check_all_unused(luns)).with_context(phrase)?;
    let (ended, end) = mpsc::channel::<()>();
    let names = phrase();
    let reminder = std::thread::spawn(move || {
        if end.recv_timeout(REMINDER) == Err(RecvTimeoutError::Timeout) {
            eprintln!("waiting to {names}: what was written goes to the target, which may not answer");
        }
    });
    let undone = undo(luns.iter().copied()).with_context(phrase);
    drop(ended);
    let _ = reminder.join(); // it ends at once
    undone
}

/// Repeats a check for users of a device until it passes or [`GLANCE`] has passed, because a
/// program may only read all devices briefly.
pub(super) fn after_glances(check: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    if check().is_err() {
        kernel::settle(&Nobody);
    }
    let limit = Instant::now() + GLANCE;
    loop {
        match check() {
            Err(_) if Instant::now() < limit => std::thread::sleep(LOOK),
            last => return last,
        }
    }
}

fn check_all_unused(luns: &[&Attached]) -> anyhow::Result<()> {
    for attached in luns {
        for device in attached.devices()? {
            check_unused(attached, &device)?;
        }
    }
    kernel_sessions::check_unused(luns)
}

/// Refuses a device that anything but the attachment's own mount uses. Nothing has been changed yet.
fn check_unused(attached: &Attached, device: &BlockDevice) -> anyhow::Result<()> {
    let own = attached.record.mount.as_deref().map(|directory| format!("a mount at {}", directory.display()));
    let users: Vec<String> = device.users().into_iter().filter(|user| Some(user) != own.as_ref()).collect();
    if users.is_empty() {
        return Ok(());
    }
    Err(refusal(
        format!("detach {}: it is used by {}", device.path(), users.join(", ")),
        "end this use first; nothing was changed",
    ))
}

/// Undoes what `attach` has done for a LUN, or for the LUNs of one volume. Once the file system is
/// unmounted, a LUN that cannot be undone does not keep the others from being undone.
pub(super) fn undo<'a>(luns: impl IntoIterator<Item = &'a Attached>) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for attached in luns {
        found.push((attached, attached.devices()?));
    }
    // The LUNs of a volume have one mount, which the first of them removes.
    for (attached, devices) in &found {
        if let Some(directory) = &attached.record.mount {
            unmount_own(directory, devices)?;
        }
    }
    let (of_kernel, own): (Vec<_>, Vec<_>) = found.into_iter().partition(|(attached, _)| attached.record.kernel.is_some());
    let mut taken: Vec<_> = own.iter().map(|(attached, devices)| take_away(attached, devices)).collect();
    taken.push(kernel_sessions::take_away(&of_kernel));
    taken.into_iter().collect()
}

/// Removes a LUN of Millrace's own client after its file system was unmounted.
fn take_away(attached: &Attached, devices: &[BlockDevice]) -> anyhow::Result<()> {
    for device in devices {
        if let BlockDevice::Loop(device) = device {
            device.detach()?;
        }
    }
    stop_daemon(attached)?;
    let fuse = attached.fuse();
    // A daemon that was killed leaves its mount.
    if is_mount(&fuse) && unmount(&fuse, false).is_err() {
        unmount(&fuse, true)?;
    }
    attached.remove()
}

/// Unmounts the directory if one of these devices is still mounted there.
fn unmount_own(directory: &Path, devices: &[BlockDevice]) -> anyhow::Result<()> {
    let is_ours = devices.iter().flat_map(BlockDevice::mounts).any(|mount| mount.directory == directory);
    if !is_ours {
        return Ok(());
    }
    // Without its sessions, a device would make the unmount wait forever.
    for device in devices {
        if let BlockDevice::Kernel(device) = device
            && device.disks().is_empty()
        {
            device.fail_without_path();
        }
    }
    // The caller may have started this process in the mount, which the process would then keep busy.
    if std::env::current_dir().is_ok_and(|place| place.starts_with(directory)) {
        let _ = std::env::set_current_dir("/");
    }
    unmount(directory, false).map_err(|error| {
        let users = users(directory);
        let who = if users.is_empty() { "see `fuser -vm`".to_owned() } else { format!("it is used by {}", users.join(", ")) };
        refusal(error, format!("{who}; end this use first; nothing was changed"))
    })
}

/// Ends the daemon by SIGTERM, then by SIGKILL.
fn stop_daemon(attached: &Attached) -> anyhow::Result<()> {
    for signal in [Signal::TERM, Signal::KILL] {
        if !attached.is_served() {
            return Ok(());
        }
        // The process that holds the lock has written this number.
        if let Some(pid) = attached.daemon().and_then(|daemon| Pid::from_raw(daemon.pid.cast_signed())) {
            // An error means that the process has already ended.
            let _ = kill_process(pid, signal);
        }
        let _ = host::poll(END, LOOK, || Ok::<_, ()>((!attached.is_served()).then_some(())));
    }
    if attached.is_served() {
        bail!("end the process that serves it: `fuser {}/lock` names it", attached.directory.display());
    }
    Ok(())
}
