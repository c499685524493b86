//! `millrace guest fetch`.

use std::path::PathBuf;
use std::process::ExitCode;

use lab::LabError;
use lab::guest::fetch::{Fetched, fetch};
use serde_json::json;

use super::CacheDirectory;
use crate::error_printing::print_error;

const EXAMPLES: &str = "\
Examples:
  millrace guest fetch
  millrace guest fetch --package linux-image-6.1.0-56-amd64_6.1.192-2_amd64.deb

Downloads the kernel that the package linux-image-amd64 depends on, about 70 MB, with `apt-get
download`, and unpacks it into the cache. Needs no root. If the cache has the newest kernel, nothing
is downloaded. It also tries once whether a guest starts with KVM here, and keeps the result.
Exit codes: 0 the kernel is in the cache; 2 it could not be fetched; 130 ended by SIGINT (Ctrl-C),
143 by SIGTERM, 129 by SIGHUP.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Fetch {
    #[command(flatten)]
    cache: CacheDirectory,
    /// Use the kernel in this Debian package file and fetch nothing; repeat it if image and modules are separate packages
    #[arg(long = "package", value_name = "FILE")]
    packages: Vec<PathBuf>,
    /// Print one JSON object on stdout at the end
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Fetch) -> anyhow::Result<ExitCode> {
    let cache = args.cache.open()?;
    let fetched = match fetch(&cache, &args.packages, &mut |step| eprintln!("{step}")) {
        Ok(fetched) => fetched,
        Err(error) => return failed(error),
    };
    let Fetched { kernel, was_there, kvm: (kvm, found) } = fetched;
    if args.json {
        let said = json!({"kernel": kernel, "was_there": was_there, "kvm": kvm, "kvm_found": found, "cache": cache.root()});
        println!("{said}");
    } else {
        let there = if was_there { "was there" } else { "is there" };
        println!("kernel {} {there}, in {}", kernel.version, cache.root().display());
        println!("KVM: {found}{}", if kvm { "" } else { "; guests are emulated (TCG)" });
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the error and returns its exit code.
pub(super) fn failed(error: LabError) -> anyhow::Result<ExitCode> {
    let code = error.exit_code();
    print_error(&error.into());
    Ok(ExitCode::from(code))
}
