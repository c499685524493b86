//! `--group`: a mount that the members of a group share.

use anyhow::{Context, anyhow};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::runtime;
use crate::error_printing::hinted;

/// The variable that names the runtime directory to the library, the keepers and the programs.
pub(in crate::cmd) const VARIABLE: &str = dnfs::mount::RUNTIME_DIR_VARIABLE;

/// The group's runtime directory, made if missing.
pub(in crate::cmd) fn runtime_directory(group: &OsStr) -> anyhow::Result<OsString> {
    let gid = number(group).with_context(|| format!("use --group {}", group.display()))?;
    check_variable(group, &dnfs::mount::group_runtime_path(gid))?;
    match dnfs::mount::group_runtime_root(gid) {
        Ok(path) => Ok(path.into_os_string()),
        Err(error) => Err(runtime::explained(error).context(format!("use --group {}", group.display()))),
    }
}

/// Refuses another directory in the environment, which would not be used.
fn check_variable(group: &OsStr, directory: &Path) -> anyhow::Result<()> {
    let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()).map(PathBuf::from);
    let Some(named) = named.filter(|named| named != directory) else { return Ok(()) };
    let (group, directory) = (group.display(), directory.display());
    let what = format!("use --group {group}: {VARIABLE} names {}, and the group's mounts are in {directory}", named.display());
    let hint = format!(
        "unset {VARIABLE}; or leave out --group: members share a directory that is root's and has their group and mode 2770"
    );
    Err(hinted(anyhow!(what), hint))
}

fn number(group: &OsStr) -> anyhow::Result<u32> {
    if let Some(gid) = group.to_str().and_then(|text| text.parse().ok()) {
        return Ok(gid);
    }
    // `getent` asks every source of groups that this host has.
    let asked = Command::new("getent").args([OsStr::new("group"), group]).output().context("run getent")?;
    let mut fields = asked.stdout.split(|byte| *byte == b':');
    let gid = fields.nth(2).and_then(|field| OsStr::from_bytes(field).to_str()?.parse().ok());
    gid.ok_or_else(|| hinted(anyhow!("there is no such group"), "see `getent group`, or give its number"))
}
