//! Location of MariaDB's server programs, and the settings that they support.

use ::host::is_executable;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::LabError;
use crate::plan::{DATABASE, Tuning};

/// Debian's name of the package with the server programs. It creates no service and no user.
pub(super) const PACKAGE: &str = "mariadb-server-core";

/// Directories of server programs that may be missing from a user's PATH.
const PLACES: [&str; 4] = ["/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin"];

/// First version with the counters and settings used here.
const OLDEST: (u32, u32) = (10, 6);

/// Server programs of one MariaDB installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    /// `mariadbd`.
    pub(super) server: PathBuf,
    /// `mariadb-install-db`.
    pub(super) install: PathBuf,
    /// Version in the output of `mariadbd --version`: `10.11.6-MariaDB-0+deb12u1`.
    pub(super) version: String,
}

impl Programs {
    /// The programs in PATH, else in the directories of the packages.
    ///
    /// # Errors
    /// [`LabError::Missing`] with the package.
    pub(super) fn find() -> Result<Self, LabError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places: Vec<PathBuf> = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from)).collect();
        let program = |name: &str| places.iter().map(|place| place.join(name)).find(|program| is_executable(program));
        let Some((server, install)) = program("mariadbd").zip(program("mariadb-install-db")) else {
            return Err(missing("find MariaDB's server programs (mariadbd, mariadb-install-db) in PATH or /usr/sbin"));
        };
        let version = version_of(&server)
            .ok_or_else(|| missing(&format!("find MariaDB: {} --version does not say its version", server.display())))?;
        if parse(&version).is_none_or(|version| version < OLDEST) {
            let (major, minor) = OLDEST;
            return Err(missing(&format!("compare with MariaDB {version}: it is older than {major}.{minor}")));
        }
        Ok(Self { server, install, version })
    }

    /// Checks with the server's program whether it supports the settings of a tuning.
    pub(super) fn check_knobs(&self, name: &str, tuning: &Tuning) -> Result<(), LabError> {
        if tuning.of(DATABASE).is_empty() {
            return Ok(());
        }
        // Options are parsed before the help is printed; nothing is started or written.
        let options = tuning.of(DATABASE).iter().map(|(knob, value)| format!("--{knob}={value}"));
        let mut asked = Command::new(&self.server);
        asked.arg("--no-defaults").args(options).args(["--verbose", "--help"]).stdin(Stdio::null()).current_dir("/");
        let output = asked.output().map_err(LabError::file("run", &self.server))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let what = format!("use tuning.{name}.database with MariaDB: mariadbd says: {}", complaint(&said));
        let hint = "with --database mariadb a tuning sets variables of MariaDB (innodb_io_capacity); those of PostgreSQL \
                    (wal_buffers) are for --database postgresql";
        Err(LabError::plan(what, hint))
    }
}

fn missing(what: &str) -> LabError {
    LabError::Missing {
        what: what.to_owned(),
        hint: format!("apt-get install {PACKAGE}, which starts no server, or let compare --database mariadb --install do it"),
    }
}

fn version_of(server: &Path) -> Option<String> {
    let output = Command::new(server).args(["--no-defaults", "--version"]).stdin(Stdio::null()).output().ok()?;
    version_in(&String::from_utf8(output.stdout).ok()?)
}

/// `mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)`.
fn version_in(text: &str) -> Option<String> {
    let version = text.split_whitespace().skip_while(|word| *word != "Ver").nth(1)?;
    version.contains("MariaDB").then(|| version.to_owned())
}

fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|sign: char| !sign.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The server's error without its time and name.
fn complaint(said: &str) -> String {
    let line = said.lines().find(|line| line.contains("[ERROR]")).or_else(|| said.lines().last()).unwrap_or_default();
    let words = line.split_once("[ERROR] ").map_or(line, |(_, words)| words);
    words.split_once("mariadbd: ").map_or(words, |(_, words)| words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_and_another_servers_refused() {
        let text = "mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)\n";
        assert_eq!(version_in(text).as_deref(), Some("10.11.6-MariaDB-0+deb12u1"));
        assert_eq!(version_in("mysqld  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)"), None);
        assert_eq!(parse("10.11.6-MariaDB"), Some((10, 11)));
        assert_eq!(parse("MariaDB"), None);
    }

    #[test]
    fn of_what_the_server_says_the_complaint_is_told() {
        let said = "2026-11-25 17:10:47 0 [Warning] Could not open mysql.plugin table\n\
                    2026-11-25 17:10:47 0 [ERROR] mariadbd: unknown variable 'wal_buffers=64MB'\n";
        assert_eq!(complaint(said), "unknown variable 'wal_buffers=64MB'");
    }
}
