//! PgBouncer in front of a cluster, on a free port of the loopback address. Dropping it ends the pooler.

use super::postgres::{Cluster, as_database_user, give_to_database_user};
use super::{Scratch, await_until, find_program};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub struct PgBouncer {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl PgBouncer {
    /// Starts a pooler with this mode and these further settings. `None` if it is not installed.
    pub fn start(scratch: &Scratch, cluster: &Cluster, mode: &str, more: &str) -> Option<Self> {
        let program =
            find_program("pgbouncer").or_else(|| Some(PathBuf::from("/usr/sbin/pgbouncer")).filter(|path| path.is_file()))?;
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = scratch.folder(&format!("pgbouncer-{mode}-{port}"));
        give_to_database_user(&folder);
        let server = cluster.dsn().replace(" user=postgres dbname=postgres", "");
        let settings = format!(
            "[databases]\npostgres = {server} user=clerk dbname=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = {mode}\nlogfile = {0}/log\npidfile = {0}/pid\n{more}\n",
            folder.display()
        );
        let file = folder.join("ini");
        std::fs::write(&file, settings).unwrap();
        give_to_database_user(&file);
        let child = as_database_user(program).arg("-q").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pooler = Self { child, port, folder };
        await_until("PgBouncer to answer", Duration::from_secs(60), || {
            pooler.psql("SELECT 1").output().ok().filter(|output| output.status.success())
        });
        Some(pooler)
    }

    /// A connection string for the pooler.
    pub fn dsn(&self) -> String {
        format!("host=127.0.0.1 port={} user=clerk dbname=postgres", self.port)
    }

    /// A command that sends one statement as another client of the same pool.
    pub fn psql(&self, statement: &str) -> Command {
        let mut psql = as_database_user(find_program("psql").expect("psql"));
        psql.args(["-XAtq", "-d", &self.dsn(), "-c", statement]);
        psql
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
