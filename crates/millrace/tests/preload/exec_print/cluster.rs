//! A cluster of Debian's packages on a mount, run by its own programs: what `--print systemd`
//! writes for `pg_ctlcluster`, and the example in the packages.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::filer::Filer;
use crate::support::postgres::{as_database_user, database_user, give_to_database_user, server_programs};
use crate::support::{Scratch, is_root, keepers, millrace, preload_library, skip, skip_unsupported, succeed};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/examples/postgresql@.service.d/millrace.conf");

/// A filer, and the folders of a cluster's configuration, log and socket.
struct World {
    filer: Filer,
    scratch: Scratch,
    version: String,
}

impl World {
    /// `None`, with a message, if this host cannot run it.
    fn new(label: &str) -> Option<Self> {
        if !is_root() {
            skip_unsupported("only root can run it as the user of the database");
            return None;
        }
        // `/usr/lib/postgresql/15/bin`
        let version = server_programs().and_then(|bin| Some(bin.parent()?.file_name()?.to_str()?.to_owned()));
        let Some(version) = version.filter(|_| Path::new("/usr/bin/pg_ctlcluster").exists()) else {
            skip("no pg_ctlcluster");
            return None;
        };
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, &[]);
        std::fs::set_permissions(filer.export(), PermissionsExt::from_mode(0o777)).unwrap();
        std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for folder in ["etc", "run", "socket", "log"] {
            give_to_database_user(&scratch.folder(folder));
        }
        std::fs::set_permissions(scratch.path().join("run"), PermissionsExt::from_mode(0o700)).unwrap();
        Some(Self { filer, scratch, version })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn instance(&self) -> String {
        format!("{}-try", self.version)
    }

    fn mount(&self) -> String {
        format!("/db={}&close=nothing", self.filer.url)
    }

    /// Runs a line of a unit as systemd does.
    fn start(&self, line: &str) -> String {
        let words: Vec<&str> = line.trim_start_matches('-').split(' ').collect();
        let (uid, gid) = database_user();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).uid(uid).gid(gid).current_dir("/").env_clear().env("MILLRACE_PRELOAD", preload_library());
        command.env("PG_CLUSTER_CONF_ROOT", self.at("etc")).env("MILLRACE_RUNTIME_DIR", self.at("run"));
        succeed(&mut command)
    }

    fn made(&self, port: u16) {
        let mut command = as_database_user(millrace().get_program());
        command.args(["exec", "--mount", &self.mount(), "--", "pg_createcluster", &self.version, "try", "-d", "/db/try"]);
        command.arg("-l").arg(self.at("log/try.log")).arg("-s").arg(self.at("socket")).args(["-p", &port.to_string()]);
        command.args(["--", "--no-sync", "-A", "trust"]).env("PG_CLUSTER_CONF_ROOT", self.at("etc"));
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", self.at("run")).current_dir("/");
        succeed(&mut command);
    }
}

/// The settings of a unit, without comments.
fn settings(unit: &str) -> Vec<&str> {
    unit.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[test]
fn a_cluster_of_debian_on_a_mount_starts_answers_and_stops_by_its_unit() {
    let Some(world) = World::new("print-cluster") else { return };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    world.made(port);
    let (uid, gid) = database_user();
    let mut command = millrace();
    command.args(["exec", "--mount", &world.mount(), "--print", "systemd", "--user", &format!("{uid}:{gid}"), "--"]);
    let unit = succeed(command.args(["pg_ctlcluster", &world.instance(), "start"]));
    let value = |key: &str| unit.lines().filter_map(|line| line.strip_prefix(key)).next_back().unwrap();
    world.start(value("ExecStart="));
    let psql = |sql: &str| {
        let socket = world.at("socket").display().to_string();
        succeed(as_database_user("psql").args(["-XAtq", "-h", &socket, "-p", &port.to_string(), "-c", sql, "postgres"]))
    };
    assert_eq!(psql("SHOW data_directory").trim(), "/db/try");
    psql("CREATE TABLE written AS SELECT 1");
    world.start(value("ExecReload="));
    world.start(value("ExecStop="));
    assert!(!world.filer.export().join("try/postmaster.pid").exists(), "it is stopped");
    keepers::end(world.filer.port);
}

#[test]
fn the_drop_in_that_packages_hold_is_the_one_that_is_printed() {
    let mut command = millrace();
    command.args([
        "exec",
        "--mount",
        "/db=nfs://filer.example/vol?close=nothing",
        "--print",
        "systemd",
        "--user",
        "101:104",
        "--",
    ]);
    let printed = succeed(command.args(["/usr/bin/pg_ctlcluster", "17-main", "start"]));
    let printed = printed.replace(millrace().get_program().to_str().unwrap(), "/usr/bin/millrace").replace("17-main", "%i");
    let printed = printed.replace("User=101", "User=postgres").replace("Group=104", "Group=postgres");
    assert_eq!(settings(&printed), settings(&std::fs::read_to_string(EXAMPLE).unwrap()));
}
