//! Files that a command writes because an option names them.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use crate::error_printing::hinted;

/// Writes a file; `option` names it: `--out`.
pub(crate) fn write(file: &Path, option: &str, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).map_err(|error| unwritable(error, file, option))
}

/// As [`write`]; `-` is stdout.
pub(crate) fn write_or_print(file: &Path, option: &str, text: &str) -> anyhow::Result<()> {
    if file == Path::new("-") {
        return std::io::stdout().write_all(text.as_bytes()).context("write to stdout");
    }
    write(file, option, text)
}

/// The error for a file that cannot be written.
fn unwritable(error: std::io::Error, file: &Path, option: &str) -> anyhow::Error {
    let hint = format!("name with {option} a file in a directory that is there and that this user may write");
    hinted(anyhow::Error::new(error).context(format!("write {}", file.display())), hint)
}
