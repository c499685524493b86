//! `bench` of a LUN: one thread keeps commands in flight over all portals of the URL.

use super::attached::{self, Attached};
use super::kernel_sessions;
use crate::cmd::bench::{Load, Meter, Offsets, Rates, holds_zeros, pattern, remarks};
use crate::cmd::values::bytes;
use crate::error_printing::refusal;
use anyhow::Context as _;
use initiator::attach::{BlockDevice, is_mount};
use initiator::{Command, Device, IscsiUrl};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The longest wait of one iteration.
const WAIT: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(super) struct Bench {
    /// URL of the LUN, as `millrace lun list` shows it
    url: String,
    #[command(flatten)]
    load: Load,
    /// Part of the LUN that is used [default: all of it]
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,
    /// Make writes durable when they complete, even if the LUN has a write cache (FUA)
    #[arg(long)]
    fua: bool,
    /// Overwrite the LUN: its data is lost. Writing needs this option
    #[arg(long)]
    overwrite: bool,
    /// Name of this initiator [default: the host's]
    #[arg(long, value_name = "IQN")]
    initiator: Option<String>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    rates: Rates,
    #[serde(skip_serializing_if = "Option::is_none")]
    fua: Option<bool>,
    write_cache: bool,
    /// The blocks that were sampled before the run hold only zeros.
    no_data: bool,
    paths: Vec<PathRecord>,
}

