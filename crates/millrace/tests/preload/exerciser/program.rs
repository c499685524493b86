//! A program: steps of numbered processes, one a line, as the actor understands them; that text is also how a failing program is
//! printed and replayed.

use std::fmt;

/// One step. `9` is no process: the filer, and the driver itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) process: u8,
    pub(crate) text: String,
}

/// The number that stands for the filer.
pub(crate) const FILER: u8 = 9;

impl Step {
    pub(crate) fn new(process: u8, text: impl Into<String>) -> Self {
        Self { process, text: text.into() }
    }

    /// What it does, by its first word.
    pub(crate) fn name(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// A word behind the name, counted from 1.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.text.split(' ').nth(index).unwrap_or_default()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.process, self.text)
    }
}

/// Reads what [`print`] wrote; lines that begin with `#` are comments.
pub(crate) fn parse(text: &str) -> Vec<Step> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (process, text) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?} is no step"));
            Step::new(process.parse().unwrap_or_else(|_| panic!("{line:?} has no number of a process")), text)
        })
        .collect()
}

/// One step a line.
pub(crate) fn print(program: &[Step]) -> String {
    program.iter().map(|step| format!("{step}\n")).collect()
}
