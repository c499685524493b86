//! `millrace volume list | show | create | resize | set`: queries and changes of what a running filer serves.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::support::configured::Configured;
use crate::support::filer::Filer;
use crate::support::wire::Wire;
use crate::support::{Scratch, may_make_namespaces, millrace, text};
use nfs_proto::mount3::MountStatus;
use nfs_proto::nfs3::{NfsStatus, StableHow};
use serde_json::{Value, json};

const ONE: &str = r#"
# What the first is for.
[[volume]]
name = "first"
dir = "DIR/first"
clients = ["127.0.0.0/8"] # all of us
squash = "none"

[[volume.rule]]
clients = ["127.9.9.9"]
access = "ro"
"#;

struct Served {
    scratch: Scratch,
    filer: Configured,
}

impl Served {
    fn start(label: &str) -> Self {
        let scratch = Scratch::new(label);
        scratch.folder("first");
        let filer = Configured::start(&scratch, ONE);
        Self { scratch, filer }
    }

    fn file(&self) -> PathBuf {
        self.scratch.path().join("filer.toml")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).to_str().unwrap().to_owned()
    }

    fn wire(&self) -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", self.filer.port(0))).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Wire { stream, xid: 1, uid: 0, gid: 0, groups: Vec::new() }
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let with_json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.filer.order(&with_json)).unwrap()
    }

    /// Asserts that the filer refuses an order with these words, and changes nothing.
    fn refused(&self, arguments: &[&str], said: &str) {
        // The volumes and their rules. The free space is not compared, because it changes with
        // other uses of the disk.
        let served = || {
            let list = self.json(&["list"])["volumes"].take();
            list.as_array().unwrap().iter().map(|volume| (volume["name"].clone(), volume["rules"].clone())).collect::<Vec<_>>()
        };
        let before = (self.text(), served());
        let output = self.filer.volume(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(said), "{arguments:?} should say {said}: {}", text(&output));
        assert_eq!((self.text(), served()), before, "{arguments:?} changed something");
    }
}

#[test]
fn volumes_are_listed_and_shown_to_people_and_programs() {
    let served = Served::start("list");
    let list = served.filer.order(&["list"]);
    let lines: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["volume", "path", "size", "free", "state", "directory"]);
    assert_eq!((lines[1][0], lines[1][1], lines[1][4]), ("first", "/first", "served"));
    let shown = served.filer.order(&["show", "first"]);
    for said in ["as /first", "no quota", "durability sync", "clients 127.9.9.9: ro", "clients 127.0.0.0/8: rw, no user squashed"]
    {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    let mut wire = served.wire();
    let root = wire.mount("/first").unwrap();
    wire.getattr(root).unwrap();
    let volume = served.json(&["show", "first"])["volume"].take();
    assert_eq!((&volume["path"], &volume["calls"]), (&json!("/first"), &json!(1)));
    assert_eq!((&volume["quota_bytes"], &volume["poisoned"]), (&Value::Null, &json!(false)));
    assert_eq!(volume["rules"][1]["clients"], json!(["127.0.0.0/8"]));
    assert!(["handles", "handles-by-name"].contains(&volume["identity"].as_str().unwrap()), "{volume}");
    assert_eq!(served.json(&["list"])["volumes"][0]["dir"], volume["dir"]);
    served.refused(&["show", "frist"], "the filer serves first");
}

#[test]
fn a_volume_created_by_command_is_served_at_once_and_after_a_restart() {
    let served = Served::start("create");
    let mut wire = served.wire();
    assert_eq!(wire.mount("/db/new"), Err(MountStatus::NoEnt));
    let before = served.text();
    let dir = served.path("new");
    let order = [
        "create",
        "new",
        "--dir",
        &dir,
        "--clients",
        "127.0.0.1,::1",
        "--path",
        "/db/new",
        "--quota",
        "64KiB",
        "--force",
        "squash=none",
    ];
    assert_eq!(served.filer.order(&order), "added: new\n");
    let root = wire.mount("/db/new").unwrap();
    let file = wire.create(root, "file");
    wire.write(file, 0, &[1; 65_536], StableHow::FileSync);
    assert_eq!(wire.try_write(file, 65_536, b"x", StableHow::FileSync).unwrap_err().status, NfsStatus::NoSpc);
    assert!(served.text().starts_with(&before), "what was written before stays as it was: {}", served.text());
    assert!(served.filer.order(&["show", "new"]).contains("quota 64KiB, 64KiB of it used"));
    let Served { scratch, filer } = served;
    drop(filer);
    let filer = Configured::spawn(
        scratch.path().join("filer.toml"),
        crate::support::configured::serve(&scratch.path().join("filer.toml")),
    );
    let served = Served { scratch, filer };
    let mut wire = served.wire();
    assert_eq!(wire.getattr(file).unwrap().attributes.size, 65_536, "the handle of before");
    assert_eq!(wire.try_write(file, 65_536, b"x", StableHow::FileSync).unwrap_err().status, NfsStatus::NoSpc);
}

