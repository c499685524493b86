//! `millrace shapes`: shows which findings of five vendor reports appear in records of comparisons.

use std::fs;
use std::io::{BufRead, BufReader, IoSlice};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};
use dnfs::file::CreateMode;
use dnfs::{Client, Credentials, NfsUrl, SetAttributes, Stability};
use lab::shapes::{GenerationCalls, look, markdown, table};

const EXAMPLES: &str = "\
Examples:
  millrace shapes results/plans/*                    each finding beside the reports' figures
  millrace shapes --markdown results/plans/* > t.md  the table of docs/reports.md
A record is a directory that millrace compare wrote, or its results.json. A finding that
no record shows is not an error. Finding SC11 (calls of a write of 64 KiB) is not read from a
record: its calls are counted now, on a filer that this command starts.
Exit codes: 0 printed; 2 could not read a record.";

/// Checks which findings of five published storage reports (SC1 to SC13, docs/reports.md) the records of your comparisons show.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directories or results.json files of millrace compare
    records: Vec<PathBuf>,
    /// Print a table in Markdown
    #[arg(long)]
    markdown: bool,
    /// Print one JSON array
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Skip finding SC11, for which a filer is started to count calls
    #[arg(long)]
    no_count: bool,
}

/// Runs `millrace shapes`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let read = |path: &PathBuf| lab::record::read(path).context("look for the findings");
    let mut comparisons = args.records.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    comparisons.sort_by(|one, other| one.started_utc.cmp(&other.started_utc));
    let calls = if args.no_count { None } else { Some(count_calls().context("count the calls of SC11")?) };
    let shapes = look(&comparisons, calls);
    if args.json {
        let all: Vec<_> = shapes
            .iter()
            .map(|shape| {
                serde_json::json!({"id": shape.id, "expectation": shape.expectation, "theirs": shape.theirs,
                    "outcome": shape.outcome.to_string(), "ours": shape.ours, "source": shape.source})
            })
            .collect();
        println!("{}", serde_json::to_string(&all)?);
    } else if args.markdown {
        print!("{}", markdown(&shapes));
    } else {
        print!("{}", table(&shapes));
    }
    Ok(ExitCode::SUCCESS)
}

/// Counts the calls of one write of 64 KiB with the limits of each client generation, on a filer
/// that this command starts.
fn count_calls() -> anyhow::Result<GenerationCalls> {
    let place = std::env::temp_dir().join(format!("millrace-shapes-{}", std::process::id()));
    fs::create_dir_all(place.join("export")).with_context(|| format!("make directory {}", place.display()))?;
    let counted = Filer::start(&place).and_then(|filer| {
        let mut calls = GenerationCalls::default();
        for (count, options) in calls.iter_mut().zip(["split=8k", "rsize=32k&wsize=32k", "wsize=1MiB"]) {
            *count = calls_of_one_write(&filer.url, options)?;
        }
        Ok(calls)
    });
    let removed = fs::remove_dir_all(&place).with_context(|| format!("remove directory {}", place.display()));
    let calls = counted?;
    removed.map(|()| calls)
}

fn calls_of_one_write(url: &str, options: &str) -> anyhow::Result<u64> {
    let joint = if url.contains('?') { '&' } else { '?' };
    let url: NfsUrl = format!("{url}{joint}{options}").parse()?;
    let client = Client::mount(&url, &Credentials::of_process())?;
    let made = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    let root = client.parts().root;
    let (file, _) = client.create(&root, b"redo", CreateMode::Unchecked(made))?;
    let file = match file {
        Some(file) => file,
        None => client.lookup(&root, b"redo")?.0,
    };
    let before = client.counters().write_calls;
    let done = client.write(&file, 0, &[IoSlice::new(&[7; 65_536])], Stability::FileSync)?;
    if done.bytes != 65_536 {
        bail!("{} of 65536 bytes were written", done.bytes);
    }
    Ok(client.counters().write_calls - before)
}

/// A filer of this program, killed when dropped.
struct Filer {
    child: Child,
    url: String,
}

impl Filer {
    fn start(place: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("find this program's own file")?);
        command.arg("serve").arg(place.join("export")).args(["--listen", "127.0.0.1:0", "--json", "--no-root-squash"]);
        command.arg("--state").arg(place.join("state")).arg("--admin").arg(place.join("admin"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("start a filer")?;
        let mut filer = Self { child, url: String::new() };
        let mut line = String::new();
        let output = filer.child.stdout.take().context("read the output of the filer")?;
        BufReader::new(output).read_line(&mut line).context("wait for the filer")?;
        let ready: serde_json::Value = serde_json::from_str(&line).context("read the address of the filer")?;
        ready["nfs"].as_str().context("read the address of the filer")?.clone_into(&mut filer.url);
        Ok(filer)
    }
}

impl Drop for Filer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
