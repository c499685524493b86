//! `bench`: one thread, one file, so many calls in flight.

use super::Progress;
use super::counters::SlotReport;
use super::copy::{Writer, create};
use super::target::Target;
use crate::cmd::bench::{Histogram, Offsets, Rates, Rw, bytes, lower_case, pattern, seconds};
use crate::error_printing::refusal;
use anyhow::Context;
use clap::ValueEnum;
use dnfs::{Client, FileHandle, Stability, Work};
use serde::Serialize;
use std::io::{IoSlice, IoSliceMut};
use std::time::{Duration, Instant};

/// Size of a file that is created when no size is given.
const DEFAULT_BYTES: u64 = 256 << 20;
/// Names ending so are the bench's own: it may write to them again.
const OWN_SUFFIX: &str = ".bench";

#[derive(clap::Args)]
pub(super) struct Bench {
    /// URL of the file; one named *.bench belongs to the benchmark and may be overwritten
    url: String,
    /// Access pattern
    #[arg(long, value_enum, default_value = "randread")]
    rw: Rw,
    /// Block size: bytes of a call, such as 8k or 1MiB
    #[arg(long, default_value = "8k", value_parser = bytes)]
    bs: u64,
    /// Calls in flight on one connection, 1 to 1024
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: u16,
    /// Measured seconds
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Part of the file that is used, or size of the file that is created
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,
    /// Stability of each write (RFC 1813 stable_how)
    #[arg(long, value_enum, default_value = "file")]
    stable: Stable,
    /// Create and fill the file if it does not exist
    #[arg(long)]
    create: bool,
    /// Overwrite a file that is not named *.bench: its data is lost
    #[arg(long)]
    overwrite: bool,
    /// Print one JSON object on stdout
    #[arg(long)]
    json: bool,
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
    resends: u64,
    reconnects: u64,
    /// With `slots=` in the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<SlotReport>,
}

