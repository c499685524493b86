//! The guest's initial root: busybox, the modules, and scripts. Created for each boot, so that it is never older than this program.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::guest::cache::{Cache, Kernel};
use crate::guest::cpio::Archive;
use crate::guest::machine::Accelerator;
use crate::guest::modules::{self, NEEDED};
use crate::guest::programs;

const INIT: &[u8] = include_bytes!("init.sh");
const PID1: &[u8] = include_bytes!("pid1.sh");

/// Task of a guest.
pub(crate) struct Task<'a> {
    /// The mark at the end of its output; for a probe, a line with it on the console shows that the guest has started.
    pub(crate) mark: &'a str,
    /// Whether to end after loading the modules.
    pub(crate) probe: bool,
    /// The accelerator, which is passed to the command.
    pub(crate) accelerator: Accelerator,
    /// Whether the command reads the standard input of this process.
    pub(crate) input: bool,
    pub(crate) nics: u32,
    /// Directories of this host, each at the same path in the guest, and writable there.
    pub(crate) shares: &'a [PathBuf],
    /// Program and arguments.
    pub(crate) command: &'a [std::ffi::OsString],
    /// Its working directory.
    pub(crate) directory: &'a Path,
    /// Directories that are searched first for programs.
    pub(crate) path: &'a OsStr,
}

/// Builds the archive for this kernel and task.
///
/// # Errors
/// A module or busybox is missing or cannot be read.
pub(crate) fn build(cache: &Cache, kernel: &Kernel, task: &Task) -> Result<Vec<u8>, LabError> {
    let read = |path: &Path| fs::read(path).map_err(LabError::file("read", path));
    let mut archive = Archive::new();
    for directory in ["bin", "dev", "proc", "sys", "modules", "millrace", "host", "upper", "new"] {
        archive.directory(directory);
    }
    archive.file("bin/busybox", 0o755, &read(&programs::static_busybox()?)?);
    archive.file("init", 0o755, INIT);
    let mut order = Vec::new();
    for file in modules::in_load_order(&cache.modules(kernel), &NEEDED)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        archive.file(&format!("modules/{name}"), 0o644, &read(&file)?);
        order.push(name);
    }
    archive.file("modules/order", 0o644, (order.join("\n") + "\n").as_bytes());
    archive.file("millrace/pid1", 0o644, PID1);
    archive.file("millrace/settings", 0o644, &settings(task, &cache.module_root(kernel)));
    archive.file("millrace/shares", 0o644, &shares(task.shares));
    archive.file("millrace/command", 0o644, &script(task));
    Ok(archive.finish())
}

/// Variables of both scripts.
fn settings(task: &Task, modules: &Path) -> Vec<u8> {
    let word = |yes: bool| if yes { "yes" } else { "no" };
    let (probe, input, accelerator) = (word(task.probe), word(task.input), task.accelerator.name());
    let numbers = format!("PROBE={probe}\nINPUT={input}\nNICS={}\nACCELERATOR={accelerator}\n", task.nics);
    let mut text = format!("MARK={}\n{numbers}MODULES=", task.mark).into_bytes();
    text.extend(quoted(modules.as_os_str()));
    text.push(b'\n');
    text
}

/// A line for each directory: its tag in QEMU, and its path.
fn shares(shares: &[PathBuf]) -> Vec<u8> {
    let mut text = Vec::new();
    for (number, path) in shares.iter().enumerate() {
        text.extend_from_slice(format!("share{number} ").as_bytes());
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(b'\n');
    }
    text
}

/// A shell script that executes the command.
fn script(task: &Task) -> Vec<u8> {
    let mut text = b"PATH=".to_vec();
    text.extend(quoted(task.path));
    text.extend_from_slice(b":$PATH\ncd ");
    text.extend(quoted(task.directory.as_os_str()));
    text.extend_from_slice(b" 2>/dev/null || cd /\nexec");
    for word in task.command {
        text.push(b' ');
        text.extend(quoted(word));
    }
    text.push(b'\n');
    text
}

/// Quotes a text as one word of a shell.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut text = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            other => text.push(*other),
        }
    }
    text.push(b'\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_whatever_is_in_it() {
        assert_eq!(quoted(OsStr::new("it's $HOME\n")), b"'it'\\''s $HOME\n'");
        let command = ["echo".into(), "a b".into()];
        let (directory, path) = (Path::new("/srv"), OsStr::new("/opt/bin"));
        let accelerator = Accelerator::Tcg;
        let task =
            Task { mark: "m", probe: false, accelerator, input: false, nics: 1, shares: &[], command: &command, directory, path };
        assert_eq!(script(&task), b"PATH='/opt/bin':$PATH\ncd '/srv' 2>/dev/null || cd /\nexec 'echo' 'a b'\n");
        let text = settings(&task, Path::new("/a b"));
        assert_eq!(String::from_utf8(text).unwrap(), "MARK=m\nPROBE=no\nINPUT=no\nNICS=1\nACCELERATOR=tcg\nMODULES='/a b'\n");
    }
}
