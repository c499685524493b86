//! How `millrace orders` reaches a PostgreSQL: TLS in each sslmode, certificates, services, variables, password files.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::support::postgres::{Cluster, give_to_database_user};
use crate::support::tls::Pki;
use crate::support::{Scratch, await_until, millrace, skip, succeed, text};
use sim::authority::Valid;

/// What `orders check` prints if the server let it in and has no loaded schema.
const INSIDE: &str = "schema millrace_orders is not in database postgres";
const PASSWORD: &str = "right-3c9";
/// Which user may connect, and how. All certificates of the tests have the name `peer of a test`.
const HBA: &str = "local all all trust
hostssl all certified 127.0.0.1/32 cert map=peers
hostssl all clerk 127.0.0.1/32 scram-sha-256
hostnossl all plain 127.0.0.1/32 trust
host all either 127.0.0.1/32 trust
";

/// A PostgreSQL with TLS, its certificate authority, and another authority.
struct Peer {
    cluster: Cluster,
    pki: Pki,
    other: Pki,
    home: PathBuf,
    _scratch: Scratch,
}

impl Peer {
    fn start(label: &str) -> Option<Self> {
        let scratch = Scratch::new(label);
        let (pki, other) = (Pki::new(&scratch), Pki::named(&scratch, "other"));
        pki.issue("server", &["localhost"], Valid::Now);
        give_to_database_user(pki.path("server.key").as_ref());
        let (hba, ident) = (scratch.path().join("hba"), scratch.path().join("ident"));
        std::fs::write(&hba, HBA).unwrap();
        std::fs::write(&ident, "peers \"peer of a test\" certified\n").unwrap();
        let options = format!(
            "-c fsync=off -c log_connections=on -c hba_file={} -c ident_file={} -c ssl_cert_file={} -c ssl_key_file={} -c ssl_ca_file={}",
            hba.display(),
            ident.display(),
            pki.path("server.pem"),
            pki.path("server.key"),
            pki.path("ca.pem")
        );
        let Some(cluster) = Cluster::start_tcp(scratch.path(), &options) else {
            skip("PostgreSQL is not installed");
            return None;
        };
        cluster.sql("CREATE ROLE certified LOGIN; CREATE ROLE plain LOGIN; CREATE ROLE either LOGIN");
        cluster.sql(&format!("CREATE ROLE clerk LOGIN SUPERUSER PASSWORD '{PASSWORD}'"));
        let peer = Self { cluster, pki, other, home: scratch.folder("home"), _scratch: scratch };
        peer.set_tls("on");
        Some(peer)
    }

    fn set_tls(&self, state: &str) {
        self.cluster.sql(&format!("ALTER SYSTEM SET ssl = {state}"));
        self.cluster.sql("SELECT pg_reload_conf()");
        let turned = || (self.cluster.sql("SHOW ssl").trim() == state).then_some(());
        await_until("ssl to be turned", Duration::from_secs(120), turned);
    }

