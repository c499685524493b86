//! `attach`: makes a LUN a block device, or several LUNs one striped file system.

mod client;
pub(super) mod daemon;
mod file_system;
mod host;
mod kernel;
mod start;

use super::attached::{self, Attached, name_of};
use super::{detach, kernel_sessions};
use crate::cmd::values::whole;
use crate::error_printing::{as_cause, refusal, text};
use anyhow::{Context as _, anyhow};
use client::{Asked, Choice, Client};
use initiator::IscsiUrl;
use initiator::attach::{BlockDevice, Content, FileSystem, LoopDevice};
use serde_json::{Value, json};
use start::Order;
use std::path::PathBuf;

pub(super) use start::Refused;

/// The largest number of LUNs of one command. Each LUN has a process, which keeps a MiB for each
/// request, and a loop device; or it has disks of the kernel.
const LUNS_MAX: usize = 64;

#[derive(clap::Args)]
pub(super) struct Attach {
    /// URL of a LUN, as `millrace lun list` shows it. Several URLs are several block devices, or one striped btrfs with --mkfs
    /// btrfs or --mount
    #[arg(required = true, num_args = 1..=LUNS_MAX, value_name = "URL")]
    urls: Vec<String>,
    /// Make a file system of this kind on the LUN. Refused if the LUN has a file system or another signature, unless --force is
    /// given. On several LUNs only btrfs, striped over them
    #[arg(long, value_name = "KIND", value_enum)]
    mkfs: Option<Kind>,
    /// Let --mkfs overwrite an existing file system; its data is lost
    #[arg(long, requires = "mkfs")]
    force: bool,
    /// Mount the file system at this directory
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// Initiator: open-iscsi (the kernel's, with dm-multipath over several portals), millrace (its own, by FUSE and a loop
    /// device), or auto (open-iscsi if it can be used, otherwise millrace; a line on stderr gives the reason)
    #[arg(long, value_name = "CLIENT", value_enum, default_value = "auto")]
    client: Asked,
    /// Name of this initiator; open-iscsi has only the host's, so another name needs --client millrace or auto [default: the host's]
    #[arg(long, value_name = "IQN")]
    initiator: Option<String>,
    /// Maximum commands in flight on one path, 1 to 128 (the limit of a loop device)
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = whole::<u8>("commands", 1..=128, 64))]
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
    device: BlockDevice,
    /// The content of the device before `--mkfs`.
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
    let choice = client::choose(args.client, args.initiator.as_deref(), &urls).with_context(|| phrase(&urls))?;
    let Err(error) = attach(args, &urls, &choice) else { return Ok(()) };
    match client::instead(args.client, &error) {
        Some(choice) => attach(args, &urls, &choice),
        None => Err(error),
    }
}

/// Attaches all LUNs by one client. If one of them fails, undoes what was done.
fn attach(args: &Attach, urls: &[IscsiUrl], choice: &Choice) -> anyhow::Result<()> {
    if choice.client == Client::Millrace {
        host::check_own().with_context(|| match args.client {
            Asked::Auto => format!("{}, without open-iscsi ({})", phrase(urls), choice.reason),
            _ => phrase(urls),
        })?;
        detach::after_glances(|| urls.iter().try_for_each(kernel_sessions::check_disk_unused))?;
    }
    let mut luns = Vec::new();
    match bring_up(args, urls, choice, &mut luns) {
        Ok(served) => {
            print(args, choice, &luns, &served);
            Ok(())
        }
        Err(error) => match detach::undo(&luns) {
            Ok(()) => Err(error),
            Err(left) => {
                eprintln!("millrace: what was done so far could not be undone: {}", as_cause(&text(&left)));
                // As a plain text, the error no longer counts as one of open-iscsi, so the other
                // client is not tried.
                Err(if choice.client == Client::OpenIscsi { anyhow!(text(&error)) } else { error })
            }
        },
    }
}

