//! `bench`: one thread, one LUN, so many commands under way, over all portals of the URL.

use super::attached::{self, Attached};
use super::kernel_sessions;
use crate::cmd::bench::{Histogram, Offsets, Rates, Rw, bytes, pattern, seconds};
use crate::error_printing::refusal;
use anyhow::Context as _;
use initiator::attach::{BlockDevice, is_mount};
use initiator::{Command, Device, IscsiUrl};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The longest wait of a turn: the device looks after itself.
const WAIT: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(super) struct Bench {
    /// URL of the LUN, as `millrace lun list` shows it
    url: String,
    /// Access pattern
    #[arg(long, value_enum, default_value = "randread")]
    rw: Rw,
    /// Block size: bytes of a command, such as 8k or 1MiB
    #[arg(long, default_value = "8k", value_parser = bytes)]
    bs: u64,
    /// Commands under way, 1 to 1024, over all portals together
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: u16,
    /// Measured seconds
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Part of the LUN that is used [default: all of it]
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,
    /// Writes are durable when they complete, whatever cache the LUN has (FUA)
    #[arg(long)]
    fua: bool,
    /// Overwrite the LUN: what is on it is lost. Writing needs this
    #[arg(long)]
    overwrite: bool,
    /// Name of this initiator [default: that of the host]
    #[arg(long, value_name = "IQN")]
    initiator: Option<String>,
    /// Print one JSON object on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    rates: Rates,
    #[serde(skip_serializing_if = "Option::is_none")]
    fua: Option<bool>,
    write_cache: bool,
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
    if args.bs == 0 {
        return Err(refusal("measure with --bs 0: a command carries at least one block", "PostgreSQL's block is --bs 8k"));
    }
    let (url, mut options) = super::url_and_options(&args.url, args.initiator.as_deref())?;
    options.depth = usize::from(args.depth);
    if args.rw.is_write() && !args.overwrite {
        let what = format!("write to {url}: what is on the LUN would be lost");
        return Err(refusal(what, "say --overwrite to lose it, or measure a LUN made for it (millrace lun create)"));
    }
    if args.rw.is_write() {
        check_unused(&url, None)?;
    }
    let mut device = Device::open(&url, options).with_context(|| format!("use {url}"))?;
    if args.rw.is_write() {
        check_unused(&url, Some(&device.identity().to_string()))?;
    }
    let blocks = blocks(args, &device)?;
    let mut offsets = Offsets::new(args.rw, blocks, args.bs);
    let mut times = Histogram::new();
    let cpu = dnfs::cpu_time();
    let begun = Instant::now();
    let measured = measure(args, &mut device, &mut offsets, &mut times);
    let elapsed = begun.elapsed().as_secs_f64();
    let cpu = (dnfs::cpu_time() - cpu).as_secs_f64();
    measured.with_context(|| format!("measure {url}"))?;
    let report = Report {
        rates: Rates::new(args.rw, args.bs, args.depth, &times, elapsed, cpu),
        fua: args.rw.is_write().then_some(args.fua),
        write_cache: device.geometry().write_cache,
        paths: paths(&device),
    };
    device.close();
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    println!("{}", report.rates);
    if args.rw.is_write() && report.write_cache && !args.fua {
        println!("the LUN has a write cache: these writes are durable behind a flush only (--fua)");
    }
    for path in report.paths.iter().filter(|_| url.portals.len() > 1) {
        let trouble = super::trouble(path.downs, path.failures, path.last_error.as_deref());
        println!("{}: {} commands{}", path.portal, path.completed, trouble.map(|what| format!(", {what}")).unwrap_or_default());
    }
    Ok(())
}

/// Refuses to write to a LUN that is a block device of this host, whatever URL it was attached by: `lun` is who it says it is.
fn check_unused(url: &IscsiUrl, lun: Option<&str>) -> anyhow::Result<()> {
    let Some(all) = attached::all_visible()? else {
        // Its directory is that of its URL, and a disk of the kernel that of its target and number; more is not seen.
        let is_attached = is_mount(&attached::fuse_of(&url.to_string())) || kernel_sessions::disk_of(url).is_some();
        return if is_attached { Err(attached_here(url, "", "millrace iscsi detach --all")) } else { Ok(()) };
    };
    let is_it = |other: &Attached| other.record.url == url.to_string() || lun.is_some_and(|lun| other.record.lun == lun);
    let Some(other) = all.iter().find(|other| is_it(other)) else { return Ok(()) };
    let device = other.record.device.as_ref().map(|device| format!(" as {device}")).unwrap_or_default();
    let devices = other.devices()?;
    let mount = devices.iter().flat_map(BlockDevice::mounts).map(|mount| mount.directory).chain(other.record.mount.clone()).next();
    let mount = mount.map(|place| format!(", mounted at {}", place.display())).unwrap_or_default();
    let which = other.record.device.as_ref().unwrap_or(&other.record.url);
    Err(attached_here(url, &format!("{device}{mount}"), &format!("millrace iscsi detach {which}")))
}

fn attached_here(url: &IscsiUrl, place: &str, detach: &str) -> anyhow::Error {
    let what = format!("write to {url}: the LUN is attached here{place}, and what is on it would be lost");
    refusal(what, format!("detach it first: {detach}"))
}

fn blocks(args: &Bench, device: &Device) -> anyhow::Result<u64> {
    let geometry = device.geometry();
    if args.rw.is_write() && geometry.read_only {
        return Err(refusal("write to this LUN: it is read-only", "millrace lun create makes one that is not"));
    }
    let (block, most) = (geometry.block_bytes, geometry.transfer_bytes_max);
    if !args.bs.is_multiple_of(u64::from(block)) || args.bs > u64::from(most) {
        let what = format!("measure with --bs {}: the LUN takes multiples of {block} bytes up to {most}", args.bs);
        return Err(refusal(what, "PostgreSQL's block is --bs 8k"));
    }
    match args.size.unwrap_or(u64::MAX).min(geometry.bytes()) / args.bs {
        0 => Err(refusal(format!("measure less than one block of {} bytes", args.bs), "choose a larger --size or a smaller --bs")),
        blocks => Ok(blocks),
    }
}

/// Keeps so many commands under way until the time is over, then waits for the last.
fn measure(args: &Bench, device: &mut Device, offsets: &mut Offsets, times: &mut Histogram) -> anyhow::Result<()> {
    let data = pattern(args.bs);
    let make = |offset, buffer| match args.rw {
        Rw::Randread | Rw::Read => Command::Read { offset, buffer },
        Rw::Randwrite | Rw::Write => Command::Write { offset, data: buffer, fua: args.fua },
    };
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(args.seconds);
    // A command's tag is when it was submitted.
    let mut now = begun;
    let stamp = |now: Instant| (now - begun).as_nanos() as u64;
    for _ in 0..args.depth {
        device.submit(stamp(now), make(offsets.next(), data.clone()));
    }
    while device.under_way() > 0 {
        device.turn(Some(WAIT), None)?;
        now = Instant::now();
        while let Some(completion) = device.completed() {
            completion.result?;
            times.record(stamp(now) - completion.tag);
            let (Command::Read { buffer, .. } | Command::Write { data: buffer, .. }) = completion.command else { continue };
            if now < end {
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
