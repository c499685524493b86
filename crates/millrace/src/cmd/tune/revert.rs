//! `millrace tune revert`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use tune::change::{Reverted, Root, Steps, revert};

use super::Place;
use super::facts::holds_host;
use crate::error_printing::{print_error, refusal};

const HELP: &str = "\
Reverts the newest apply that is not yet reverted, also one that was killed half way. If one of
the files or values was changed since, it is named and nothing is done; --force restores the old
contents anyway and keeps the changed files beside the record. Services use the old settings again
once they are reloaded, remounted or restarted.
Examples:
  millrace tune revert
  millrace tune revert --all
  millrace tune revert --root /srv/chroot --state /tmp/state
Exit codes: 0 reverted, or nothing to revert; 1 something was left or refused; 2 could not
run.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Also revert files and values that were changed since
    #[arg(long)]
    force: bool,
    /// Revert every apply, newest first
    #[arg(long)]
    all: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let state = args.place.state();
    args.place.state.as_deref().map_or(Ok(()), is_directory)?;
    args.place.root.as_deref().map_or(Ok(()), holds_host)?;
    let root = args.place.root.as_ref().map(Root::new);
    let mut done: Vec<Reverted> = Vec::new();
    loop {
        match revert(&state, root.as_ref(), args.force, &mut Steps::new()) {
            Ok(reverted) if reverted.journal.is_none() => break,
            Ok(reverted) => done.push(reverted),
            Err(error) if error.is_refusal() => {
                print(&done, args.json)?;
                print_error(&anyhow::Error::new(error).context("revert"));
                return Ok(ExitCode::from(1));
            }
            Err(error) => return Err(anyhow::Error::new(error).context("revert all of it")),
        }
        if !args.all {
            break;
        }
    }
    if done.is_empty() && !args.json {
        println!("nothing to revert: {} has no apply that is not reverted yet", state.folder().display());
    }
    print(&done, args.json)?;
    Ok(ExitCode::from(u8::from(done.iter().any(|reverted| !reverted.left.is_empty()))))
}

/// Refuses a state directory that the user named and that does not exist: the command would report
/// that there is nothing to revert.
fn is_directory(state: &Path) -> anyhow::Result<()> {
    if state.is_dir() {
        return Ok(());
    }
    let why = if state.exists() { "it is not a directory" } else { "no such directory" };
    let what = format!("revert what is recorded in {}: {why}", state.display());
    Err(refusal(what, "use the --state of `tune apply`; without it, the directory is /var/lib/millrace/tune"))
}

fn print(done: &[Reverted], json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(done).context("write what was done")?);
        return Ok(());
    }
    for reverted in done {
        for (what, paths) in [
            ("reset", &reverted.reset),
            ("restored", &reverted.restored),
            ("removed", &reverted.removed),
            ("changed file kept in", &reverted.kept),
            ("LEFT", &reverted.left),
        ] {
            for path in paths {
                println!("{what} {path}");
            }
        }
        if let Some(journal) = &reverted.journal {
            println!("{} (record: {})", counted(reverted), journal.display());
        }
    }
    Ok(())
}

/// `5 changes reverted, 1 was as before already`.
fn counted(reverted: &Reverted) -> String {
    let count = reverted.reset.len() + reverted.restored.len() + reverted.removed.len();
    let changes = if count == 1 { "change" } else { "changes" };
    let already = match reverted.untouched {
        0 => String::new(),
        1 => ", 1 was as before already".to_owned(),
        several => format!(", {several} were as before already"),
    };
    format!("{count} {changes} reverted{already}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revert_counts_its_changes_and_names_what_was_as_before_only_if_there_is_any() {
        let paths = |count: usize| vec!["/etc/x".to_owned(); count];
        let one = Reverted { restored: paths(1), ..Reverted::default() };
        assert_eq!(counted(&one), "1 change reverted");
        let five = Reverted { restored: paths(2), removed: paths(1), reset: paths(2), untouched: 1, ..Reverted::default() };
        assert_eq!(counted(&five), "5 changes reverted, 1 was as before already");
    }
}
