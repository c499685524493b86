//! `attach`: a LUN as a block device, several LUNs as one striped file system.

pub(super) mod daemon;
mod file_system;
mod host;
mod start;

use super::attached::{self, Attached, name_of};
use super::detach;
use crate::error_printing::{refusal, text};
use anyhow::{Context as _, anyhow};
use initiator::IscsiUrl;
use initiator::attach::{Content, FileSystem, LoopDevice};
use serde_json::{Value, json};
use std::path::PathBuf;

pub(super) use start::Refused;
use start::Order;

/// LUNs of one command: each has a process, which keeps a MiB for each request, and a loop device.
const LUNS_MAX: usize = 64;

#[derive(clap::Args)]
pub(super) struct Attach {
    /// URL of the LUN, as `millrace lun list` shows it; several are one striped file system, with
    /// --mkfs btrfs or --mount, else several block devices
    #[arg(required = true, num_args = 1..=LUNS_MAX, value_name = "URL")]
    urls: Vec<String>,
    /// Make a file system on it; refused where there is one, or another signature; on several LUNs
    /// btrfs, striped
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
    Btrfs,
}

impl From<Kind> for FileSystem {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Xfs => Self::Xfs,
            Kind::Ext4 => Self::Ext4,
            Kind::Btrfs => Self::Btrfs,
        }
    }
}

/// A block device of a LUN.
struct Served {
    device: LoopDevice,
    /// What was on it before `--mkfs`.
    content: Content,
    warnings: Vec<String>,
}

pub(super) fn run(args: &Attach) -> anyhow::Result<()> {
    let mut urls = Vec::new();
    for url in &args.urls {
        let (url, _) = super::url_and_options(url, args.initiator.as_deref())?;
        if url.target.is_none() {
            return Err(anyhow!(initiator::Error::NoLun { url: url.to_string() }).context(phrase(std::slice::from_ref(&url))));
        }
        urls.push(url);
    }
    host::check(args, &urls).with_context(|| phrase(&urls))?;
    let mut luns = Vec::new();
    match bring_up(args, &urls, &mut luns) {
        Ok(served) => {
            print(args, &luns, &served);
            Ok(())
        }
        Err(error) => {
            if let Err(left) = detach::undo(&luns) {
                eprintln!("millrace: what was done so far could not be undone: {}", text(&left));
            }
            Err(error)
        }
    }
}

/// What is attempted.
fn phrase(urls: &[IscsiUrl]) -> String {
    match urls {
        [url] => format!("attach {url}"),
        _ => format!("attach {} LUNs", urls.len()),
    }
}

/// The daemons and the loop devices, then the file system and the mount.
fn bring_up(args: &Attach, urls: &[IscsiUrl], luns: &mut Vec<Attached>) -> anyhow::Result<Vec<Served>> {
    let texts: Vec<String> = urls.iter().map(ToString::to_string).collect();
    let volume = (urls.len() > 1 && args.mount.is_some()).then(|| name_of(&texts.join(" ")));
    for url in urls {
        luns.push(Attached::create(url, volume.clone())?);
    }
    let mut served = Vec::new();
    for (attached, url) in luns.iter_mut().zip(&args.urls) {
        let phrase = format!("attach {}", attached.record.url);
        served.push(serve(args, url, &texts, attached).context(phrase)?);
    }
    file_system::bring_up(args, luns, &mut served).with_context(|| phrase(urls))?;
    Ok(served)
}

/// The daemon and the loop device of one LUN.
fn serve(args: &Attach, url: &str, named: &[String], attached: &mut Attached) -> anyhow::Result<Served> {
    let order = Order { url: url.to_owned(), initiator: args.initiator.clone(), depth: args.depth.into() };
    let ready = start::start_daemon(attached, &order)?;
    ready.write_to(&mut attached.record);
    attached.save()?;
    let same = |other: &Attached| other.directory != attached.directory && other.record.lun == attached.record.lun;
    if let Some(other) = attached::all()?.into_iter().find(same) {
        let url = &other.record.url;
        let what = if named.contains(url) { "name it once" } else { "detach it first" };
        let hint = format!("two block devices of one LUN do not see each other's writes: {what}; `millrace iscsi list` shows what is attached");
        return Err(refusal(format!("use {}: it is attached as {url}", attached.record.lun), hint));
    }
    let device = LoopDevice::attach(&attached.file(), attached.record.block_bytes, attached.record.read_only)?;
    attached.record.device = Some(device.path());
    attached.save()?;
    let content = Content::of(&device.path())?;
    let warnings = ready.lacking.iter().map(|what| format!("cannot {what}: I/O may hang when memory is short")).collect();
    Ok(Served { device, content, warnings })
}

fn print(args: &Attach, luns: &[Attached], served: &[Served]) {
    let mut warnings: Vec<&String> = Vec::new();
    for warning in served.iter().flat_map(|served| &served.warnings) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    if !args.json {
        served.iter().for_each(|served| println!("{}", served.device.path()));
        return;
    }
    let mut objects: Vec<Value> = luns.iter().zip(served).map(|(attached, served)| object(attached, served)).collect();
    let mount = luns.first().and_then(|attached| attached.record.mount.clone());
    let line = match objects.len() {
        1 => objects.remove(0),
        _ => json!({"mount": mount, "luns": objects, "warnings": warnings}),
    };
    println!("{line}");
}

fn object(attached: &Attached, served: &Served) -> Value {
    let record = &attached.record;
    let daemon = attached.daemon().unwrap_or_default();
    json!({"device": served.device.path(), "mount": record.mount, "lun": record.lun, "url": record.url, "bytes": record.bytes,
        "block_bytes": record.block_bytes, "paths": daemon.paths, "kind": "fuse-loop", "pid": daemon.pid,
        "warnings": served.warnings})
}