    /// A command without the variables of the user who runs the tests.
    fn orders(&self, arguments: &[&str]) -> Command {
        let mut command = millrace();
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PG") || name == "SSL_CERT_FILE") {
            command.env_remove(name);
        }
        command.env("HOME", &self.home).arg("orders").args(arguments);
        command
    }

    /// A connection string with these parameters at localhost, unless they name another host.
    fn dsn(&self, parameters: &str) -> String {
        let host = if parameters.contains("host=") { "" } else { "host=localhost" };
        format!("{host} port={} dbname=postgres {parameters}", self.cluster.port())
    }

    /// `orders check` with these parameters.
    fn check(&self, parameters: &str) -> Command {
        self.orders(&["check", "-d", &self.dsn(parameters)])
    }

    /// How libpq connects with the same parameters: with TLS (`true`), without, or not at all (`None`).
    fn libpq(&self, parameters: &str) -> Option<bool> {
        let mut psql = Command::new("psql");
        let statement = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        psql.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", &self.home);
        let output = psql.args(["-XAtqw", "-d", &self.dsn(parameters), "-c", statement]).output().unwrap();
        output.status.success().then(|| output.stdout.starts_with(b"t"))
    }

    /// Asserts that the server lets the command in, with TLS or without.
    fn gets_in(&self, command: &mut Command, tls: bool) {
        let before = self.cluster.log().len();
        let output = command.output().unwrap();
        assert!(text(&output).contains(INSIDE), "{command:?}: {}", text(&output));
        let log = self.cluster.log();
        let ours = log[before..].lines().filter(|line| line.contains("authorized") && line.contains("millrace orders"));
        let encrypted: Vec<bool> = ours.map(|line| line.contains("SSL enabled")).collect();
        assert_eq!(encrypted, [tls], "{command:?}: {}", &log[before..]);
    }

    /// Asserts a refusal: exit code 2, one message with these words, and never the password.
    fn stays_out(&self, command: &mut Command, words: &[&str]) {
        let output = command.output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{command:?}: {word:?} is not in: {said}");
        }
        assert!(!said.contains(PASSWORD) && !said.contains("panicked"), "{said}");
    }
}

#[test]
fn each_sslmode_encrypts_and_checks_what_it_promises() {
    let Some(peer) = Peer::start("sslmode") else { return };
    let trusted = format!("sslrootcert={}", peer.pki.path("ca.pem"));
    let foreign = format!("sslrootcert={}", peer.other.path("ca.pem"));
    let tls = |parameters: &str| {
        peer.gets_in(&mut peer.check(parameters), true);
        assert_eq!(peer.libpq(parameters), Some(true), "libpq: {parameters}");
    };
    let plain = |parameters: &str| {
        peer.gets_in(&mut peer.check(parameters), false);
        assert_eq!(peer.libpq(parameters), Some(false), "libpq: {parameters}");
    };
    let refused = |parameters: &str, words: &[&str]| {
        peer.stays_out(&mut peer.check(parameters), words);
        assert_eq!(peer.libpq(parameters), None, "libpq: {parameters}");
    };

    plain("user=either sslmode=disable");
    plain("user=either sslmode=allow");
    for mode in ["", "sslmode=prefer", "sslmode=require"] {
        tls(&format!("user=either {mode}"));
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        tls(&format!("user=either sslmode={mode} {trusted}"));
        refused(
            &format!("user=either sslmode={mode} {foreign}"),
            &["invalid peer certificate", "hint: no authority of sslrootcert signed"],
        );
    }
    // After a failed handshake, prefer connects without TLS.
    plain(&format!("user=either sslmode=prefer {foreign}"));
    // The certificate is for localhost.
    tls(&format!("user=either host=127.0.0.1 sslmode=verify-ca {trusted}"));
    refused(
        &format!("user=either host=127.0.0.1 sslmode=verify-full {trusted}"),
        &["database postgres at 127.0.0.1", "not valid for name", "hint: connect by a name"],
    );
    tls(&format!("user=either host=localhost hostaddr=127.0.0.1 sslmode=verify-full {trusted}"));
    refused("user=either sslmode=verify-full", &["root certificate file", "root.crt does not exist", "hint: name the authority"]);
    refused("user=either sslmode=verify-ca sslrootcert=/nowhere", &["root certificate file /nowhere cannot be read", "hint: "]);

    // Users for whom pg_hba.conf accepts only TLS, or only connections without it.
    refused("user=clerk sslmode=disable", &["no encryption", "hint: the server accepts this user only over TLS"]);
    plain("user=plain sslmode=prefer");
    refused("user=plain sslmode=require", &["no pg_hba.conf entry", "hint: pg_hba.conf has no line"]);

    // With the system's authorities, the name in the certificate must be checked.
    let system = |mode: &str| {
        let mut command = peer.check(&format!("user=either sslrootcert=system {mode}"));
        command.env("SSL_CERT_FILE", peer.pki.path("ca.pem"));
        command
    };
    peer.gets_in(&mut system(""), true);
    peer.stays_out(&mut system("sslmode=require"), &["too weak for sslrootcert=system", "hint: use sslmode=verify-full"]);

    // The trusted certificate may be the server's own (libpq accepts that only if it is self-signed).
    let itself = format!("user=either sslmode=verify-full sslrootcert={}", peer.pki.path("server.pem"));
    peer.gets_in(&mut peer.check(&itself), true);
    // If the first of two hosts does not answer, the second is used.
    let port = peer.cluster.port();
    tls(&format!("user=either host=127.0.0.1,localhost port=1,{port} sslmode=verify-full {trusted}"));

    // An older protocol is accepted unless the connection string excludes it.
    tls("user=either ssl_min_protocol_version=TLSv1.3");
    peer.cluster.sql("ALTER SYSTEM SET ssl_max_protocol_version = 'TLSv1.2'");
    peer.set_tls("on");
    let shown = || (peer.cluster.sql("SHOW ssl_max_protocol_version").trim() == "TLSv1.2").then_some(());
    await_until("the older protocol", Duration::from_secs(120), shown);
    tls(&format!("user=either sslmode=verify-full {trusted}"));
    assert!(peer.cluster.log().contains("protocol=TLSv1.2"), "{}", peer.cluster.log());
    refused("user=either sslmode=require ssl_min_protocol_version=TLSv1.3", &["error performing TLS handshake", "hint: "]);

    peer.set_tls("off");
    plain("user=either sslmode=prefer");
    refused("user=either sslmode=require", &["server does not support TLS", "hint: set ssl = on"]);
}

