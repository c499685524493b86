//! `--guest`: runs the comparison in a guest, whose kernel has the storage clients.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::LabError;
use lab::guest::cache::Cache;
use lab::guest::compare::{Order, WORK, clients, compare, time_limit};
use lab::plan::Plan;

use super::Args;
use crate::cmd::guest::run::code;

/// Options that apply on this host, with the number of words that follow each.
const OF_THIS_HOST: [(&str, usize); 7] =
    [("--guest", 0), ("--guest-cache", 1), ("--install", 0), ("--yes", 0), ("--work", 1), ("--out", 1), ("--resume", 1)];

/// Runs the comparison that `args` and its plan ask for in a guest.
pub(super) fn run(args: &Args, program: &Path, out: &Path, plan: &Plan) -> Result<ExitCode, LabError> {
    let cache = Cache::at(args.guest_cache.clone())?;
    let out = std::path::absolute(out).map_err(LabError::file("find", out))?;
    let mut command = vec![OsString::from(program), "compare".into()];
    command.extend(words_inside(std::env::args_os().skip(2)));
    command.extend(["--work".into(), WORK.into()]);
    command.extend([if args.resume.is_some() { "--resume".into() } else { "--out".into() }, out.clone().into_os_string()]);
    let order = Order {
        command,
        out: (!args.dry_run).then_some(out),
        resume: args.resume.is_some(),
        disk_base: args.work.clone(),
        needed_bytes: plan.needed_bytes(),
        clients: clients(plan),
    };
    eprintln!("booting a guest for the comparison");
    let output: [Box<dyn Write + Send>; 2] = [Box::new(std::io::stdout()), Box::new(std::io::stderr())];
    let record = compare(&cache, &order, output)?;
    let too_long = "finished runs are kept: continue with --resume and the same plan and options";
    Ok(ExitCode::from(code(&record, time_limit(), too_long)))
}

/// The command line without the options that apply on this host.
fn words_inside(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut left_out) = (Vec::new(), 0);
    for word in words {
        if left_out > 0 {
            left_out -= 1;
            continue;
        }
        let text = word.to_string_lossy();
        let (name, has_value) = text.split_once('=').map_or((text.as_ref(), false), |(name, _)| (name, true));
        match OF_THIS_HOST.iter().find(|(option, _)| *option == name) {
            Some((_, values)) => left_out = if has_value { 0 } else { *values },
            None => kept.push(word),
        }
    }
    kept
}

/// Whether this process runs in a guest already.
pub(super) fn is_inside() -> bool {
    lab::guest::label().is_some()
}

/// Refuses a file below a directory of which the guest has its own, because the guest reads the file.
pub(super) fn check_visible(file: Option<&Path>) -> Result<(), LabError> {
    let hidden = ["/dev", "/proc", "/run", "/sys"];
    let Some(file) = file else { return Ok(()) };
    let whole: PathBuf = std::path::absolute(file).map_err(LabError::file("find", file))?;
    match hidden.into_iter().find(|directory| whole.starts_with(OsStr::new(directory))) {
        Some(directory) => Err(LabError::Plan {
            what: format!("read {} in a guest, which has a {directory} of its own", file.display()),
            hint: "put it somewhere else".to_owned(),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_on_this_host_is_left_out_and_all_else_is_handed_on_as_it_is() {
        let words =
            ["plan.toml", "--guest", "--out", "a", "--work=/srv", "--paths", "local,knfs", "--resume=b", "--install", "--yes"];
        let words = words.into_iter().chain(["--guest-cache", "c", "--json", "--path", "dnfs=nfs://h/v?slots=4"]);
        let inside = words_inside(words.map(OsString::from));
        assert_eq!(inside, ["plan.toml", "--paths", "local,knfs", "--json", "--path", "dnfs=nfs://h/v?slots=4"]);
    }

    #[test]
    fn a_plan_where_the_guest_has_a_file_system_of_its_own_is_refused() {
        assert!(check_visible(Some(Path::new("/srv/plan.toml"))).is_ok() && check_visible(None).is_ok());
        let error = check_visible(Some(Path::new("/dev/shm/plan.toml"))).unwrap_err();
        assert!(error.to_string().contains("/dev of its own"), "{error}");
    }
}