/// The phrase of an error: what was attempted.
fn phrase(urls: &[IscsiUrl]) -> String {
    match urls {
        [url] => format!("attach {url}"),
        _ => format!("attach {} LUNs", urls.len()),
    }
}

/// Makes the block devices, then the file system and the mount.
fn bring_up(args: &Attach, urls: &[IscsiUrl], choice: &Choice, luns: &mut Vec<Attached>) -> anyhow::Result<Vec<Served>> {
    let texts: Vec<String> = urls.iter().map(ToString::to_string).collect();
    let volume = (urls.len() > 1 && args.mount.is_some()).then(|| name_of(&texts.join(" ")));
    for url in urls {
        luns.push(Attached::create(url, volume.clone(), &choice.reason)?);
    }
    let mut served = Vec::new();
    for (attached, url) in luns.iter_mut().zip(&args.urls) {
        let phrase = format!("attach {}", attached.record.url);
        served.push(serve(args, (url, choice.client), &texts, attached).context(phrase)?);
    }
    file_system::bring_up(args, luns, &mut served).with_context(|| phrase(urls))?;
    Ok(served)
}

/// Makes the block device of one LUN.
fn serve(args: &Attach, (url, client): (&str, Client), named: &[String], attached: &mut Attached) -> anyhow::Result<Served> {
    let order = Order { url: url.to_owned(), initiator: args.initiator.clone(), depth: args.depth.into() };
    let (device, warnings) = match client {
        Client::OpenIscsi => {
            let (device, warnings) = kernel::serve(&order, attached, |attached| check_once(attached, named))?;
            (BlockDevice::Kernel(device), warnings)
        }
        Client::Millrace => {
            let (device, warnings) = serve_loop(&order, attached, named)?;
            (BlockDevice::Loop(device), warnings)
        }
    };
    let content = Content::of(&device.path())?;
    Ok(Served { device, content, warnings })
}

/// Makes the block device by Millrace's own client: the daemon and the loop device.
fn serve_loop(order: &Order, attached: &mut Attached, named: &[String]) -> anyhow::Result<(LoopDevice, Vec<String>)> {
    let ready = start::start_daemon(attached, order)?;
    ready.write_to(&mut attached.record);
    attached.save()?;
    check_once(attached, named)?;
    let device = LoopDevice::attach(&attached.file(), attached.record.block_bytes, attached.record.read_only)?;
    attached.record.device = Some(device.path());
    attached.save()?;
    let warnings = ready.lacking.iter().map(|what| format!("cannot {what}")).collect();
    Ok((device, warnings))
}

/// Refuses a LUN that is already attached by another URL.
fn check_once(attached: &Attached, named: &[String]) -> anyhow::Result<()> {
    let same = |other: &Attached| other.directory != attached.directory && other.record.lun == attached.record.lun;
    let Some(other) = attached::all()?.into_iter().find(same) else { return Ok(()) };
    let url = &other.record.url;
    let what = if named.contains(url) { "name it once" } else { "detach it first" };
    let hint = format!(
        "two block devices of one LUN do not see each other's writes: {what}; `millrace iscsi list` shows what is attached"
    );
    Err(refusal(format!("use {}: it is attached as {url}", attached.record.lun), hint))
}

fn print(args: &Attach, choice: &Choice, luns: &[Attached], served: &[Served]) {
    // With --json the object has the client. A client that the user chose needs no reason.
    if !args.json && args.client == Asked::Auto {
        eprintln!("{}", choice.line());
    }
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
    let (pid, paths) = attached.pid_and_paths();
    json!({"device": served.device.path(), "mount": record.mount, "lun": record.lun, "url": record.url, "bytes": record.bytes,
        "block_bytes": record.block_bytes, "paths": paths, "kind": attached.kind(), "client": attached.client(),
        "client_reason": record.client_reason, "pid": pid, "warnings": served.warnings})
}
