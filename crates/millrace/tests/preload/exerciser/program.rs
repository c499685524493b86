//! A program: one step of a numbered process per line, in the actor's format. The test prints and
//! replays a failing program in this format.

use std::fmt;

/// One step. The process number 9 is for steps on the filer or on all processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) process: u8,
    pub(crate) text: String,
}

/// The process number of the filer.
pub(crate) const FILER: u8 = 9;

impl Step {
    pub(crate) fn new(process: u8, text: impl Into<String>) -> Self {
        Self { process, text: text.into() }
    }

    /// The first word: what the step does.
    pub(crate) fn name(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// A word after the name, counted from 1.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.text.split(' ').nth(index).unwrap_or_default()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.process, self.text)
    }
}

/// Parses the output of [`print`]. Lines that begin with `#` are comments.
pub(crate) fn parse(text: &str) -> Vec<Step> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (process, text) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?} is no step"));
            Step::new(process.parse().unwrap_or_else(|_| panic!("{line:?} has no number of a process")), text)
        })
        .collect()
}

/// One step per line.
pub(crate) fn print(program: &[Step]) -> String {
    program.iter().map(|step| format!("{step}\n")).collect()
}