#[test]
fn passwords_are_bound_to_the_channel_and_certificates_stand_for_users() {
    let Some(peer) = Peer::start("certificates") else { return };
    let mut right = peer.check("user=clerk sslmode=allow channel_binding=require");
    peer.gets_in(right.env("PGPASSWORD", PASSWORD), true);
    let mut wrong = peer.check("user=clerk");
    peer.stays_out(wrong.env("PGPASSWORD", "not-3c9"), &["password authentication failed", "hint: check user and password"]);
    peer.stays_out(&mut peer.check("user=clerk"), &["password missing", "hint: the server asks for a password"]);

    let with = |pki: &Pki| {
        peer.check(&format!(
            "user=certified sslmode=require sslcert={} sslkey={}",
            pki.path("client.pem"),
            pki.path("client.key")
        ))
    };
    peer.gets_in(&mut with(&peer.pki), true);
    peer.stays_out(&mut with(&peer.other), &["hint: the server does not accept this client's certificate"]);
    peer.stays_out(&mut peer.check("user=certified"), &["client certificate", "hint: name a certificate", "sslcert=FILE"]);
    peer.pki.open_key("client", 0o644);
    peer.stays_out(&mut with(&peer.pki), &["client.key has group or world access (mode 0644)", "hint: chmod 0600"]);
    peer.pki.open_key("client", 0o600);

    // The same with the usual files, and only a user name in the connection string.
    let usual = peer.home.join(".postgresql");
    std::fs::create_dir(&usual).unwrap();
    for (file, name) in [("ca.pem", "root.crt"), ("client.pem", "postgresql.crt"), ("client.key", "postgresql.key")] {
        std::fs::copy(peer.pki.path(file), usual.join(name)).unwrap();
    }
    peer.gets_in(&mut peer.check("user=certified sslmode=verify-full"), true);
}

