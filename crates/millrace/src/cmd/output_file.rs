//! Files that a command writes because an option names them.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;

use crate::closed_output::TO_STDOUT;
use crate::error_printing::hinted;

/// Writes a file; `option` names it: `--out`. If that fails, an earlier file stays as it was.
pub(crate) fn write(file: &Path, option: &str, text: &str) -> anyhow::Result<()> {
    replace(file, text).map_err(|error| unwritable(error, file, option))
}

/// Writes a file beside it and renames that. What is no regular file, such as /dev/stdout, is written directly.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let found = std::fs::metadata(&target);
    let mut part = target.clone().into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let made = match &found {
        Ok(found) if !found.is_file() => None,
        _ => std::fs::File::create_new(&part).ok(),
    };
    // A file that this user may write may be in a directory that it may not write.
    let Some(mut made) = made else { return std::fs::write(&target, text) };
    let kept = found.map_or(Ok(()), |found| made.set_permissions(found.permissions()));
    let written = kept.and_then(|()| made.write_all(text.as_bytes())).and_then(|()| std::fs::rename(&part, &target));
    written.inspect_err(|_| drop(std::fs::remove_file(&part)))
}

/// As [`write()`]; `-` is stdout.
pub(crate) fn write_or_print(file: &Path, option: &str, text: &str) -> anyhow::Result<()> {
    if file == Path::new("-") {
        return std::io::stdout().write_all(text.as_bytes()).context(TO_STDOUT);
    }
    write(file, option, text)
}

/// The error for a file that cannot be written.
fn unwritable(error: std::io::Error, file: &Path, option: &str) -> anyhow::Error {
    let hint = format!("name with {option} a file in a directory that is there and that this user may write");
    hinted(anyhow::Error::new(error).context(format!("write {}", file.display())), hint)
}
