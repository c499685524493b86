//! Accounts, TLS and settings of MariaDB that decide whether `millrace orders` gets in, and its
//! message if it does not.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Output;

use crate::support::mariadb::MariaDb;
use crate::support::postgres::give_to_database_user;
use crate::support::tls::Pki;
use crate::support::{Scratch, millrace, peers_mariadb, skip, succeed, text};
use sim::authority::Valid;

/// What `orders check` prints if the server let it in and has no loaded schema.
const INSIDE: &str = "schema millrace_orders is not in";

struct Peer {
    mariadb: MariaDb,
    pki: Pki,
    port: u16,
    _scratch: Scratch,
}

impl Peer {
    /// A server that accepts TCP, with TLS.
    fn start(label: &str) -> Option<Self> {
        let scratch = Scratch::new(label);
        let pki = Pki::new(&scratch);
        pki.issue("server", &["localhost"], Valid::Now);
        give_to_database_user(pki.path("server.key").as_ref());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = [
            "--skip-networking=0".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--port={port}"),
            format!("--ssl-cert={}", pki.path("server.pem")),
            format!("--ssl-key={}", pki.path("server.key")),
            format!("--ssl-ca={}", pki.path("ca.pem")),
        ];
        let plugins = peers_mariadb().map(|place| format!("--plugin-dir={}", place.display()));
        let options = options.iter().chain(&plugins);
        let options: Vec<&str> = options.map(String::as_str).collect();
        let Some(mariadb) = MariaDb::start(scratch.path(), &options) else {
            skip("MariaDB is not installed");
            return None;
        };
        Some(Self { mariadb, pki, port, _scratch: scratch })
    }

    fn account(&self, name: &str, how: &str) {
        self.mariadb.sql(&format!("CREATE USER {name}@'%' {how}; GRANT ALL ON *.* TO {name}@'%'"));
    }

    fn check(&self, login: &str, query: &str) -> Output {
        let dsn = format!("mysql://{login}@localhost:{}/?{query}", self.port);
        millrace().args(["orders", "check", "-d", &dsn]).output().unwrap()
    }

    fn gets_in(&self, login: &str, query: &str) {
        let output = self.check(login, query);
        assert!(text(&output).contains(INSIDE), "{login} {query}: {}", text(&output));
    }

