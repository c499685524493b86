//! `millrace exec --print`: its output is valid at its destination, and PostgreSQL runs with the
//! privileges that it requests.

mod cluster;
mod confined;

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::filer::Filer;
use crate::support::postgres::{as_database_user, database_user, server_programs};
use crate::support::{
    Scratch, await_until, find_program, is_root, may_make_namespaces, millrace, peers_python, preload_library, skip, succeed,
    text,
};
use confined::{Confined, Wanted};
use serde_json::Value;

/// A uid as a platform assigns it: no file of this host or of an image has it.
const ARBITRARY_UID: u32 = 1_000_660_000;

/// A stopped database on an export that belongs to `uid`.
struct Database {
    filer: Filer,
    scratch: Scratch,
    programs: PathBuf,
    port: u16,
}

impl Database {
    /// `None`, with a message, if this host cannot run it.
    fn new(label: &str, uid: u32, gid: u32) -> Option<Self> {
        let Some(programs) = server_programs() else {
            skip("no PostgreSQL to run what is printed");
            return None;
        };
        if !is_root() {
            crate::support::skip_unsupported("only root can run what is printed as another user");
            return None;
        }
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, &[]);
        let data = filer.export().join("pg");
        let local = scratch.folder("made");
        crate::support::postgres::give_to_database_user(&local);
        succeed(
            as_database_user(programs.join("initdb"))
                .args(["--no-sync", "-A", "trust", "-U", "postgres", "-D"])
                .arg(local.join("pg")),
        );
        succeed(Command::new("cp").arg("-a").arg(local.join("pg")).arg(&data));
        succeed(Command::new("chown").args(["-R", &format!("{uid}:{gid}")]).arg(filer.export()));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Some(Self { filer, scratch, programs, port })
    }

    /// The output of `--print` for the server on the mount.
    fn printed(&self, options: &[&str]) -> String {
        let mut command = millrace();
        command.args(["exec", "--mount", &format!("/db={}&close=nothing", self.filer.url)]).args(options).arg("--");
        command.args(["postgres", "-D", "/db/pg", "-c", "listen_addresses=127.0.0.1", "-p", &self.port.to_string()]);
        succeed(command.env("PATH", "/usr/bin:/bin"))
    }

    fn answers(&self) {
        let dsn = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port);
        let ask = || Command::new("psql").args(["-XAtqd", &dsn, "-c", "SHOW data_directory"]).output().unwrap();
        let said = |output: &std::process::Output| text(output).trim().to_owned();
        let mut last = String::new();
        await_until("the printed server to answer", Duration::from_secs(60), || {
            let output = ask();
            last = said(&output);
            output.status.success().then_some(())
        });
        assert_eq!(last, "/db/pg");
        succeed(Command::new("psql").args(["-XAtqd", &dsn, "-c", "CREATE TABLE written AS SELECT 1", "-c", "CHECKPOINT"]));
    }

    /// Runs the container of a printed file, checks it, and stops it.
    fn runs_confined(&self, wanted: &Wanted) {
        let folder = self.scratch.folder("container");
        let server = Confined::start(&folder, &self.programs, wanted);
        self.answers();
        assert_eq!(server.status("CapEff"), "0000000000000000");
        assert_eq!(server.status("CapBnd"), "0000000000000000");
        assert_eq!(server.status("NoNewPrivs"), "1");
        assert!(server.status("Uid").starts_with(&wanted.uid.to_string()));
        assert!(server.root_options().starts_with("ro"), "{}", server.root_options());
        let said = || std::fs::read_to_string(folder.join("said")).unwrap();
        assert_eq!(server.end("INT"), Some(0), "{}", said());
        assert!(said().contains("database system is shut down"), "{}", said());
    }
}

/// Python with the schemas. `None`, with a message, without them.
fn validators() -> Option<PathBuf> {
    let python = peers_python();
    if python.is_none() {
        skip("no schemas of compose and Kubernetes: scripts/setup peers");
    }
    python
}

