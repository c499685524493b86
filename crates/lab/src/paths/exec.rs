//! `millrace exec`: the preload library, and the words put before a program so that it finds its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// File name of the preload library.
pub(crate) const PRELOAD_LIBRARY: &str = "libmillrace_preload.so";

/// The preload library that belongs to `program`: named by MILLRACE_PRELOAD, beside it, or
/// in `../lib/millrace`. These are the places `millrace exec` looks at.
pub(crate) fn preload_library(program: &Path) -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os("MILLRACE_PRELOAD").map(PathBuf::from) {
        return chosen.is_file().then_some(chosen);
    }
    let directory = program.parent()?;
    let places = [directory.join(PRELOAD_LIBRARY), directory.join("../lib/millrace").join(PRELOAD_LIBRARY)];
    places.into_iter().find(|place| place.is_file())
}

/// `millrace exec OPTIONS --`; nothing when there are no options.
pub(super) fn prefix(program: &Path, options: Vec<OsString>) -> Vec<OsString> {
    if options.is_empty() {
        return options;
    }
    let mut words = vec![program.into(), "exec".into()];
    words.extend(options);
    words.push("--".into());
    words
}
