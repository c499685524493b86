//! The PostgreSQL version of a printed unit.

use std::ffi::OsStr;
use std::path::Path;

/// Printed if the version is unknown.
pub(super) const VERSION: &str = "VERSION";

/// The major version of this PostgreSQL program, else the only one that is installed, else [`VERSION`].
pub(super) fn postgres_version(program: &str) -> String {
    let own = super::super::locate(OsStr::new(program)).and_then(|path| version_of(&path.canonicalize().ok()?));
    own.unwrap_or_else(|| only(lab::installed_programs("postgres").iter().filter_map(|path| version_of(path)).collect()))
}

fn only(installed: Vec<String>) -> String {
    match installed.as_slice() {
        [version] => version.clone(),
        _ => VERSION.to_owned(),
    }
}

/// The version in the path of a program from a package: `/usr/lib/postgresql/15/bin/postgres` of
/// Debian, `/usr/pgsql-15/bin/postgres` of PGDG for Red Hat.
fn version_of(program: &Path) -> Option<String> {
    let folder = program.parent()?.parent()?.to_str()?;
    let version = folder.strip_prefix("/usr/lib/postgresql/").or_else(|| folder.strip_prefix("/usr/pgsql-"))?;
    version.parse::<f32>().is_ok().then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_program_or_the_only_one_that_is_installed() {
        let of = |path: &str| version_of(Path::new(path));
        assert_eq!(of("/usr/lib/postgresql/15/bin/postgres"), Some("15".to_owned()));
        assert_eq!(of("/usr/lib/postgresql/9.6/bin/postgres"), Some("9.6".to_owned()));
        assert_eq!(of("/usr/pgsql-17/bin/postgres"), Some("17".to_owned()));
        assert_eq!(of("/usr/local/bin/postgres"), None);
        assert_eq!(only(vec!["15".to_owned()]), "15");
        assert_eq!(only(vec!["17".to_owned(), "15".to_owned()]), VERSION);
        assert_eq!(only(Vec::new()), VERSION);
    }
}
