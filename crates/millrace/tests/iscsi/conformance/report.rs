//! The results in the output of `iscsi-test-cu`. Its own counts take a test that skipped everything
//! as passed, and its exit code hides failures.

use std::collections::BTreeSet;

/// The tests of a run, each as `Suite.Test`.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Ran to the end, and skipped nothing.
    pub(crate) passed: BTreeSet<String>,
    /// Ran, and skipped at least a part.
    pub(crate) skipped: BTreeSet<String>,
    pub(crate) failed: BTreeSet<String>,
}

impl Report {
    pub(crate) fn parse(output: &str) -> Self {
        let (mut report, mut suite, mut current) = (Self::default(), String::new(), None);
        for line in output.lines() {
            if let Some(name) = line.strip_prefix("Suite: ") {
                suite = name.trim().to_owned();
            }
            let mut rest = line;
            if let Some((name, behind)) = line.strip_prefix("  Test: ").and_then(|line| line.split_once(" ...")) {
                current = Some((format!("{suite}.{name}"), false));
                rest = behind;
            }
            let Some((name, has_skipped)) = &mut current else { continue };
            *has_skipped |= rest.contains("[SKIPPED]");
            // After the word, the line may have a message of the test's cleanup.
            let of = match (rest.split_whitespace().next(), &has_skipped) {
                (Some("FAILED"), _) => &mut report.failed,
                (Some("passed"), true) => &mut report.skipped,
                (Some("passed"), false) => &mut report.passed,
                _ => continue,
            };
            of.insert(std::mem::take(name));
            current = None;
        }
        report
    }

    pub(crate) fn count(&self) -> usize {
        self.passed.len() + self.skipped.len() + self.failed.len()
    }
}
