//! Location of PostgreSQL's server programs, and whether the database's user can run them.

use ::host::is_executable;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::LabError;

/// Server programs of one PostgreSQL installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binaries {
    /// Directory that contains `initdb` and `postgres`.
    pub(crate) directory: PathBuf,
    /// Major version, 15 for example.
    pub(crate) major: u32,
    /// Output of `postgres --version`, without the program's name.
    pub(crate) version: String,
}

const NEEDED: [&str; 2] = ["initdb", "postgres"];

impl Binaries {
    /// The programs in `chosen`, else in PATH, else the newest in the directories of the packages of Debian,
    /// Ubuntu and PGDG.
    ///
    /// # Errors
    /// [`LabError::Missing`] with the package, or with the programs that `chosen` lacks.
    pub(crate) fn find(chosen: Option<&Path>) -> Result<Self, LabError> {
        if let Some(directory) = chosen {
            return Self::in_directory(directory).ok_or_else(|| LabError::Missing {
                what: format!("find initdb and postgres that run in {}", directory.display()),
                hint: "--pg-bin names the directory of the server programs, \
                       for example /usr/lib/postgresql/15/bin"
                    .to_owned(),
            });
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        if let Some(found) = std::env::split_paths(&path).find_map(|place| Self::in_directory(&place)) {
            return Ok(found);
        }
        let mut installed: Vec<Self> = version_directories().iter().filter_map(|d| Self::in_directory(d)).collect();
        installed.sort_by_key(|found| found.major);
        installed.pop().ok_or_else(|| LabError::Missing {
            what: "find the PostgreSQL server programs (initdb, postgres) in PATH or below /usr/lib/postgresql".to_owned(),
            hint: "millrace compare --install asks and installs it without a main cluster, \
                   or name a directory with --pg-bin"
                .to_owned(),
        })
    }

    fn in_directory(directory: &Path) -> Option<Self> {
        if !NEEDED.iter().all(|program| is_executable(&directory.join(program))) {
            return None;
        }
        let output = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let version = text.trim().strip_prefix("postgres (PostgreSQL) ")?.to_owned();
        let major = parse_major(&version)?;
        Some(Self { directory: directory.to_owned(), major, version })
    }

    /// Path of one program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// A program of PostgreSQL in the directories of packages outside PATH, for every version that has it, the newest first.
#[must_use]
pub fn installed_programs(name: &str) -> Vec<PathBuf> {
    newest_first(name, version_directories())
}

fn newest_first(name: &str, directories: Vec<PathBuf>) -> Vec<PathBuf> {
    // /usr/lib/postgresql/15/bin: other paths do not show the version.
    let major = |program: &PathBuf| -> Option<u32> { program.iter().rev().nth(2)?.to_str()?.parse().ok() };
    let mut found: Vec<PathBuf> = directories.into_iter().map(|directory| directory.join(name)).collect();
    found.retain(|program| is_executable(program));
    found.sort_by_key(|program| std::cmp::Reverse(major(program)));
    found
}

fn version_directories() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = ["/usr/pgsql/bin", "/usr/local/pgsql/bin"].map(PathBuf::from).into();
    if let Ok(entries) = std::fs::read_dir("/usr/lib/postgresql") {
        places.extend(entries.flatten().map(|entry| entry.path().join("bin")));
    }
    places
}

/// `15.13 (Debian …)`, `17beta1`, `18.0` → 15, 17, 18.
pub(super) fn parse_major(version: &str) -> Option<u32> {
    let digits = version.find(|c: char| !c.is_ascii_digit()).map_or(version, |end| &version[..end]);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn major_version_is_read_from_releases_and_betas() {
        assert_eq!(parse_major("15.13 (Debian 15.13-0+deb12u1)"), Some(15));
        assert_eq!(parse_major("17beta1"), Some(17));
        assert_eq!(parse_major("18"), Some(18));
        assert_eq!(parse_major("devel"), None);
    }

    #[test]
    fn a_program_is_found_in_each_version_that_has_it_the_newest_first() {
        let base = tempfile::tempdir().unwrap();
        let directories: Vec<PathBuf> = ["9", "15", "17"].map(|version| base.path().join(version).join("bin")).into();
        for directory in &directories {
            std::fs::create_dir_all(directory).unwrap();
        }
        for directory in directories.iter().take(2) {
            std::fs::write(directory.join("initdb"), "").unwrap();
            std::fs::set_permissions(directory.join("initdb"), PermissionsExt::from_mode(0o755)).unwrap();
        }
        let found = ["15", "9"].map(|version| base.path().join(version).join("bin/initdb"));
        assert_eq!(newest_first("initdb", directories.clone()), found);
        assert_eq!(newest_first("pg_ctl", directories), Vec::<PathBuf>::new());
    }

    #[test]
    fn directory_without_server_programs_is_refused_by_name() {
        let empty = tempfile::tempdir().unwrap();
        let error = Binaries::find(Some(empty.path())).unwrap_err();
        assert!(error.to_string().contains(&empty.path().display().to_string()), "{error}");
        assert!(error.hint().unwrap().contains("--pg-bin"));
    }
}