/// The file as JSON. Its schema must accept it.
fn validated(python: &Path, kind: &str, file: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/exec_print/validate.py");
    serde_json::from_str(&succeed(Command::new(python).arg(script).arg(kind).arg(file))).unwrap()
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_printed_pod_is_valid_and_restricted_and_its_server_runs_so() {
    let Some(python) = validators() else { return };
    if !may_make_namespaces() {
        return;
    }
    let Some(database) = Database::new("print-k8s", ARBITRARY_UID, ARBITRARY_UID) else { return };
    let file = database.scratch.path().join("pod.yaml");
    let user = format!("{ARBITRARY_UID}:{ARBITRARY_UID}");
    std::fs::write(&file, database.printed(&["--print", "k8s", "--user", &user])).unwrap();
    let pod = validated(&python, "k8s", &file);
    let spec = &pod["spec"];
    let container = &spec["containers"][0];
    let mounts = container["volumeMounts"].as_array().unwrap().iter();
    let memory = mounts.map(|mount| mount["mountPath"].as_str().unwrap().to_owned()).filter(|path| path != "/dev/shm").collect();
    database.runs_confined(&Wanted {
        uid: u32::try_from(spec["securityContext"]["runAsUser"].as_u64().unwrap()).unwrap(),
        gid: u32::try_from(spec["securityContext"]["runAsGroup"].as_u64().unwrap()).unwrap(),
        shm_bytes: spec["volumes"][0]["emptyDir"]["sizeLimit"].as_str().unwrap().parse().unwrap(),
        memory,
        command: words(&container["command"]),
        shm_mode: "0777", // as Kubernetes mounts a memory volume
        variable: format!("MILLRACE_RUNTIME_DIR={}", container["env"][0]["value"].as_str().unwrap()),
    });
    assert_eq!((&container["env"][0]["name"], &spec["restartPolicy"]), (&"MILLRACE_RUNTIME_DIR".into(), &"Always".into()));
}

#[test]
fn a_printed_compose_file_is_valid_and_its_server_runs_so() {
    let Some(python) = validators() else { return };
    if !may_make_namespaces() {
        return;
    }
    let Some(database) = Database::new("print-compose", 999, 999) else { return };
    let file = database.scratch.path().join("compose.yaml");
    std::fs::write(&file, database.printed(&["--print", "compose", "--user", "999:999"])).unwrap();
    let compose = validated(&python, "compose", &file);
    let service = &compose["services"]["postgres"];
    assert_eq!(service["cap_drop"], serde_json::json!(["ALL"]));
    assert_eq!(service["security_opt"], serde_json::json!(["no-new-privileges:true"]));
    assert_eq!((&service["read_only"], &service["user"]), (&true.into(), &"999:999".into()));
    let memory = words(&service["tmpfs"]).iter().map(|place| place.split(':').next().unwrap().to_owned()).collect();
    let command = [words(&service["entrypoint"]), words(&service["command"])].concat();
    let variable = words(&service["environment"])[0].clone();
    assert!(variable.starts_with("MILLRACE_RUNTIME_DIR=/dev/shm/") && service["restart"] == "unless-stopped", "{service}");
    let shm_bytes = service["shm_size"].as_u64().unwrap();
    database.runs_confined(&Wanted { uid: 999, gid: 999, shm_bytes, memory, command, shm_mode: "1777", variable });
}

#[test]
fn what_the_schemas_refuse_is_found() {
    let Some(python) = validators() else { return };
    let scratch = Scratch::new("print-refused");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/exec_print/validate.py");
    for (kind, change) in
        [("compose", ("read_only:", "readonly:")), ("k8s", ("runAsUser:", "runUser:")), ("k8s", ("drop:", "add:"))]
    {
        let output = millrace()
            .args([
                "exec",
                "--mount",
                "/db=nfs://filer/vol",
                "--print",
                kind,
                "--user",
                "999:999",
                "--",
                "postgres",
                "-D",
                "/db/pg",
            ])
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.contains(change.0), "{printed}");
        let file = scratch.path().join("changed.yaml");
        std::fs::write(&file, printed.replace(change.0, change.1)).unwrap();
        let checked = Command::new(&python).arg(&script).arg(kind).arg(&file).output().unwrap();
        assert!(!checked.status.success(), "{kind} takes {}", change.1);
    }
}

#[test]
fn a_printed_unit_is_for_the_version_of_the_program_that_path_leads_to() {
    let debian = server_programs().filter(|programs| programs.starts_with("/usr/lib/postgresql"));
    let Some(programs) = debian else { return skip("no PostgreSQL of Debian's packages") };
    let major = programs.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let scratch = Scratch::new("print-version");
    std::os::unix::fs::symlink(programs.join("postgres"), scratch.path().join("postgres")).unwrap();
    for (format, wanted) in [
        ("systemd", format!("for cluster {major}/main.")),
        ("systemd", format!("postgresql@{major}-main.service")),
        ("compose", format!("FROM postgres:{major}\n")),
        ("k8s", format!("FROM postgres:{major}\n")),
    ] {
        let mut command = millrace();
        command.args(["exec", "--mount", "/db=nfs://filer/vol", "--print", format, "--user", "999:999", "--", "postgres"]);
        let printed = succeed(command.args(["-D", "/db/pg"]).env("PATH", scratch.path()));
        assert!(printed.contains(&wanted), "{wanted:?} in {printed}");
    }
}