#[test]
fn options_variables_services_and_password_files_name_the_server() {
    let Some(peer) = Peer::start("services") else { return };
    let port = peer.cluster.port().to_string();
    peer.gets_in(&mut peer.orders(&["check", "-h", "localhost", "-p", &port, "-U", "either", "-d", "postgres"]), true);
    peer.gets_in(
        &mut peer.orders(&["check", "--host", "localhost", "--port", &port, "--username", "either", "--dbname", "postgres"]),
        true,
    );

    let variables = [("PGHOST", "localhost"), ("PGPORT", &port), ("PGUSER", "either"), ("PGDATABASE", "postgres")];
    peer.gets_in(peer.orders(&["check"]).envs(variables), true);
    peer.gets_in(peer.orders(&["check"]).envs(variables).env("PGSSLMODE", "disable"), false);
    let ca = peer.pki.path("ca.pem");
    peer.gets_in(peer.orders(&["check"]).envs(variables).envs([("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", &ca)]), true);
    // An option has precedence over its variable.
    peer.gets_in(peer.orders(&["check", "-U", "plain"]).envs(variables), false);

    std::fs::write(
        peer.home.join(".pg_service.conf"),
        format!("[mill]\nhost=localhost\nport={port}\nuser=clerk\ndbname=postgres\n"),
    )
    .unwrap();
    let passwords = peer.home.join(".pgpass");
    std::fs::write(&passwords, format!("localhost:{port}:postgres:clerk:{PASSWORD}\n")).unwrap();
    let mode = |mode: u32| std::fs::set_permissions(&passwords, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o600);
    peer.gets_in(&mut peer.orders(&["check", "-d", "service=mill"]), true);
    peer.gets_in(peer.orders(&["check"]).env("PGSERVICE", "mill"), true);
    mode(0o644);
    peer.stays_out(
        peer.orders(&["check"]).env("PGSERVICE", "mill"),
        &["WARNING: password file", "has group or world access; permissions should be u=rw (0600) or less", "password missing"],
    );
    mode(0o600);
    peer.stays_out(peer.orders(&["check"]).env("PGSERVICE", "none"), &["service none is not defined in", "hint: write it there"]);
    peer.stays_out(&mut peer.orders(&["check", "-d", "sslmod=require"]), &["\"sslmod\", which is not a connection parameter"]);
    peer.stays_out(peer.orders(&["check"]).env("PGREQUIREAUTH", "scram-sha-256"), &["PGREQUIREAUTH is not supported", "hint: "]);
}

#[test]
fn the_load_and_the_audit_go_over_tls() {
    let Some(peer) = Peer::start("over-tls") else { return };
    let dsn = format!("sslmode=verify-full channel_binding=require sslrootcert={}", peer.pki.path("ca.pem"));
    let dsn = format!("{dsn} host=localhost port={} user=clerk dbname=postgres", peer.cluster.port());
    let orders = |arguments: &[&str]| succeed(peer.orders(arguments).args(["-d", &dsn]).env("PGPASSWORD", PASSWORD));
    orders(&["load", "--warehouses", "1", "-j", "2"]);
    let run = orders(&["run", "-c", "2", "-T", "2"]);
    assert!(run.contains("transactions of all kinds per second"), "{run}");
    assert!(orders(&["check", "--after-run"]).contains("12 passed, 0 failed"));
    let audit = millrace().args(["audit", "--db", &dsn]).env("PGPASSWORD", PASSWORD).output().unwrap();
    assert!(matches!(audit.status.code(), Some(0 | 1)), "{}", text(&audit));
    let log = peer.cluster.log();
    let ours: Vec<&str> = log.lines().filter(|line| line.contains("authorized: user=clerk")).collect();
    assert!(ours.len() > 4 && ours.iter().all(|line| line.contains("SSL enabled")), "{ours:?}");
}

#[test]
fn h_is_the_host_and_help_is_a_word() {
    for command in ["load", "run", "check", "like"] {
        let help = succeed(millrace().args(["orders", command, "--help"]));
        assert!(help.contains("-h, --host <HOST>") && help.contains("--help"), "{help}");
        let output = millrace().args(["orders", command, "-h"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("--host"), "{}", text(&output));
    }
}
