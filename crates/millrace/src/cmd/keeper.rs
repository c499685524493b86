//! `millrace keeper`: the process that commits data and removes files for programs of a mount that
//! have ended. The preload library, `millrace mount` and `millrace nfs give-up` start it.

use anyhow::Context;
use dnfs::Credentials;
use dnfs::limits::DIRTY_EXPIRE_MS;
use dnfs::mount::{Keeper, KeeperProgram, MountSpec};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

/// Age in ms at which uncommitted writes of an open file are committed.
const EXPIRE: &str = "MILLRACE_DIRTY_EXPIRE_MS";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The mount it is for
    #[arg(long, value_name = "/PATH=nfs://HOST[:PORT]/EXPORT[/SUB][?OPTIONS]")]
    mount: OsString,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mount = args.mount.as_bytes();
    let spec = MountSpec::parse(mount)
        .with_context(|| format!("use --mount {}", dnfs::url::without_user(&args.mount.to_string_lossy())))?;
    let binary = std::env::current_exe().context("find this binary")?;
    let another = KeeperProgram::new(binary.as_os_str(), mount).context("prepare the keeper that replaces this one")?;
    let expire_ms = std::env::var(EXPIRE).ok().and_then(|text| text.parse().ok()).unwrap_or(DIRTY_EXPIRE_MS);
    let keeper = Keeper::enter(&spec, &Credentials::of_process(), Duration::from_millis(expire_ms))
        .with_context(|| format!("attach to the mount of {}", spec.url))?;
    if let Some(keeper) = keeper {
        keeper.run(&another);
    }
    Ok(ExitCode::SUCCESS)
}
