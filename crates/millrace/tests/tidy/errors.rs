//! Texts of errors, as `crates/millrace/src/error_printing.rs` expects them: the binary adds "cannot" to a message that begins with a
//! verb of its list. So a context must begin with such a verb, and a statement must not.

#[path = "../../src/error_printing/verbs.rs"]
mod verbs;

use crate::tree::{read, report, root, rust_files, shown};
use verbs::begins_with_a_verb;

/// Contexts that are statements of a cause, or that begin with a name.
const STATEMENTS: [&str; 4] = [
    "descriptor {fd} of --marks-fd is not open for writing",
    "the mounted path",
    "{path} is not the record of a run",
    "--model ",
];
/// Second words that make the first one the subject of a statement, as in `name too long`.
const PREDICATES: [&str; 16] = [
    "are",
    "cannot",
    "could",
    "denied",
    "did",
    "does",
    "exists",
    "failed",
    "had",
    "has",
    "is",
    "not",
    "protected",
    "too",
    "was",
    "were",
];

#[test]
fn a_context_begins_with_a_verb_that_the_printer_knows() {
    let binary = root().join("crates/millrace/src");
    let mut faults = Vec::new();
    let mut seen = 0;
    for file in rust_files().into_iter().filter(|file| file.starts_with(&binary)) {
        let text = read(&file);
        let text = text.split("\nmod tests {").next().unwrap_or_default();
        for context in literals_after(text, "context(") {
            seen += 1;
            if !begins_with_a_verb(&format!("{context} it")) && !STATEMENTS.iter().any(|known| context.starts_with(known)) {
                faults.push(format!("{}: {context:?}", shown(&file)));
            }
        }
    }
    assert!(seen > 100, "only {seen} contexts were found");
    report("contexts that do not begin with a verb of error_printing/verbs.rs", &faults);
}

#[test]
fn an_error_that_states_a_cause_does_not_begin_with_a_verb_of_the_printer() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for file in rust_files().into_iter().filter(|file| file.iter().any(|part| part == "src")) {
        let text = read(&file);
        for message in literals_after(&text, "#[error(") {
            seen += 1;
            let second = message.split(' ').nth(1).unwrap_or_default();
            if begins_with_a_verb(&message) && PREDICATES.contains(&second.trim_end_matches(':')) {
                faults.push(format!("{}: {message:?}", shown(&file)));
            }
        }
    }
    assert!(seen > 200, "only {seen} error messages were found");
    report("statements that the printer would take for an attempt", &faults);
}

/// The string literals that are the argument of `call`, also of a closure with `format!` in it.
fn literals_after(text: &str, call: &str) -> Vec<String> {
    let argument = |at: usize| {
        let (before, rest) = text.get(at + call.len()..)?.split_once('"')?;
        let bare: String = before.split_whitespace().collect();
        let bare = bare.strip_prefix('|').and_then(|rest| rest.split_once('|')).map_or(bare.as_str(), |(_, body)| body);
        ["", "format!(", "{format!("].contains(&bare).then(|| rest.split('"').next().unwrap_or_default().to_owned())
    };
    text.match_indices(call).filter_map(|(at, _)| argument(at)).collect()
}
