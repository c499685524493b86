//! `millrace report`: writes the page of a comparison again from its record, or the record as CSV,
//! Markdown or SVG.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;
use lab::report;

use super::output_file;

const EXAMPLES: &str = "\
Examples:
  millrace report millrace-results/2026-11-21T040000Z          writes report.html there again
  millrace report results.json --out /tmp/report.html          from a record alone, to another place
  millrace report DIR --csv -                                  every figure, one per line, on stdout
  millrace report DIR --markdown comparison.md                 for a ticket or a mail
  millrace report DIR --svg orders.svg                         orders per minute as a picture
Records of older versions (schema 1) are read; what they lack is left out.
Exit codes: 0 written; 2 the record can't be read or a file can't be written.";

/// Writes the report of a comparison again from its record.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of a comparison, or its results.json
    record: PathBuf,
    /// File of the HTML page [default: report.html beside the record]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write every figure as CSV, - for stdout
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write verdict, tables and conditions as Markdown, - for stdout
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the bars of orders per minute as an SVG picture, - for stdout
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `millrace report`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let on_stdout =
        [&args.csv, &args.markdown, &args.svg].into_iter().filter(|file| file.as_deref() == Some(Path::new("-"))).count();
    if on_stdout + usize::from(args.json) > 1 {
        bail!("write more than one of CSV, Markdown, SVG and JSON to stdout");
    }
    let begin = Instant::now();
    let comparison = lab::record::read(&args.record)?;
    let page = args.out.clone().unwrap_or_else(|| report::record_file(&args.record).with_file_name(report::PAGE));
    let html = report::html(&comparison)?;
    let mut written = Vec::new();
    // Without --out, an option for another format leaves the page as it is.
    if args.out.is_some() || (args.csv.is_none() && args.markdown.is_none() && args.svg.is_none()) {
        output_file::write(&page, "--out", &html)?;
        written.push(page);
    }
    let texts = [
        (&args.csv, "--csv", report::csv as fn(&_) -> String),
        (&args.markdown, "--markdown", report::markdown),
        (&args.svg, "--svg", report::svg),
    ];
    for (file, option, text) in texts {
        if let Some(file) = file {
            output_file::write_or_print(file, option, &text(&comparison))?;
            written.push(file.clone());
        }
    }
    let names: Vec<String> = written.iter().map(|file| file.display().to_string()).collect();
    if args.json {
        let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
        println!("{}", serde_json::json!({"written": names, "page_bytes": html.len(), "milliseconds": milliseconds}));
    } else {
        names.iter().filter(|name| *name != "-").for_each(|name| eprintln!("{name}"));
    }
    Ok(ExitCode::SUCCESS)
}
