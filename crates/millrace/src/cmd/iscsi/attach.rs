//! `attach`: a LUN as a block device.

pub(super) mod daemon;
mod start;

use super::attached::{self, Attached};
use super::detach;
use crate::error_printing::{hinted, refusal, text};
use anyhow::{Context as _, anyhow, bail};
use initiator::attach::{Content, FileSystem, LoopDevice, is_mount, mount};
use serde_json::json;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

pub(super) use start::Refused;
use start::Order;

#[derive(clap::Args)]
pub(super) struct Attach {
    /// URL of the LUN, as `millrace lun list` shows it
    url: String,
    /// Make a file system on it; refused where there is one, or another signature
    #[arg(long, value_name = "KIND", value_enum)]
    mkfs: Option<Kind>,
    /// Make it even over what is there, which is lost
    #[arg(long, requires = "mkfs")]
    force: bool,
    /// Mount its file system at this directory
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// Name of this initiator [default: that of the host]
    #[arg(long, value_name = "IQN")]
    initiator: Option<String>,
    /// Commands under way on one path at a time, 1 to 128, the most a loop device sends
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u8).range(1..=128))]
    depth: u8,
    /// Print one JSON object on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    Xfs,
    Ext4,
}

impl From<Kind> for FileSystem {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Xfs => Self::Xfs,
            Kind::Ext4 => Self::Ext4,
        }
    }
}

pub(super) fn run(args: &Attach) -> anyhow::Result<()> {
    let (url, _) = super::url_and_options(&args.url, args.initiator.as_deref())?;
    let phrase = format!("attach {url}");
    if url.target.is_none() {
        return Err(anyhow!(initiator::Error::NoLun { url: url.to_string() }).context(phrase));
    }
    check_host(args).with_context(|| phrase.clone())?;
    let mut attached = Attached::create(&url)?;
    match bring_up(args, &mut attached) {
        Ok(warnings) => {
            print(args, &attached, &warnings);
            Ok(())
        }
        Err(error) => {
            if let Err(left) = detach::undo(&attached) {
                eprintln!("millrace: what was done so far could not be undone: {}", text(&left));
            }
            Err(error.context(phrase))
        }
    }
}

/// What this host needs to have, before anything is changed.
fn check_host(args: &Attach) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(refusal("make a block device: only root may", "run it as root, as in `sudo millrace iscsi attach …`"));
    }
    for (node, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if let Err(error) = OpenOptions::new().read(true).write(true).open(node) {
            let hint = format!("modprobe {module}; in a container, give it the device {node}");
            return Err(hinted(anyhow!(error).context(format!("open {node}")), hint));
        }
    }
    let mut programs = vec![("losetup", "util-linux"), ("blkid", "util-linux")];
    programs.extend(args.mount.iter().map(|_| ("mount", "util-linux")));
    programs.extend(args.mkfs.map(|kind| match kind {
        Kind::Xfs => ("mkfs.xfs", "xfsprogs"),
        Kind::Ext4 => ("mkfs.ext4", "e2fsprogs"),
    }));
    for (program, package) in programs {
        let search = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&search).any(|folder| folder.join(program).is_file()) {
            return Err(refusal(format!("find {program} in PATH"), format!("it is of the package {package}, often in /usr/sbin")));
        }
    }
    let Some(directory) = &args.mount else { return Ok(()) };
    if !directory.is_dir() {
        let hint = format!("mkdir -p {}", directory.display());
        return Err(refusal(format!("mount at {}: no such directory", directory.display()), hint));
    }
    if is_mount(&std::fs::canonicalize(directory)?) {
        bail!("mount at {}: something is mounted there", directory.display());
    }
    Ok(())
}

