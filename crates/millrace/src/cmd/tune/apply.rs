//! `millrace tune apply`.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use results::audit::Activation;
use serde_json::json;
use tune::change::{
    Applied, Choice, Group, Operator, Outcome, Plan, Steps, apply, manual_steps, render, render_files, render_steps,
};

use super::Place;
use super::facts::{Sources, checked_plan, known, must_exist, other_tree};
use crate::error_printing::{print_error, refusal};

const HELP: &str = "\
The command prints the plan, then asks about each group: y applies it, n or Enter leaves it out, q
leaves out this group and all after it. After Ctrl-C, an apply that has changed something counts as
interrupted, and must be reverted. Before each change, the old state is recorded in the state
directory and synced, so `millrace tune revert` also reverts an apply that was killed at any moment.
Nothing is restarted, mounted or run: the plan lists the steps that are left to you, and the command
lists them again at the end. The groups remount, nic-restart and reboot are refused while a process
uses one of their paths; the message names the process. Without a terminal --yes is needed.
Examples:
  millrace tune apply
  millrace tune apply --yes --rule linux-rpc-slots-enough
  millrace tune apply --root /srv/chroot --state /tmp/state --yes
Exit codes: 0 applied and in force, or nothing to do; 1 a group was declined or refused; 2 could not
run; 4 applied, and the listed steps are left to you (a restart, a remount, a command).";

/// Exit code of an apply that leaves steps to the user.
const STEPS_REMAIN: u8 = 4;

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
    show(args.json, &render(&plan));
    let mut ask = Ask { yes: args.yes, json: args.json, no_more: false, planned: &plan };
    let applied = match apply(&plan, &args.place.state(), &lab::clock::utc_now(), &mut ask, &mut Steps::new()) {
        Ok(applied) => applied,
        Err(error) if error.is_refusal() => {
            print_error(&anyhow::Error::new(error).context("apply"));
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(anyhow::Error::new(error).context("apply the plan")),
    };
    if args.json {
        let both = json!({ "plan": plan, "applied": applied });
        println!("{}", serde_json::to_string_pretty(&both).context("write what was done")?);
    } else {
        print_result(&applied, &plan);
    }
    Ok(ExitCode::from(match (applied.is_left(), applied.steps_remain) {
        (true, _) => 1,
        (false, 0) => 0,
        (false, _) => STEPS_REMAIN,
    }))
}

/// Prints text for people; with --json, stdout has the JSON alone.
fn show(json: bool, text: &str) {
    if json {
        eprint!("{text}");
    } else {
        print!("{text}");
    }
}

/// Asks about each group, and prints what is being done.
struct Ask<'a> {
    yes: bool,
    json: bool,
    no_more: bool,
    planned: &'a Plan,
}

impl Operator for Ask<'_> {
    fn confirm(&mut self, group: &Group) -> bool {
        if self.no_more {
            return false;
        }
        // The plan shows each file with the changes of all groups. The file of one group may differ
        // from that, which matters if the answers may differ.
        if !self.yes && group.files.iter().any(|file| !self.planned.files.contains(file)) {
            show(self.json, &format!("files of the group {}:\n{}", name(group.activation), render_files(&group.files)));
        }
        self.yes || self.asked(group)
    }

    fn progress(&mut self, made: usize, all: usize, what: &str) {
        eprintln!("  {}/{all} {what}", made + 1);
    }
}

impl Ask<'_> {
    /// Asks until an answer is one of those that the question names. The end of stdin answers q.
    fn asked(&mut self, group: &Group) -> bool {
        let steps = match manual_steps(group).len() {
            0 => String::new(),
            count => format!(", {} left to you", counted(count, "step")),
        };
        loop {
            eprint!(
                "Apply the group {} ({}{steps})? y = yes; n or Enter = no; q = no, also to all later groups: ",
                name(group.activation),
                counted(group.changes.len(), "change"),
            );
            // A question that cannot be shown can still be answered on the terminal.
            let _ = std::io::stdout().flush().and_then(|()| std::io::stderr().flush());
            let mut answer = String::new();
            let is_end = std::io::stdin().lock().read_line(&mut answer).map_or(true, |bytes| bytes == 0);
            match answer.trim().to_lowercase().as_str() {
                "y" | "yes" => return true,
                "q" | "quit" => self.no_more = true,
                _ if is_end => self.no_more = true,
                "n" | "no" | "" => {}
                _ => continue,
            }
            return false;
        }
    }
}

/// The name of a group: `db-restart`.
fn name(activation: Activation) -> String {
    tune::describe::stored_name(&activation)
}

/// `1 file`, `2 files`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn print_result(applied: &Applied, plan: &Plan) {
    for (ended, group) in applied.groups.iter().zip(&plan.groups) {
        let name = name(ended.activation);
        match &ended.outcome {
            Outcome::Done { files, running, .. } => {
                let (files, running) = (counted(*files, "file"), counted(*running, "running value"));
                let force = tune::describe::activation(ended.activation);
                println!("{name}: done: {files} written, {running} set; in force {force}");
            }
            Outcome::ByHand { remain } => println!("{name}: {} left to you", counted(*remain, "step")),
            Outcome::Nothing => println!("{name}: nothing to change"),
            Outcome::Declined => println!("{name}: declined, nothing changed"),
            Outcome::InUse { users, hidden } => {
                println!("{name}: REFUSED: {} in use; stop these first:", group.paths.join(", "));
                for user in users {
                    println!("  pid {} ({}): {} {}", user.pid, user.program, user.path, user.how);
                }
                if *hidden > 0 {
                    println!("  and {hidden} processes that this user may not inspect: run it as root");
                }
            }
        }
    }
    if let Some(journal) = &applied.journal {
        println!("recorded in {}; `millrace tune revert` reverts it", journal.display());
    }
    let left = applied.groups.iter().flat_map(|group| &group.steps).cloned().collect::<Vec<_>>();
    if !left.is_empty() {
        print!("NOT DONE YET: {} left to you:\n{}", counted(left.len(), "step"), render_steps(&left));
    }
}
