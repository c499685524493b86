//! `millrace guest run`.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use lab::guest::run::{Accelerator, Outcome, Record, Request};
use lab::limits::{GUEST_CPUS_MAX, GUEST_NICS_MAX};

use super::CacheDirectory;
use super::fetch::failed;
use crate::cmd::values::{bytes, time, whole};
use crate::error_printing::{print_error, refusal};

/// The exit code of timeout(1) if the time limit was reached.
const TIMED_OUT: u8 = 124;
/// The exit code of container tools if the container could not be run.
const NO_GUEST: u8 = 125;
/// The exit code of every command if the reader closed its output.
const READER_GONE: u8 = 141;

const EXAMPLES: &str = "\
Examples:
  millrace guest run -- uname -r
  millrace guest run --share /srv/out -- sh -c 'lsmod >/srv/out/modules'
  millrace guest run --nics 2 --timeout 5m -- sh -c 'ip -br addr && ip route'
  millrace guest run --stdin -- sh <script.sh
  millrace guest run --json -- true

The command runs as root, in this directory, with this host's root read-only under a temporary
overlay; /run, /proc, /sys and /dev are the guest's own. `guest run` prints the command's output at
once. The host's loopback is 10.0.2.2, through further interfaces 10.0.3.2, 10.0.4.2, …: a filer
that listens on 127.0.0.1:2049 is 10.0.2.2:2049 there. Nothing is left at the end, also after
Ctrl-C, except the console of a guest that failed. QEMU ends with this process.

On an emulated processor only ratios and counts are meaningful (docs/guest.md).

Exit codes: that of the command, 126 and 127 as of a shell; 2 could not run (arguments, no QEMU, no
kernel: millrace guest status); 124 the time limit was reached; 125 the guest did not boot, or ended
by itself: the end of its console is shown; 130 ended by SIGINT (Ctrl-C), 143 by SIGTERM, 129 by
SIGHUP; 141 the reader of its output has ended.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "millrace guest run [OPTIONS] -- CMD [ARGUMENT]...")]
pub(super) struct Run {
    #[command(flatten)]
    cache: CacheDirectory,
    /// Time limit, boot included: 90s, 12m, 1h
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = time)]
    timeout: Duration,
    /// Processors of the guest, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole("processors", 1..=GUEST_CPUS_MAX, 2))]
    cpus: u32,
    /// Memory of the guest; it also holds what the guest writes outside shared directories
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = bytes)]
    memory: u64,
    /// Network interfaces, 0 to 8; each is a separate route to the host's loopback
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole("interfaces", 0..=GUEST_NICS_MAX, 2))]
    nics: u32,
    /// Let the guest write to this directory, at the same path; may be given up to 8 times
    #[arg(long = "share", value_name = "DIR")]
    shares: Vec<PathBuf>,
    /// Pass this command's standard input to the command
    #[arg(long)]
    stdin: bool,
    /// Run the guest with KVM or TCG (emulated) [default: KVM if a guest starts with it]
    #[arg(long, value_name = "kvm|tcg", value_parser = accelerator)]
    accel: Option<Accelerator>,
    /// Add an argument to the kernel's; may be given several times
    #[arg(long = "append", value_name = "ARGUMENT")]
    kernel_arguments: Vec<String>,
    /// Print one JSON object on stdout at the end: times, exit code, accelerator; the command's output
    /// goes to stderr
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD", required = true)]
    command: Vec<OsString>,
}

fn accelerator(text: &str) -> Result<Accelerator, String> {
    match text {
        "kvm" => Ok(Accelerator::Kvm),
        "tcg" => Ok(Accelerator::Tcg),
        _ => Err("give kvm or tcg".to_owned()),
    }
}

pub(super) fn run(args: &Run) -> anyhow::Result<ExitCode> {
    let cache = args.cache.open()?;
    let absolute = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let request = Request {
        command: args.command.clone(),
        directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        timeout: args.timeout,
        cpus: args.cpus,
        memory_bytes: args.memory,
        nics: args.nics,
        shares: args.shares.iter().map(absolute).collect(),
        disks: Vec::new(),
        input: args.stdin,
        accelerator: args.accel,
        kernel_arguments: args.kernel_arguments.clone(),
    };
    let out: Box<dyn Write + Send> = if args.json { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) };
    let record = match lab::guest::run::run(&cache, &request, [out, Box::new(std::io::stderr())]) {
        Ok(record) => record,
        Err(error) => return failed(error),
    };
    if args.json {
        println!("{}", serde_json::to_string(&record).context("write the record")?);
    }
    Ok(ExitCode::from(code(&record, args.timeout, "raise the limit with --timeout")))
}

/// The exit code of this process. Prints the cause if the guest did not finish. `too_long` is the
/// hint if the time limit was reached.
pub(crate) fn code(record: &Record, timeout: Duration, too_long: &str) -> u8 {
    let whole = record.console.as_ref().map(|path| format!("all of it is in {}", path.display())).unwrap_or_default();
    let fail = |code: u8, phrase: &str, hint: &str| {
        let hint = [hint, &whole].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
        print_error(&refusal(format!("{phrase}; its console ends with{}", ended_with(&record.console_end)), hint));
        code
    };
    match record.outcome {
        Outcome::Ended => record.exit_code.unwrap_or(NO_GUEST),
        Outcome::OutputClosed => READER_GONE,
        Outcome::TimedOut => {
            let phrase = format!("finish in the guest: the time limit of {} s was reached", timeout.as_secs());
            fail(TIMED_OUT, &phrase, too_long)
        }
        Outcome::BootFailed => fail(NO_GUEST, "boot the guest", "a busy host boots slowly; --accel tcg leaves KVM out"),
        Outcome::GuestEnded => fail(NO_GUEST, "finish in the guest: it ended by itself", ""),
    }
}

fn ended_with(console: &str) -> &str {
    if console.is_empty() { " nothing" } else { console }
}