/// The daemon, the loop device, the file system, the mount; what is to be warned of.
fn bring_up(args: &Attach, attached: &mut Attached) -> anyhow::Result<Vec<String>> {
    let ready = start::start_daemon(attached, &Order { url: args.url.clone(), initiator: args.initiator.clone(), depth: args.depth.into() })?;
    ready.write_to(&mut attached.record);
    attached.save()?;
    let same = |other: &Attached| other.directory != attached.directory && other.record.lun == attached.record.lun;
    if let Some(other) = attached::all()?.into_iter().find(same) {
        let url = &other.record.url;
        let hint = format!("two block devices of one LUN do not see each other's writes: `millrace iscsi detach {url}` first");
        return Err(refusal(format!("use {}: it is attached as {url}", attached.record.lun), hint));
    }
    let device = LoopDevice::attach(&attached.file(), attached.record.block_bytes, attached.record.read_only)?;
    attached.record.device = Some(device.path());
    attached.save()?;
    let content = Content::of(&device.path())?;
    if let Some(kind) = args.mkfs {
        make_file_system(kind.into(), args.force, &content, attached, &device.path())?;
    }
    let mut warnings: Vec<String> = ready.lacking.iter().map(|what| format!("cannot {what}: I/O may hang when memory is short")).collect();
    warnings.extend(misalignments(attached, &device, &Content::of(&device.path())?));
    if let Some(directory) = &args.mount {
        mount_at(directory, &content, args.mkfs.is_some(), attached, &device.path())?;
    }
    Ok(warnings)
}

fn make_file_system(
    kind: FileSystem,
    force: bool,
    content: &Content,
    attached: &Attached,
    device: &str,
) -> anyhow::Result<()> {
    if attached.record.read_only {
        bail!("make a file system: the LUN is read-only");
    }
    match content.words() {
        Some(words) if !force => {
            let hint = "leave out --mkfs to use what is there; --force makes it all the same, and what is there is lost";
            Err(refusal(format!("make a file system: the LUN has {words}"), hint))
        }
        _ => Ok(kind.make(device, attached.record.physical_block_bytes)?),
    }
}

fn mount_at(directory: &Path, content: &Content, is_new: bool, attached: &mut Attached, device: &str) -> anyhow::Result<()> {
    if !is_new && content.kind.is_none() {
        let found = content.words().unwrap_or_else(|| "nothing that blkid knows".into());
        let hint = "--mkfs xfs makes a file system; mount a partition by `mount`, without --mount here";
        return Err(refusal(format!("mount it: the LUN has {found}"), hint));
    }
    let directory = std::fs::canonicalize(directory)?;
    mount(device, &directory, attached.record.read_only)?;
    attached.record.mount = Some(directory);
    attached.save()
}

/// What makes the LUN read a physical block before it can write a part of it.
fn misalignments(attached: &Attached, device: &LoopDevice, content: &Content) -> Vec<String> {
    let physical = attached.record.physical_block_bytes;
    let partitions = device.misaligned_partitions(physical.max(4096).into()).into_iter();
    let mut warnings: Vec<String> = partitions
        .map(|(name, start)| format!("partition {name} begins at byte {start}, not at a multiple of {}: writes are slower", physical.max(4096)))
        .collect();
    if let Some(bytes) = content.block_bytes.filter(|bytes| *bytes < physical.into()) {
        let kind = content.kind.as_deref().unwrap_or("the file system");
        warnings.push(format!("{kind} has blocks of {bytes} bytes, and the LUN physical blocks of {physical}: writes are slower"));
    }
    warnings
}

fn print(args: &Attach, attached: &Attached, warnings: &[String]) {
    let record = &attached.record;
    let daemon = attached.daemon().unwrap_or_default();
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let device = record.device.as_deref().unwrap_or_default();
    if args.json {
        let line = json!({"device": device, "mount": record.mount, "lun": record.lun, "url": record.url, "bytes": record.bytes,
            "block_bytes": record.block_bytes, "paths": daemon.paths, "kind": "fuse-loop", "pid": daemon.pid, "warnings": warnings});
        println!("{line}");
    } else {
        println!("{device}");
    }
}