    /// Asserts a refusal: exit code 2, one message with these words, no panic.
    fn stays_out(&self, login: &str, query: &str, words: &[&str]) {
        let output = self.check(login, query);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{login} {query}: {said}");
        for word in words {
            assert!(said.contains(word), "{login} {query}: {word:?} is not in: {said}");
        }
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn accounts_by_ed25519_get_in_and_every_refusal_has_its_own_hint() {
    let Some(peer) = Peer::start("mariadb-accounts") else { return };
    peer.mariadb.sql("INSTALL SONAME 'auth_ed25519'");
    peer.account("edward", "IDENTIFIED VIA ed25519 USING PASSWORD('right')");
    peer.account("either", "IDENTIFIED VIA mysql_native_password USING 'invalid' OR ed25519 USING PASSWORD('right')");
    peer.gets_in("edward:right", "");
    peer.gets_in("either:right", "");
    let audit = millrace().args(["audit", "--db", &format!("mysql://edward:right@127.0.0.1:{}/", peer.port)]).output().unwrap();
    assert!(matches!(audit.status.code(), Some(0 | 1)), "{}", text(&audit));

    peer.stays_out("edward:wrong", "", &["1045", "hint: check user and password"]);
    peer.account("locked", "IDENTIFIED BY 'x' ACCOUNT LOCK");
    peer.stays_out("locked:x", "", &["4151", "hint: the account is locked"]);
    peer.account("expired", "IDENTIFIED BY 'x' PASSWORD EXPIRE");
    peer.stays_out("expired:x", "", &["hint: the password has expired"]);
    peer.account("limited", "IDENTIFIED BY 'x' WITH MAX_CONNECTIONS_PER_HOUR 1");
    peer.gets_in("limited:x", "ssl-mode=DISABLED");
    peer.stays_out("limited:x", "ssl-mode=DISABLED", &["1226", "hint: raise the limit of the account"]);
    // The plugin for PAM's dialogs, if the server has it.
    if peer.mariadb.try_sql("INSTALL SONAME 'dialog_examples'") {
        peer.account("dialog", "IDENTIFIED VIA two_questions");
        peer.stays_out("dialog:x", "", &["dialog", "hint: the account logs in by PAM"]);
    }
    let gone = millrace().args(["orders", "check", "-d", "mysql://x@127.0.0.1:1/"]).output().unwrap();
    assert!(
        text(&gone).contains("hint: check that the server runs there") && text(&gone).matches("refused").count() == 1,
        "{}",
        text(&gone)
    );
}

#[test]
fn tls_to_mariadb_is_used_as_ssl_mode_says() {
    let Some(peer) = Peer::start("mariadb-tls") else { return };
    peer.account("plain", "IDENTIFIED BY 'x'");
    peer.account("secret", "IDENTIFIED BY 'x' REQUIRE SSL");
    let trusted = format!("ssl-ca={}", peer.pki.path("ca.pem"));
    let foreign = Pki::named(&peer._scratch, "foreign");
    for query in ["", "ssl-mode=PREFERRED", "ssl-mode=REQUIRED", &trusted, &format!("ssl-mode=verify_identity&{trusted}")] {
        peer.gets_in("secret:x", query);
    }
    peer.gets_in("plain:x", "ssl-mode=DISABLED");
    peer.stays_out("secret:x", "ssl-mode=DISABLED", &["1045", "ssl-mode=REQUIRED"]);
    peer.stays_out("secret:x", &format!("ssl-ca={}", foreign.path("ca.pem")), &["hint: name the authority that signed"]);
    peer.stays_out("secret:x", "ssl-ca=/nowhere", &["/nowhere", "No such file"]);
    peer.stays_out("secret:x", "ssl-mode=MAYBE", &["ssl-mode is not one of DISABLED", "hint: write mysql://"]);
    peer.mariadb.sql("SET GLOBAL require_secure_transport = ON");
    peer.gets_in("plain:x", "");
    peer.stays_out("plain:x", "ssl-mode=DISABLED", &["ssl-mode=REQUIRED"]);
}

#[test]
fn a_server_without_tls_is_reached_without_it_unless_it_is_required() {
    let scratch = Scratch::new("mariadb-no-tls");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port_option = format!("--port={port}");
    let options = ["--skip-networking=0", "--bind-address=127.0.0.1", "--skip-ssl", &port_option];
    let Some(mariadb) = MariaDb::start(scratch.path(), &options) else { return skip("MariaDB is not installed") };
    mariadb.sql("CREATE USER plain@'%' IDENTIFIED BY 'x'; GRANT ALL ON *.* TO plain@'%'");
    let check = |query: &str| {
        let dsn = format!("mysql://plain:x@127.0.0.1:{port}/?{query}");
        text(&millrace().args(["orders", "check", "-d", &dsn]).output().unwrap())
    };
    assert!(check("").contains(INSIDE));
    let required = check("ssl-mode=REQUIRED");
    assert!(required.contains("hint: give the server a certificate"), "{required}");
}

#[test]
fn tables_have_keys_where_the_server_wants_them_and_a_refused_load_leaves_nothing() {
    let scratch = Scratch::new("mariadb-keys");
    let Some(mariadb) = MariaDb::start(scratch.path(), &[]) else { return skip("MariaDB is not installed") };
    let load = |more: &[&str]| {
        let mut command = millrace();
        command.args(["orders", "load", "--warehouses", "1", "-j", "2", "-d", &mariadb.dsn()]).args(more);
        command.output().unwrap()
    };
    // This account may not create every table.
    mariadb.sql("CREATE USER half@'localhost' IDENTIFIED BY 'x'; GRANT CREATE, DROP ON millrace_orders.* TO half@'localhost'");
    let dsn = mariadb.dsn().replace("root@", "half:x@");
    let refused = millrace().args(["orders", "load", "--warehouses", "1", "-d", &dsn]).output().unwrap();
    assert!(!refused.status.success() && text(&refused).contains("hint: GRANT ALL ON millrace_orders.*"), "{}", text(&refused));
    assert_eq!(mariadb.sql("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'millrace_orders'").trim(), "0");

    mariadb.sql("SET GLOBAL innodb_force_primary_key = ON");
    let loaded = load(&[]);
    assert!(loaded.status.success(), "{}", text(&loaded));
    let keyless = "SELECT COUNT(*) FROM information_schema.tables t LEFT JOIN information_schema.table_constraints c \
                   ON c.table_schema = t.table_schema AND c.table_name = t.table_name AND c.constraint_type = 'PRIMARY KEY' \
                   WHERE t.table_schema = 'millrace_orders' AND c.constraint_name IS NULL";
    assert_eq!(mariadb.sql(keyless).trim(), "0");
    let again = load(&[]);
    assert!(text(&again).contains("DROP DATABASE millrace_orders") && !text(&again).contains("CASCADE"), "{}", text(&again));

    // A load that was killed while it created the tables is resumed.
    mariadb.sql(
        "USE millrace_orders; DROP TABLE order_line, new_order; UPDATE config SET loaded = 0; DELETE FROM load_progress \
                 WHERE part IN (8, 9) OR part >= 100",
    );
    let resumed = load(&["--resume"]);
    assert!(resumed.status.success(), "{}", text(&resumed));
    succeed(millrace().args(["orders", "run", "-c", "2", "-T", "1", "-d", &mariadb.dsn()]));
    assert!(succeed(millrace().args(["orders", "check", "-d", &mariadb.dsn()])).contains("12 passed, 0 failed"));
}

/// A packet of the protocol: its length in three bytes, its number, its bytes.
fn packet(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    [&length[..3], &[number], bytes].concat()
}

#[test]
fn no_answer_of_a_server_ends_the_program_by_a_panic() {
    // This server asks for a password under its public key, and sends something that is not a key.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        // Protocol 10: version, connection, nonce, capabilities with 4.1 and plugins, collation, status.
        let (low, high) = (0xf7ff_u16 & !0x0800, 0x81ff_u16);
        let mut hello = b"\x0a8.0.30\0\x01\0\0\0abcdefgh\0".to_vec();
        hello.extend(low.to_le_bytes());
        hello.extend([33, 2, 0]);
        hello.extend(high.to_le_bytes());
        hello.extend([21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        hello.extend(b"ijklmnopqrst\0caching_sha2_password\0");
        let mut buffer = [0; 4096];
        let mut exchange = |bytes: Vec<u8>| peer.write_all(&bytes).is_ok() && peer.read(&mut buffer).is_ok_and(|count| count > 0);
        // Greeting, full authentication, the key.
        let _ = exchange(packet(0, &hello)) && exchange(packet(2, &[1, 4])) && exchange(packet(4, b"\x01not a key"));
    });
    let dsn = format!("mysql://clerk:x@127.0.0.1:{port}/?ssl-mode=DISABLED");
    let output = millrace().args(["orders", "check", "-d", &dsn]).output().unwrap();
    server.join().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("hint: is this a MariaDB or MySQL server?") && !said.contains("panicked"), "{said}");
}
