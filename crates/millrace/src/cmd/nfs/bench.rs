//! `bench` of a file: one thread keeps calls in flight on one connection. In a mixed load each call
//! in flight has a thread and a connection of its own.

use super::counters::SlotReport;
use super::fill::filled;
use super::target::Target;
use crate::cmd::bench::{Load, Meter, Mix, Offsets, Rates, holds_zeros, lower_case, pattern, remarks};
use crate::cmd::values::bytes;
use crate::error_printing::{hinted, refusal};
use anyhow::Context;
use clap::ValueEnum;
use dnfs::{Attributes, Client, FileHandle, Stability, Work};
use serde::Serialize;
use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};
use std::time::Instant;

/// Size of a file that is created without --size.
const DEFAULT_BYTES: u64 = 256 << 20;
/// The largest number of calls in flight of a mixed load. Each has a thread and a connection.
const MIXED_DEPTH_MAX: u16 = 64;
/// A file with this suffix belongs to the benchmark, which may overwrite it.
const OWN_SUFFIX: &str = ".bench";

#[derive(clap::Args)]
pub(super) struct Bench {
    /// URL of the file; one named *.bench belongs to the benchmark and may be overwritten
    url: String,
    #[command(flatten)]
    load: Load,
    /// Part of the file that is used [default: all of it], or size of the file that is created [default: 256 MiB]
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,
    /// Stability of each write (RFC 1813 stable_how) [default: file]
    #[arg(long, value_enum)]
    stable: Option<Stable>,
    /// Create and fill the file if it does not exist
    #[arg(long)]
    create: bool,
    /// Overwrite a file that is not named *.bench: its data is lost
    #[arg(long)]
    overwrite: bool,
    /// Known from `iscsi bench`, and refused with what to do instead
    #[arg(long, hide = true)]
    fua: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stable {
    File,
    Data,
    Unstable,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    rates: Rates,
    stable: Option<String>,
    /// The blocks that were sampled before the run hold only zeros.
    no_data: bool,
    resends: u64,
    reconnects: u64,
    /// Set with `slots=` in the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<SlotReport>,
}

pub(super) fn run(args: &Bench) -> anyhow::Result<()> {
    args.load.check(&[("--stable", args.stable.is_some())])?;
    if args.load.bs.contains(&0) {
        return Err(refusal("measure with --bs 0: a call carries at least one byte", "PostgreSQL's block is --bs 8k"));
    }
    if args.load.rw.is_mixed() && args.load.depth.iter().any(|depth| *depth > MIXED_DEPTH_MAX) {
        let what =
            format!("measure a mixed load with more than {MIXED_DEPTH_MAX} calls in flight: each has a connection of its own");
        return Err(refusal(what, format!("choose --depth {MIXED_DEPTH_MAX} or less")));
    }
    if args.fua {
        let hint = "--stable file, the default, makes each write durable when it completes";
        return Err(refusal("measure with --fua: NFS has no such flag, iSCSI has", hint));
    }
    let target = Target::find(&args.url)?;
    refuse_to_overwrite(args, &target)?;
    let size = size(args, &target)?;
    // All sizes are checked before the file is made and the first is measured.
    for bs in &args.load.bs {
        check(args, &target, *bs, size)?;
    }
    let file = open(args, &target, size)?;
    for bs in &args.load.bs {
        for depth in &args.load.depth {
            let report = one(args, &target, &file, (*bs, *depth), size).with_context(|| format!("measure {}", target.url))?;
            print(args, &report)?;
        }
    }
    Ok(())
}

/// The bytes that are measured: all of the file, or as many as `--size` says.
fn size(args: &Bench, target: &Target) -> anyhow::Result<u64> {
    if target.object.is_none() && args.create {
        return Ok(args.size.unwrap_or(DEFAULT_BYTES));
    }
    let there = file_of(target)?.1.size;
    match args.size {
        Some(size) if size > there => Err(refusal(
            format!("measure {size} bytes of {}: it has {there}", target.url),
            "choose a smaller --size, or create a file with another name: --create",
        )),
        size => Ok(size.unwrap_or(there)),
    }
}

/// The file, which must exist.
fn file_of(target: &Target) -> anyhow::Result<(FileHandle, Attributes)> {
    let missing = format!("--create makes it, as large as --size says (default {} MiB)", DEFAULT_BYTES >> 20);
    let hint = if target.object.is_none() { missing } else { String::new() };
    target.file().map_err(|error| hinted(error, hint))
}

/// Refuses a block that is larger than the server's limit or than the file.
fn check(args: &Bench, target: &Target, bs: u64, size: u64) -> anyhow::Result<()> {
    let parts = target.client.parts();
    let limits = [(args.load.rw.is_read(), parts.rtmax), (args.load.rw.is_write(), parts.wtmax)];
    let io_max = limits.into_iter().filter(|(used, _)| *used).map(|(_, max)| max).min();
    let io_max = io_max.unwrap_or(parts.rtmax);
    if bs > u64::from(io_max) {
        let what = format!("measure with --bs {bs}: the server takes {io_max} bytes in one call");
        return Err(refusal(what, format!("choose --bs {io_max} or less")));
    }
    if size < bs {
        let what = format!("measure {size} bytes of {}: a block has {bs} bytes", target.url);
        return Err(refusal(what, "choose a larger --size, a smaller --bs, or another file (--create makes one)"));
    }
    Ok(())
}

/// Measures one block size with one depth.
fn one(args: &Bench, target: &Target, file: &FileHandle, (bs, depth): (u64, u16), size: u64) -> anyhow::Result<Report> {
    let (client, blocks) = (&target.client, size / bs);
    let parts = client.parts();
    let read = |offset| {
        let mut buffer = vec![0; bs.min(u64::from(parts.rtmax)) as usize];
        client.read(file, offset, &mut [IoSliceMut::new(&mut buffer)]).map(|_| buffer)
    };
    // One read warms connections and caches before the first measured call.
    read(0)?;
    let no_data = args.load.rw.is_read() && holds_zeros(blocks, bs, read)?;
    let (before, slots_before, begun) = (client.counters(), client.slots(), Instant::now());
    let mut meter = Meter::new(&args.load, bs, depth);
    let call = Calls { args, client, file, bs, blocks };
    match depth {
        1 => call.one_at_a_time(&mut Offsets::new(args.load.rw, blocks, bs), args.load.mix(), &mut meter)?,
        _ if args.load.rw.is_mixed() => call.of_threads(depth, &mut meter)?,
        _ => call.many_at_a_time(depth, &mut meter)?,
    }
    if args.load.rw.is_write() && args.stable == Some(Stable::Unstable) {
        client.commit(file).with_context(|| format!("commit {}", target.url))?;
    }
    let after = client.counters();
    Ok(Report {
        rates: meter.rates(blocks * bs),
        stable: args.load.rw.is_write().then(|| lower_case(&args.stable.unwrap_or(Stable::File))),
        no_data,
        resends: after.resends - before.resends,
        reconnects: after.reconnects - before.reconnects,
        slots: client.slots().map(|slots| {
            let slots = slots_before.map_or(slots, |before| slots.since(&before));
            SlotReport::new(&slots, begun.elapsed())
        }),
    })
}

fn print(args: &Bench, report: &Report) -> anyhow::Result<()> {
    if args.load.json {
        println!("{}", serde_json::to_string(report)?);
        return Ok(());
    }
    println!("{}", report.rates);
    for line in remarks("the file", report.no_data, report.rates.passes) {
        println!("{line}");
    }
    if let Some(slots) = &report.slots {
        println!("{slots}");
    }
    Ok(())
}

/// Without --overwrite, a benchmark that writes refuses a file that is not its own.
fn refuse_to_overwrite(args: &Bench, target: &Target) -> anyhow::Result<()> {
    let is_own = args.overwrite || target.url.export_path.ends_with(OWN_SUFFIX);
    if target.object.is_none() || !args.load.rw.is_write() || is_own {
        return Ok(());
    }
    file_of(target)?;
    Err(refusal(
        format!("write to {}: it holds data, which would be lost", target.url),
        format!("name a file *{OWN_SUFFIX} with --create, or use --overwrite to overwrite its data"),
    ))
}

/// Opens the file. With --create, makes it first, of this size.
fn open(args: &Bench, target: &Target, size: u64) -> anyhow::Result<FileHandle> {
    if target.object.is_some() || !args.create {
        return file_of(target).map(|(file, _)| file);
    }
    let Some((dir, name)) = &target.place else {
        return Err(refusal(format!("create {}: it names no file", target.url), "add a name: nfs://HOST/EXPORT/x.bench"));
    };
    filled(&target.client, &target.url, (dir, name), size)
}

/// The calls of one combination of block size and depth.
struct Calls<'a> {
    args: &'a Bench,
    client: &'a Client,
    file: &'a FileHandle,
    bs: u64,
    blocks: u64,
}

