//! The tree of commands with their help pages.

use clap::{Command, CommandFactory};

use crate::Millrace;

const EXIT_CODES: &str = "Exit codes:";

/// The tree of commands. If a subcommand has no text after its options, its help page has the
/// examples of the parent command that show the subcommand, and the exit codes of the parent.
pub(crate) fn command() -> Command {
    let command = Millrace::command();
    let name = command.get_name().to_owned();
    with_examples(command, &name)
}

fn with_examples(command: Command, path: &str) -> Command {
    let text = text_of(&command);
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        let part = if below.get_after_help().is_none() { part_about(&text, &path) } else { None };
        let below = match part {
            Some(part) => below.after_help(part),
            None => below,
        };
        with_examples(below, &path)
    })
}

/// The text after the options.
pub(crate) fn text_of(command: &Command) -> String {
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}

/// The examples in a text that show a subcommand, and the exit codes in it. `None` if no example shows the subcommand.
fn part_about(text: &str, path: &str) -> Option<String> {
    let shows = |line: &&str| line.starts_with("  ") && format!("{line} ").contains(&format!("{path} "));
    let examples: Vec<&str> = text.lines().filter(shows).collect();
    let codes = text.find(EXIT_CODES).and_then(|at| text.get(at..)?.split("\n\n").next()).unwrap_or_default();
    (!examples.is_empty()).then(|| format!("Examples:\n{}\n\n{codes}", examples.join("\n")).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All visible commands below a command, each with its path and its text.
    fn visible(command: &Command, path: &str, found: &mut Vec<(String, String)>) {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let path = format!("{path} {}", below.get_name());
            found.push((path.clone(), text_of(below)));
            visible(below, &path, found);
        }
    }

    #[test]
    fn each_command_and_subcommand_has_examples_and_exit_codes() {
        let mut found = Vec::new();
        visible(&command(), "millrace", &mut found);
        // clap's own command, and what packages and Millrace itself run.
        found.retain(|(path, _)| !path.split(' ').any(|word| word == "help"));
        assert!(found.len() > 50, "{} commands", found.len());
        let is_complete = |text: &str, path: &str| {
            let shows = text.lines().any(|line| line.starts_with("  ") && format!("{line} ").contains(&format!("{path} ")));
            shows && text.contains(EXIT_CODES)
        };
        let lacking: Vec<&String> = found.iter().filter(|(path, text)| !is_complete(text, path)).map(|(path, _)| path).collect();
        assert!(lacking.is_empty(), "{lacking:?}");
    }

    #[test]
    fn a_subcommand_takes_its_own_examples_of_the_text_above() {
        let text = "Examples:\n  m a list  all\n  X=1 m a list\n  m a listen\n\nNotes.\n\nExit codes: 0 done;\n1 not.\n\nMore.";
        let part = part_about(text, "m a list").unwrap();
        assert_eq!(part, "Examples:\n  m a list  all\n  X=1 m a list\n\nExit codes: 0 done;\n1 not.");
        assert_eq!(part_about(text, "m a set"), None);
    }
}
