//! `millrace tune apply`.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use tune::change::{
    Applied, Choice, Group, Operator, Outcome, Plan, Steps, apply, render, render_group, render_left, render_rest,
};

use super::Place;
use super::facts::{Sources, checked_plan, known, must_exist, other_tree};
use crate::error_printing::{print_error, refusal};

const HELP: &str = "\
Before each change, the old state is recorded in the state directory and synced, so `millrace tune
revert` also reverts an apply that was killed at any moment. Nothing is restarted, mounted or run:
the command prints what else a group needs. The groups remount, nic-restart and reboot are refused
while a process uses one of their paths; the message names the process. Without a terminal --yes is
needed.
Examples:
  millrace tune apply
  millrace tune apply --yes --rule linux-rpc-slots-enough
  millrace tune apply --root /srv/chroot --state /tmp/state --yes
Exit codes: 0 applied, or nothing to do; 1 something was left to you, declined or refused; 2 could
not run.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    place: Place,
    /// Apply only this rule, repeatable; also allows a rule whose sources disagree or that may lose data
    #[arg(long = "rule", value_name = "ID")]
    rules: Vec<String>,
    /// Apply each group without asking
    #[arg(long, short)]
    yes: bool,
    /// Print what was done as JSON; questions go to stderr
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if !args.yes && !std::io::stdin().is_terminal() {
        return Err(refusal(
            "ask which groups to apply: stdin is not a terminal",
            "--yes applies all that `millrace tune plan` shows",
        ));
    }
    let known = known(&args.sources, None, args.place.root.as_deref())?;
    must_exist(&known.rules, &args.rules)?;
    let root = args.place.tree();
    let plan = checked_plan(&known, &root, &Choice { rules: args.rules }, other_tree(&root));
    let mut ask = Ask { yes: args.yes, json: args.json, no_more: false };
    let applied = match apply(&plan, &args.place.state(), &lab::clock::utc_now(), &mut ask, &mut Steps::new()) {
        Ok(applied) => applied,
        Err(error) if error.is_refusal() => {
            print_error(&anyhow::Error::new(error).context("apply"));
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(anyhow::Error::new(error).context("apply all of it")),
    };
    if args.json {
        let both = json!({ "plan": plan, "applied": applied });
        println!("{}", serde_json::to_string_pretty(&both).context("write what was done")?);
    } else {
        say(&plan, &applied);
    }
    Ok(ExitCode::from(u8::from(applied.is_left())))
}

/// Asks for each group, and says what is being done.
struct Ask {
    yes: bool,
    json: bool,
    no_more: bool,
}

impl Operator for Ask {
    fn confirm(&mut self, group: &Group) -> bool {
        if self.no_more {
            return false;
        }
        let shown = render_group(group);
        if self.json {
            eprint!("{shown}")
        } else {
            print!("{shown}")
        }
        if self.yes {
            return true;
        }
        eprint!("Apply this group? [y]es, [n]o, [q]uit: ");
        // A question that cannot be shown is still answered on the terminal.
        let _ = std::io::stdout().flush().and_then(|()| std::io::stderr().flush());
        let mut answer = String::new();
        if std::io::stdin().lock().read_line(&mut answer).is_err() {
            return false;
        }
        let answer = answer.trim().to_lowercase();
        self.no_more = answer == "q" || answer == "quit";
        answer == "y" || answer == "yes"
    }

    fn progress(&mut self, made: usize, all: usize, what: &str) {
        eprintln!("  {}/{all} {what}", made + 1);
    }
}

/// `1 file`, `2 files`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn say(plan: &Plan, applied: &Applied) {
    for (group, ended) in plan.groups.iter().zip(&applied.groups) {
        let name = tune::describe::activation(group.activation);
        match &ended.outcome {
            Outcome::Done { files, running, .. } => {
                let (files, running) = (counted(*files, "file"), counted(*running, "running value"));
                println!("done: {files} written, {running} set; in force {name}");
                left(group);
            }
            Outcome::ByHand { .. } => {
                print!("{}", render_group(group));
                left(group);
            }
            Outcome::Nothing => println!("in force {name}: nothing to change"),
            Outcome::Declined => println!("in force {name}: declined"),
            Outcome::InUse { users, hidden } => {
                println!("REFUSED, in force {name}: {} in use; stop these first:", group.paths.join(", "));
                for user in users {
                    println!("  pid {} ({}): {} {}", user.pid, user.program, user.path, user.how);
                }
                if *hidden > 0 {
                    println!("  and {hidden} processes that this user may not inspect: run it as root");
                }
            }
        }
    }
    if applied.groups.is_empty() {
        print!("{}", render(plan));
    } else {
        print!("{}", render_rest(plan));
    }
    if let Some(journal) = &applied.journal {
        println!("recorded in {}; `millrace tune revert` reverts it", journal.display());
    }
}

/// Says what is left to the user, and why.
fn left(group: &Group) {
    let left = render_left(group);
    if !left.is_empty() {
        print!("left for you to do:\n{left}");
    }
}