pub(super) fn run(args: &Bench) -> anyhow::Result<()> {
    if args.bs == 0 {
        return Err(refusal("measure with --bs 0: a call carries at least one byte", "PostgreSQL's block is --bs 8k"));
    }
    let target = Target::find(&args.url)?;
    let (file, size) = open(args, &target)?;
    let client = &target.client;
    let parts = client.parts();
    let writes = args.rw.is_write();
    let io_max = if writes { parts.wtmax } else { parts.rtmax };
    if args.bs > u64::from(io_max) {
        let what = format!("measure with --bs {}: the server takes {io_max} bytes in one call", args.bs);
        return Err(refusal(what, format!("choose --bs {io_max} or less")));
    }
    let size = args.size.unwrap_or(size).min(size);
    let blocks = size / args.bs;
    if blocks == 0 {
        let what = format!("measure {}: its {size} bytes are less than a block of {}", target.url, args.bs);
        return Err(refusal(what, "name a larger file, or have one made: --create --size 1GiB and a name that is not there yet"));
    }
    let mut offsets = Offsets::new(args.rw, blocks, args.bs);
    // Connections and caches are warm before the first measured call.
    client.read(&file, 0, &mut [IoSliceMut::new(&mut vec![0; args.bs.min(u64::from(parts.rtmax)) as usize])])?;
    let (before, slots_before) = (client.counters(), client.slots());
    let mut times = Histogram::new();
    let cpu = dnfs::cpu_time();
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(args.seconds);
    let measured = if args.depth == 1 {
        one_at_a_time(args, client, &file, end, &mut offsets, &mut times)
    } else {
        many_at_a_time(args, client, &file, end, &mut offsets, &mut times)
    };
    measured.with_context(|| format!("measure {}", target.url))?;
    if writes && args.stable == Stable::Unstable {
        client.commit(&file).with_context(|| format!("commit {}", target.url))?;
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let cpu = (dnfs::cpu_time() - cpu).as_secs_f64();
    let after = client.counters();
    let report = Report {
        rates: Rates::new(args.rw, args.bs, args.depth, &times, elapsed, cpu),
        stable: writes.then(|| lower_case(&args.stable)),
        resends: after.resends - before.resends,
        reconnects: after.reconnects - before.reconnects,
        slots: client.slots().map(|slots| {
            let slots = slots_before.map_or(slots, |before| slots.since(&before));
            SlotReport::new(&slots, Duration::from_secs_f64(elapsed))
        }),
    };
    print(args, &report)
}

fn print(args: &Bench, report: &Report) -> anyhow::Result<()> {
    if args.json {
        println!("{}", serde_json::to_string(report)?);
        return Ok(());
    }
    println!("{}", report.rates);
    if let Some(slots) = &report.slots {
        println!("{slots}");
    }
    Ok(())
}

/// The file and its size, made first with --create. Data that is not ours is never written over without --overwrite.
fn open(args: &Bench, target: &Target) -> anyhow::Result<(FileHandle, u64)> {
    let writes = args.rw.is_write();
    if target.object.is_some() || !args.create {
        let (file, attributes) = target.file()?;
        if writes && !args.overwrite && !target.url.export_path.ends_with(OWN_SUFFIX) {
            return Err(refusal(
                format!("write to {}: it holds data, which would be lost", target.url),
                format!("name a file *{OWN_SUFFIX} with --create, or say --overwrite to lose the data"),
            ));
        }
        return Ok((file, attributes.size));
    }
    let Some((dir, name)) = &target.place else { 
        return Err(refusal(format!("create {}: it names no file", target.url), "add a name: nfs://HOST/EXPORT/x.bench"));
    };
    let size = args.size.unwrap_or(DEFAULT_BYTES);
    let filled = (|| {
        let file = create(&target.client, dir, name, Some(0o644))?;
        let mut writer = Writer::new(&target.client, &file);
        let mut progress = Progress::new();
        // Not zeros: neither server nor wire may find a short cut.
        let chunk: Vec<u8> = (0..4u32 << 20).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        while writer.offset < size {
            let bytes = (size - writer.offset).min(chunk.len() as u64) as usize;
            writer.write(chunk.get(..bytes).unwrap_or_default())?;
            progress.show(|| format!("filling: {} of {} MiB", writer.offset >> 20, size >> 20));
        }
        writer.commit()?;
        anyhow::Ok(file)
    })();
    if filled.is_err() {
        let _ = target.client.remove(dir, name);
    }
    Ok((filled.with_context(|| format!("create {}", target.url))?, size))
}

/// As a program with one thread and blocking calls sees it.
fn one_at_a_time(
    args: &Bench,
    client: &Client,
    file: &FileHandle,
    end: Instant,
    offsets: &mut Offsets,
    times: &mut Histogram,
) -> Result<(), dnfs::Error> {
    let mut buffer = pattern(args.bs);
    let mut now = Instant::now();
    while now < end {
        let offset = offsets.next();
        if matches!(args.rw, Rw::Randread | Rw::Read) {
            client.read(file, offset, &mut [IoSliceMut::new(&mut buffer)])?;
        } else {
            client.write(file, offset, &[IoSlice::new(&buffer)], args.promise())?;
        }
        let answered = Instant::now();
        times.record((answered - now).as_nanos() as u64);
        now = answered;
    }
    Ok(())
}

fn many_at_a_time(
    args: &Bench,
    client: &Client,
    file: &FileHandle,
    end: Instant,
    offsets: &mut Offsets,
    times: &mut Histogram,
) -> Result<(), dnfs::Error> {
    let work = if matches!(args.rw, Rw::Randread | Rw::Read) { Work::Read } else { Work::Write(args.promise()) };
    let mut pipeline = client.pipeline(file, work, args.bs as u32, usize::from(args.depth), &pattern(args.bs))?;
    let mut made = 0u32;
    let mut over = false;
    let mut next = || {
        // The clock is read for some calls only: a call more at the end does no harm.
        made = made.wrapping_add(1);
        over |= made.is_multiple_of(16) && Instant::now() >= end;
        (!over).then(|| offsets.next())
    };
    pipeline.run(&mut next, &mut |answer| times.record(answer.latency.as_nanos() as u64))
}

impl Bench {
    const fn promise(&self) -> Stability {
        match self.stable {
            Stable::File => Stability::FileSync,
            Stable::Data => Stability::DataSync,
            Stable::Unstable => Stability::Unstable,
        }
    }
}