impl Calls<'_> {
    /// Makes one blocking call after another, as a program with one thread does.
    fn one_at_a_time(&self, offsets: &mut Offsets, mut mix: Mix, meter: &mut Meter) -> Result<(), dnfs::Error> {
        let data = pattern(self.bs);
        let mut buffer = data.clone();
        let mut now = Instant::now();
        while !meter.is_over(now) {
            let (offset, is_read) = (offsets.next(), mix.next_is_read());
            if is_read {
                self.client.read(self.file, offset, &mut [IoSliceMut::new(&mut buffer)])?;
            } else {
                self.client.write(self.file, offset, &[IoSlice::new(&data)], self.args.promise())?;
            }
            let answered = Instant::now();
            meter.record(answered, answered - now, is_read);
            now = answered;
        }
        Ok(())
    }

    /// Keeps calls of one kind in flight in one pipeline.
    fn many_at_a_time(&self, depth: u16, meter: &mut Meter) -> Result<(), dnfs::Error> {
        let is_read = !self.args.load.rw.is_write();
        let work = if is_read { Work::Read } else { Work::Write(self.args.promise()) };
        let mut pipeline = self.client.pipeline(self.file, work, self.bs as u32, usize::from(depth), &pattern(self.bs))?;
        let mut offsets = Offsets::new(self.args.load.rw, self.blocks, self.bs);
        // The clock is read only for every 16th call: some more calls at the end do no harm.
        let (mut made, now) = (0u32, Cell::new(Instant::now()));
        let over = Cell::new(false);
        let mut next = || {
            made = made.wrapping_add(1);
            if made.is_multiple_of(16) {
                now.set(Instant::now());
            }
            (!over.get()).then(|| offsets.next())
        };
        pipeline.run(&mut next, &mut |answer| {
            meter.record(now.get(), answer.latency, is_read);
            over.set(meter.is_over(now.get()));
        })
    }

    /// Reads and writes in threads, each with one call in flight.
    fn of_threads(&self, depth: u16, meter: &mut Meter) -> Result<(), dnfs::Error> {
        let one = |thread: u64| {
            let mut offsets = Offsets::of_thread(self.args.load.rw, self.blocks, self.bs, thread);
            let mut own = Meter::new(&self.args.load, self.bs, depth);
            own.stand_for(0);
            self.one_at_a_time(&mut offsets, self.args.load.mix(), &mut own).map(|()| own)
        };
        meter.stand_for(depth);
        let others = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..u64::from(depth)).map(|thread| scope.spawn(move || one(thread))).collect();
            let first =
                self.one_at_a_time(&mut Offsets::new(self.args.load.rw, self.blocks, self.bs), self.args.load.mix(), meter);
            let ended: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
            first.and_then(|()| ended.into_iter().collect::<Result<Vec<Meter>, _>>())
        })?;
        others.iter().for_each(|other| meter.add(other));
        Ok(())
    }
}

impl Bench {
    const fn promise(&self) -> Stability {
        match self.stable {
            None | Some(Stable::File) => Stability::FileSync,
            Some(Stable::Data) => Stability::DataSync,
            Some(Stable::Unstable) => Stability::Unstable,
        }
    }
}
