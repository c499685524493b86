//! A temporary MariaDB on the local disk, which is reached through a socket in its folder. Dropping
//! it kills the server.

use super::postgres::{as_database_user, give_to_database_user};
use super::{await_until, find_program, succeed};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub struct MariaDb {
    child: Child,
    socket: PathBuf,
}

impl MariaDb {
    /// Installs and starts a server below `folder`. `None` if MariaDB is not installed.
    pub fn start(folder: &Path, options: &[&str]) -> Option<Self> {
        let install = find_program("mariadb-install-db")?;
        let server =
            find_program("mariadbd").or_else(|| Some(PathBuf::from("/usr/sbin/mariadbd")).filter(|path| path.is_file()))?;
        let home = folder.join("mariadb");
        std::fs::create_dir_all(&home).unwrap();
        give_to_database_user(&home);
        let (data, socket) = (home.join("data"), home.join("socket"));
        let data_option = format!("--datadir={}", data.display());
        // The server needs its own folder, because a server that starts removes every temporary
        // table that it finds, even those of other servers.
        let temporary = home.join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        give_to_database_user(&temporary);
        let temporary_option = format!("--tmpdir={}", temporary.display());
        // The data of these tests does not outlive them, so nothing is flushed.
        let unsynced = ["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-flush-method=nosync"];
        succeed(
            as_database_user(install)
                .args(["--no-defaults", &data_option, &temporary_option, "--skip-test-db"])
                .args(["--auth-root-authentication-method=normal", "--innodb-flush-method=nosync"]),
        );
        let child = as_database_user(server)
            .args(["--no-defaults", &data_option, &temporary_option, "--skip-networking", "--innodb-buffer-pool-size=512M"])
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--log-error={}", home.join("log.err").display()))
            .args(["--innodb-log-file-size=512M", "--innodb-autoinc-lock-mode=2"])
            .args(unsynced)
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, socket };
        await_until("MariaDB to answer", Duration::from_secs(60), || {
            server.client("SELECT 1").output().ok().filter(|output| output.status.success())
        });
        Some(server)
    }

    /// A connection string.
    pub fn dsn(&self) -> String {
        format!("mysql://root@localhost/?socket={}", self.socket.display())
    }

    /// Runs statements by the `mariadb` client. Returns the rows with tabs between columns.
    pub fn sql(&self, statements: &str) -> String {
        succeed(&mut self.client(statements))
    }

    /// Whether the statements succeed.
    pub fn try_sql(&self, statements: &str) -> bool {
        self.client(statements).output().is_ok_and(|output| output.status.success())
    }

    fn client(&self, statements: &str) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "-uroot", "-N", "-B", "-e", statements]);
        command.arg(format!("--socket={}", self.socket.display()));
        command
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