#[test]
fn what_cannot_be_created_leaves_file_and_service_as_they_were() {
    let served = Served::start("refused");
    let (dir, below, far) = (served.path("new"), served.path("first/below"), served.path("no/such"));
    let create = |name: &'static str, dir: &str, clients: &str, more: &[&str], said: &str| {
        let order = ["create", name, "--dir", dir, "--clients", clients];
        served.refused(&order.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>(), said);
        assert!(!PathBuf::from(&dir).exists() || dir.ends_with("/first"), "{dir} was made and is left");
    };
    create("first", &dir, "*", &[], "a volume of that name exists");
    create("a/b", &dir, "*", &[], "not a volume name");
    create("new", &far, "*", &[], "does not exist");
    create("new", &below, "*", &[], "is in the other");
    create("new", &served.path("first"), "*", &[], "are the same");
    create("new", &dir, "*", &["--quota", "1k"], "a quota of 1KiB is less than one WRITE");
    create("new", &dir, "10.0.0.1/8", &[], "is not a network");
    // The command refuses a list without clients before it asks the filer.
    let empty = served.filer.volume(&["create", "new", "--dir", &dir, "--clients", ""]);
    assert!(empty.status.code() == Some(2) && text(&empty).contains("--clients"), "{}", text(&empty));
    create("new", &dir, "*", &["sqash=none"], "unknown field `sqash`: did you mean `squash`?");
    create("new", &dir, "*", &["squash=some"], "squash: `some` is not accepted: write \"root\"");
    create("new", &dir, "*", &["anonymous_uid=me"], "takes a number");
    create("new", &dir, "*", &["path=/first"], "is already used by volume \"first\"");
    create("new", &dir, "*", &["--quota", "ten"], "500GiB");
    create("new", &dir, "*", &["medium=floppy"], "floppy");
    // The filer cannot write the new file, because there is a directory with its name.
    served.scratch.folder(".filer.toml.new");
    create("new", &dir, "*", &[], "write ");
    served.refused(&["set", "first", "access=ro"], "write ");
}

#[test]
fn a_volume_is_resized_while_clients_write() {
    let served = Served::start("resize");
    let mut wire = served.wire();
    let root = wire.mount("/first").unwrap();
    let file = wire.create(root, "file");
    wire.write(file, 0, &[1; 10_000], StableHow::FileSync);
    served.refused(
        &["resize", "first", "16k"],
        "a quota of 16KiB is less than one WRITE of a client (1MiB); choose a larger quota, or --force",
    );
    assert_eq!(served.filer.order(&["resize", "first", "16k", "--force"]), "changed: first\n");
    assert!(served.text().contains("quota = \"16KiB\""), "{}", served.text());
    assert_eq!(wire.try_write(file, 10_000, &[1; 10_000], StableHow::FileSync).unwrap_err().status, NfsStatus::NoSpc);
    assert_eq!(served.filer.order(&["resize", "first", "1MiB"]), "changed: first\n");
    wire.write(file, 10_000, &[1; 10_000], StableHow::FileSync);
    served.refused(&["resize", "first", "1"], "19.5KiB are in use: with a quota of 1 byte every write that allocates would fail");
    served.refused(&["set", "first", "quota=8k"], "19.5KiB are in use: with a quota of 8KiB");
    // A refused change has no effect.
    assert!(served.filer.order(&["show", "first"]).contains("quota 1MiB, 19.5KiB of it used"));
    assert_eq!(served.filer.order(&["resize", "first", "8k", "--force"]), "changed: first\n");
    assert!(served.filer.order(&["show", "first"]).contains("quota 8KiB, 19.5KiB of it used"));
    wire.write(file, 0, &[2; 20_000], StableHow::FileSync);
    assert_eq!(wire.try_write(file, 20_000, b"x", StableHow::FileSync).unwrap_err().status, NfsStatus::NoSpc);
    assert_eq!(served.filer.order(&["resize", "first", "none"]), "changed: first\n");
    wire.write(file, 20_000, b"x", StableHow::FileSync);
    assert_eq!(served.filer.order(&["resize", "first", "none"]), "nothing has changed\n");
    served.refused(&["resize", "second", "1G"], "it has first");
    let output = served.filer.volume(&["resize", "first", "large"]);
    assert!(output.status.code() == Some(2) && text(&output).contains("hint: as in 500GiB"), "{}", text(&output));
}

