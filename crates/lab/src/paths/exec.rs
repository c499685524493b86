//! `millrace exec`: the preload library, and the command that is put before a program so that it finds its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// File name of the preload library.
pub(crate) const PRELOAD_LIBRARY: &str = "libmillrace_preload.so";

/// The preload library of `program`: named by MILLRACE_PRELOAD, in the same directory, or
/// in `../lib/millrace`. `millrace exec` searches the same places.
pub(crate) fn preload_library(program: &Path) -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os("MILLRACE_PRELOAD").map(PathBuf::from) {
        return chosen.is_file().then_some(chosen);
    }
    let directory = program.parent()?;
    let places = [directory.join(PRELOAD_LIBRARY), directory.join("../lib/millrace").join(PRELOAD_LIBRARY)];
    places.into_iter().find(|place| place.is_file())
}

/// `millrace exec OPTIONS --`; empty if there are no options.
pub(super) fn prefix(program: &Path, options: Vec<OsString>) -> Vec<OsString> {
    if options.is_empty() {
        return options;
    }
    let mut words = vec![program.into(), "exec".into()];
    words.extend(options);
    words.push("--".into());
    words
}