#[derive(Serialize)]
struct PathRecord {
    portal: String,
    completed: u64,
    failures: u64,
    downs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

pub(super) fn run(args: &Bench) -> anyhow::Result<()> {
    args.load.check(&[("--fua", args.fua)])?;
    if args.load.bs.contains(&0) {
        return Err(refusal("measure with --bs 0: a command carries at least one block", "PostgreSQL's block is --bs 8k"));
    }
    let (url, mut options) = super::url_and_options(&args.url, args.initiator.as_deref())?;
    options.depth = args.load.depth.iter().copied().max().map_or(1, usize::from);
    let writes = args.load.rw.is_write();
    if writes && !args.overwrite {
        let what = format!("write to {url}: what is on the LUN would be lost");
        return Err(refusal(what, "use --overwrite to overwrite it, or measure a LUN made for it (millrace lun create)"));
    }
    if writes {
        check_unused(&url, None)?;
    }
    let mut device = Device::open(&url, options).with_context(|| format!("use {url}"))?;
    if writes {
        check_unused(&url, Some(&device.identity().to_string()))?;
    }
    // All sizes are checked before the first is measured.
    let counts: Vec<u64> = args.load.bs.iter().map(|bs| blocks(args, *bs, &device)).collect::<Result<_, _>>()?;
    for (bs, blocks) in args.load.bs.iter().zip(counts) {
        for depth in &args.load.depth {
            let report = one(args, &mut device, *bs, *depth, blocks).with_context(|| format!("measure {url}"))?;
            print(args, &url, &report)?;
        }
    }
    device.close();
    Ok(())
}

/// Measures one block size with one depth.
fn one(args: &Bench, device: &mut Device, bs: u64, depth: u16, blocks: u64) -> anyhow::Result<Report> {
    let no_data = args.load.rw.is_read() && holds_zeros(blocks, bs, |offset| read(device, offset, bs))?;
    let mut offsets = Offsets::new(args.load.rw, blocks, bs);
    let mut meter = Meter::new(&args.load, bs, depth);
    measure(args, device, (bs, depth), &mut offsets, &mut meter)?;
    Ok(Report {
        rates: meter.rates(blocks * bs),
        fua: args.load.rw.is_write().then_some(args.fua),
        write_cache: device.geometry().write_cache,
        no_data,
        paths: paths(device),
    })
}

fn print(args: &Bench, url: &IscsiUrl, report: &Report) -> anyhow::Result<()> {
    if args.load.json {
        println!("{}", serde_json::to_string(report)?);
        return Ok(());
    }
    println!("{}", report.rates);
    for line in remarks("the LUN", report.no_data, report.rates.passes) {
        println!("{line}");
    }
    if args.load.rw.is_write() && report.write_cache && !args.fua {
        println!("the LUN has a write cache: these writes are durable only after a flush (--fua)");
    }
    for path in report.paths.iter().filter(|_| url.portals.len() > 1) {
        let trouble = super::trouble(path.downs, path.failures, path.last_error.as_deref());
        println!("{}: {} commands{}", path.portal, path.completed, trouble.map(|what| format!(", {what}")).unwrap_or_default());
    }
    Ok(())
}

/// Refuses to write to a LUN that is a block device of this host, by any URL. `lun` is the identity that it reports.
fn check_unused(url: &IscsiUrl, lun: Option<&str>) -> anyhow::Result<()> {
    let Some(all) = attached::all_visible()? else {
        // Without root, only two things can be checked: a mount in the directory of this URL, and a
        // kernel disk of this target and LUN number.
        let is_attached = is_mount(&attached::fuse_of(&url.to_string())) || kernel_sessions::disk_of(url).is_some();
        return if is_attached { Err(attached_here(url, "", "millrace iscsi detach --all")) } else { Ok(()) };
    };
    let is_it = |other: &Attached| other.record.url == url.to_string() || lun.is_some_and(|lun| other.record.lun == lun);
    let Some(other) = all.iter().find(|other| is_it(other)) else { return Ok(()) };
    let device = other.record.device.as_ref().map(|device| format!(" as {device}")).unwrap_or_default();
    let devices = other.devices()?;
    let mount =
        devices.iter().flat_map(BlockDevice::mounts).map(|mount| mount.directory).chain(other.record.mount.clone()).next();
    let mount = mount.map(|place| format!(", mounted at {}", place.display())).unwrap_or_default();
    let which = other.record.device.as_ref().unwrap_or(&other.record.url);
    Err(attached_here(url, &format!("{device}{mount}"), &format!("millrace iscsi detach {which}")))
}

fn attached_here(url: &IscsiUrl, place: &str, detach: &str) -> anyhow::Error {
    let what = format!("write to {url}: the LUN is attached here{place}, and what is on it would be lost");
    refusal(what, format!("detach it first: {detach}"))
}

fn blocks(args: &Bench, bs: u64, device: &Device) -> anyhow::Result<u64> {
    let geometry = device.geometry();
    if args.load.rw.is_write() && geometry.read_only {
        return Err(refusal("write to this LUN: it is read-only", "millrace lun create makes one that is not"));
    }
    let (block, most) = (geometry.block_bytes, geometry.transfer_bytes_max);
    if !bs.is_multiple_of(u64::from(block)) || bs > u64::from(most) {
        let what = format!("measure with --bs {bs}: the LUN takes multiples of {block} bytes up to {most}");
        return Err(refusal(what, "PostgreSQL's block is --bs 8k"));
    }
    if let Some(size) = args.size.filter(|size| *size > geometry.bytes()) {
        let what = format!("measure {size} bytes of this LUN: it has {}", geometry.bytes());
        return Err(refusal(what, "choose a smaller --size"));
    }
    match args.size.unwrap_or(geometry.bytes()) / bs {
        0 => Err(refusal(format!("measure less than one block of {bs} bytes"), "choose a larger --size or a smaller --bs")),
        blocks => Ok(blocks),
    }
}

/// Reads one block while no other command is in flight.
fn read(device: &mut Device, offset: u64, bs: u64) -> anyhow::Result<Vec<u8>> {
    device.submit(0, Command::Read { offset, buffer: vec![0; bs as usize] });
    loop {
        device.turn(Some(WAIT), None)?;
        if let Some(completion) = device.completed() {
            completion.result?;
            let Command::Read { buffer, .. } = completion.command else { continue };
            return Ok(buffer);
        }
    }
}

/// Keeps `depth` commands in flight until the time is over, then waits for the last.
fn measure(
    args: &Bench,
    device: &mut Device,
    (bs, depth): (u64, u16),
    offsets: &mut Offsets,
    meter: &mut Meter,
) -> anyhow::Result<()> {
    let data = pattern(bs);
    let mut mix = args.load.mix();
    let mut make = |offset, mut buffer: Vec<u8>| {
        if mix.next_is_read() {
            return Command::Read { offset, buffer };
        }
        if args.load.rw.is_mixed() {
            // A read may have left zeros in the buffer.
            buffer.copy_from_slice(&data);
        }
        Command::Write { offset, data: buffer, fua: args.fua }
    };
    let begun = Instant::now();
    // The tag of a command is the time at which it was submitted.
    let mut now = begun;
    let stamp = |now: Instant| (now - begun).as_nanos() as u64;
    for _ in 0..depth {
        device.submit(stamp(now), make(offsets.next(), data.clone()));
    }
    while device.under_way() > 0 {
        device.turn(Some(WAIT), None)?;
        now = Instant::now();
        while let Some(completion) = device.completed() {
            completion.result?;
            let took = Duration::from_nanos(stamp(now) - completion.tag);
            let (buffer, is_read) = match completion.command {
                Command::Read { buffer, .. } => (buffer, true),
                Command::Write { data, .. } => (data, false),
                _ => continue,
            };
            meter.record(now, took, is_read);
            if !meter.is_over(now) {
                device.submit(stamp(now), make(offsets.next(), buffer));
            }
        }
    }
    Ok(())
}

fn paths(device: &Device) -> Vec<PathRecord> {
    let record = |path: initiator::PathReport| PathRecord {
        portal: path.portal,
        completed: path.completed,
        failures: path.failures,
        downs: path.downs,
        last_error: path.last_error,
    };
    device.paths().into_iter().map(record).collect()
}