#[test]
fn keys_set_by_command_count_for_connections_that_are_there_and_the_file_keeps_its_words() {
    let served = Served::start("set");
    let mut wire = served.wire();
    let root = wire.mount("/first").unwrap();
    let file = wire.create(root, "file");
    let before = served.text();
    assert_eq!(served.filer.order(&["set", "first", "access=ro"]), "changed: first\n");
    assert_eq!(wire.try_write(file, 0, b"x", StableHow::FileSync).unwrap_err().status, NfsStatus::RoFs);
    assert_eq!(served.filer.order(&["set", "first", "clients=::1,127.0.0.2"]), "changed: first\n");
    assert_eq!(wire.getattr(file).unwrap_err().status, NfsStatus::Acces);
    assert!(served.text().contains("clients = [\"::1\", \"127.0.0.2\"] # all of us"), "{}", served.text());
    assert_eq!(served.filer.order(&["set", "first", "clients=127.0.0.0/8", "access="]), "changed: first\n");
    wire.write(file, 0, b"x", StableHow::FileSync);
    assert_eq!(served.text(), before, "back, with its comments and its rule");
    let later = served.filer.order(&["set", "first", "durability=battery"]);
    assert_eq!(later, "takes effect at the next start: durability of volume \"first\"\n");
    served.refused(&["set", "first", "acess=ro"], "unknown field `acess`: did you mean `access`?");
    served.refused(&["set", "first", "clients="], "clients");
    served.refused(&["set", "first", "name=other"], "edit it, then reload");
    served.refused(&["set", "second", "access=ro"], "it has first");
    // A file that an administrator has damaged stays as it is.
    let good = served.text();
    std::fs::write(served.file(), good.replacen("squash", "sqash", 1)).unwrap();
    served.refused(&["set", "first", "access=ro"], "filer.toml:");
    std::fs::write(served.file(), good).unwrap();
    for (arguments, said) in [(["set", "first", "ro"], "KEY=VALUE"), (["set", "first", "=ro"], "KEY=VALUE")] {
        let output = served.filer.volume(&arguments);
        assert!(output.status.code() == Some(2) && text(&output).contains(said), "{}", text(&output));
    }
}

#[test]
fn a_filer_of_one_directory_is_shown_and_says_why_it_cannot_be_changed() {
    let scratch = Scratch::new("one");
    let filer = Filer::start(&scratch, &[]);
    let order = |arguments: &[&str]| millrace().arg("volume").args(arguments).arg("--admin").arg(&filer.admin).output().unwrap();
    let list = order(&["list"]);
    assert!(list.status.success() && text(&list).contains("/vol"), "{}", text(&list));
    for arguments in [["set", "vol", "access=ro"], ["resize", "vol", "1G"]] {
        let output = order(&arguments);
        assert!(output.status.code() == Some(1) && text(&output).contains("--config"), "{}", text(&output));
    }
    let nobody = millrace().args(["volume", "list", "--admin", "/nonexistent/admin.sock"]).output().unwrap();
    assert!(nobody.status.code() == Some(2) && text(&nobody).contains("hint: start `millrace serve`"), "{}", text(&nobody));
}

/// A script for a place where no other process is visible: `$1` is millrace, `$2` a directory of
/// this test. Prints the output of `volume list`.
const FILERS: &str = r#"cd "$2"; mkdir one two
started() { until grep -qs '^admin socket' "$1"; do sleep 0.05; done; }
list() { echo "== $1"; "$millrace" volume list 2>&1 || echo "exit code $?"; }
millrace=$1
list none
"$millrace" serve one --listen 127.0.0.1:0 --state state-one > said-one 2> log-one & one=$!
started said-one; list one
"$millrace" serve two --listen 127.0.0.1:0 --state state-two --admin two.sock > said-two 2> log-two &
started said-two; list both
kill $one; wait $one; list two; cat said-one"#;

#[test]
fn the_only_filer_of_a_user_is_found_and_of_several_each_is_named() {
    if !may_make_namespaces() {
        return; // otherwise filers of other tests would be found
    }
    let scratch = Scratch::new("found");
    let mut command = Command::new("timeout");
    command.args([
        "-k",
        "5",
        "90",
        "unshare",
        "--pid",
        "--mount-proc",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        FILERS,
        "sh",
        env!("CARGO_BIN_EXE_millrace"),
    ]);
    let output = command.arg(scratch.path()).env_remove("MILLRACE_ADMIN").output().unwrap();
    let said = text(&output);
    let part = |name: &str| said.split("== ").find(|part| part.starts_with(name)).unwrap_or_else(|| panic!("{said}")).to_owned();
    let none = part("none");
    assert!(none.contains("no filer of this user runs on this host") && none.contains("exit code 2"), "{none}");
    assert!(part("one").contains("/vol"), "{said}");
    let both = part("both");
    assert!(both.contains("2 filers of this user run") && both.contains("exit code 2"), "{both}");
    for admin in ["state-one/admin.sock", "two.sock"] {
        assert!(both.contains(&format!("--admin {}", scratch.path().join(admin).display())), "{both}");
    }
    let two = part("two");
    assert!(two.contains("/vol"), "{two}");
    assert!(two.contains(&format!("admin socket {}", scratch.path().join("state-one/admin.sock").display())), "{two}");
}
