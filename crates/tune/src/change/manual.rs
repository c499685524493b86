//! The steps that a group leaves to the user, since apply runs no command.

use std::fmt::Write as _;

use results::audit::Activation;
use serde::Serialize;

use super::commands::{Run, is_activating};
use super::plan::Group;
use super::planned::Change;
use super::target::Part;
use crate::describe;

/// A step that the user does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ManualStep {
    /// What to do, in words.
    pub text: String,
    /// The commands to run, if the step consists of commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
    /// The commands that revert it, if they are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<String>,
    /// The rules that need the step, each with its subject.
    pub rules: Vec<String>,
}

/// The steps that a group leaves to the user.
pub fn manual_steps(group: &Group) -> Vec<ManualStep> {
    steps_of(&group.changes, group.activation)
}

/// The steps of some changes, in order: what must be done before them, the changes that apply
/// cannot make, what puts written files in force, and what must be done after.
pub(super) fn steps_of(changes: &[Change], activation: Activation) -> Vec<ManualStep> {
    let mut steps = Vec::new();
    for (change, need) in changes.iter().flat_map(|change| change.needs.iter().map(move |need| (change, need))) {
        add(&mut steps, change, need, None);
    }
    for (change, part) in changes.iter().flat_map(|change| change.parts.iter().map(move |part| (change, part))) {
        match part {
            Part::File { .. } | Part::Running { .. } => {}
            Part::Run(run) => add(&mut steps, change, &format!("run, in {}", run.place), Some(run)),
            Part::ByHand { text } => add(&mut steps, change, text, None),
        }
    }
    if let Some(step) = describe::activating(activation) {
        changes.iter().filter(|change| change.is_ours()).for_each(|change| add(&mut steps, change, step, None));
    }
    for (change, step) in changes.iter().flat_map(|change| change.after.iter().map(move |step| (change, step))) {
        add(&mut steps, change, step, None);
    }
    steps
}

/// Adds a step of a change. Changes that need the same step share it.
fn add(steps: &mut Vec<ManualStep>, change: &Change, text: &str, run: Option<&Run>) {
    let at = steps.iter().position(|step| step.text == text).unwrap_or(steps.len());
    if at == steps.len() {
        steps.push(ManualStep { text: text.to_owned(), ..ManualStep::default() });
    }
    let Some(step) = steps.get_mut(at) else { return };
    if let Some(run) = run {
        extend(&mut step.lines, &run.lines);
        extend(&mut step.undo, &run.undo);
    }
    let rule = change.named();
    if !step.rules.contains(&rule) {
        step.rules.push(rule);
    }
}

/// Adds the lines of a change. A line that puts changes in force comes once, after all of them.
fn extend(lines: &mut Vec<String>, more: &[String]) {
    if lines.last().is_some_and(|last| is_activating(last) && more.last() == Some(last)) {
        lines.pop();
    }
    lines.extend_from_slice(more);
}

/// The steps as a numbered list, with their commands; empty if there are no steps.
pub fn render_steps(steps: &[ManualStep]) -> String {
    let mut out = String::new();
    for (at, step) in steps.iter().enumerate() {
        let colon = if step.lines.is_empty() { "" } else { ":" };
        let _ = writeln!(out, "  {}. {} ({}){colon}", at + 1, step.text, needed_by(&step.rules));
        for line in &step.lines {
            let _ = writeln!(out, "       {line}");
        }
        if !step.undo.is_empty() {
            out.push_str("     to revert it:\n");
        }
        for line in &step.undo {
            let _ = writeln!(out, "       {line}");
        }
    }
    out
}

/// The rules of a step. A subject that all of them share comes once: `a, b; mount /redo`.
fn needed_by(rules: &[String]) -> String {
    let parts: Option<Vec<(&str, &str)>> = rules.iter().map(|rule| rule.strip_suffix(')')?.split_once(" (")).collect();
    match parts.as_deref() {
        Some([(_, subject), ..]) if parts.iter().flatten().all(|(_, other)| other == subject) => {
            let names: Vec<&str> = parts.iter().flatten().map(|(rule, _)| *rule).collect();
            format!("{}; {subject}", names.join(", "))
        }
        _ => rules.join(", "),
    }
}