/// The output of `systemd-analyze verify` for Debian's unit with a drop-in.
fn verify(units: &Path, drop_in: &str) -> std::process::Output {
    let folder = units.join("postgresql@15-main.service.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("millrace.conf"), drop_in).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "postgresql@15-main.service"]).env("SYSTEMD_UNIT_PATH", format!("{}:", units.display()));
    command.output().unwrap()
}

#[test]
fn a_printed_drop_in_is_valid_and_its_server_tells_when_it_is_ready() {
    let unit = Path::new("/lib/systemd/system/postgresql@.service");
    if find_program("systemd-analyze").is_none() || !unit.exists() {
        return skip("no systemd-analyze, or no PostgreSQL of Debian's packages");
    }
    let (uid, gid) = database_user();
    let Some(database) = Database::new("print-systemd", uid, gid) else { return };
    let drop_in = database.printed(&["--print", "systemd"]);
    let units = database.scratch.folder("units");
    std::fs::copy(unit, units.join("postgresql@.service")).unwrap();
    let said = verify(&units, &drop_in);
    assert!(said.status.success() && !text(&said).contains("millrace.conf"), "{}\n{drop_in}", text(&said));
    let misspelt = verify(&units, &drop_in.replace("KillMode=", "KilMode="));
    assert!(text(&misspelt).contains("millrace.conf"), "{}", text(&misspelt));

    let value = |key: &str| drop_in.lines().filter_map(|line| line.strip_prefix(key)).next_back().unwrap().to_owned();
    assert_eq!((value("User="), value("Group=")), (uid.to_string(), gid.to_string()));
    assert_eq!(
        (value("Restart="), value("StartLimitIntervalSec=")),
        ("on-failure".into(), "0".into()),
        "it waits for its server"
    );
    assert_eq!(value("Environment="), format!("MILLRACE_RUNTIME_DIR=/run/{}", value("RuntimeDirectory=")));
    let socket = database.scratch.path().join("notify");
    let notified = UnixDatagram::bind(&socket).unwrap();
    std::os::unix::fs::chown(&socket, Some(uid), Some(gid)).unwrap();
    notified.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut server = Stopped(start_as(&value("ExecStart="), uid, gid, &socket));
    let mut told = [0; 4096];
    let length = notified.recv(&mut told).unwrap();
    assert!(String::from_utf8_lossy(&told[..length]).contains("READY=1"));
    database.answers();
    succeed(Command::new("kill").args([&format!("-{}", value("KillSignal=")), &server.0.id().to_string()]));
    let status = await_until("the server to stop", Duration::from_secs(60), || server.0.try_wait().unwrap());
    assert!(status.success(), "{status}");
}

/// Starts the words of ExecStart as systemd does. No word here needs quotes.
fn start_as(line: &str, uid: u32, gid: u32, notify: &Path) -> Child {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).uid(uid).gid(gid).current_dir("/").env_clear().env("NOTIFY_SOCKET", notify);
    command.env("MILLRACE_PRELOAD", preload_library()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Dropping it kills the process.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_that_ends_at_once_and_an_image_of_a_service_are_refused() {
    let refused = |arguments: &[&str]| {
        let output = millrace().args(["exec", "--mount", "/db=nfs://filer/vol"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        text(&output)
    };
    assert!(refused(&["--print", "k8s", "--", "pg_ctl", "-D", "/db/pg", "start"]).contains("hint: name the server itself"));
    assert!(
        refused(&["--print", "systemd", "--group", "1", "--user", "1:1", "--", "postgres"]).contains("belongs to its user"),
        "the printed service would not start"
    );
    assert!(
        refused(&["--print", "systemd", "--image", "x", "--user", "1:1", "--", "postgres"]).contains("a service has no image")
    );
    assert!(refused(&["--print", "compose"]).contains("hint: name it after --"));
    assert!(refused(&["--print", "k8s", "--user", "postgres", "--", "postgres"]).contains("give numbers"));
    if is_root() {
        assert!(refused(&["--print", "k8s", "--", "sqlite3", "/db/x"]).contains("hint: name the owner of the files"));
    }
}
