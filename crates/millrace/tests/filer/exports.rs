//! Several volumes with their own rules in one file: the access of each client, and what a reload
//! changes while clients are connected.

use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::configured::{Configured, serve, write};
use crate::support::wire::Wire;
use crate::support::{Scratch, await_until, find_program, is_root, millrace, skip, text};
use nfs_proto::channel1::{self, AttachArgs};
use nfs_proto::mount3::{self, MountStatus};
use nfs_proto::nfs3::{self, FsStatResult, NfsStatus, ObjectArgs, Procedure, StableHow};
use nfs_proto::portmap2::{self, IPPROTO_TCP, Mapping};
use nfs_proto::rpc::ReplyStatus;

/// Two volumes: `open` for both loopbacks, `closed` only for IPv4.
const TWO: &str = r#"
[[volume]]
name = "open"
dir = "DIR/open"
clients = ["127.0.0.0/8", "::1"]
squash = "none"

[[volume]]
name = "closed"
path = "/db/closed"
dir = "DIR/closed"
clients = ["127.0.0.1"]
squash = "none"
"#;

fn scratch(label: &str, folders: &[&str]) -> Scratch {
    let scratch = Scratch::new(label);
    for folder in folders {
        scratch.folder(folder);
    }
    scratch
}

fn connect(address: &str, port: u16) -> Wire {
    let stream = TcpStream::connect((address, port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    Wire { stream, xid: 1, uid: 0, gid: 0, groups: Vec::new() }
}

fn v4(filer: &Configured) -> Wire {
    connect("127.0.0.1", filer.port(0))
}

fn v6(filer: &Configured) -> Wire {
    connect("::1", filer.port(1))
}

/// A client that reads and copies files of the filer over IPv4.
#[derive(Clone, Copy, Debug)]
enum Client {
    Ours,
    Libnfs,
    /// libnfs, run by a user that may not use ports below 1024.
    LibnfsOfNobody,
}

impl Client {
    /// Why the client cannot be tested here.
    fn missing(self) -> Option<&'static str> {
        let lacks = |programs: &[&str]| programs.iter().any(|program| find_program(program).is_none());
        match self {
            Self::Ours => None,
            Self::Libnfs | Self::LibnfsOfNobody if lacks(&["nfs-cat", "nfs-cp"]) => {
                Some("libnfs tools are not installed (libnfs-utils)")
            }
            Self::LibnfsOfNobody if !is_root() || lacks(&["setpriv"]) => Some("only root can become nobody, by setpriv"),
            _ => None,
        }
    }

    /// Runs `cat` or `cp` with these arguments and a path of the filer.
    fn run(self, action: &str, before: &[&str], filer: &Configured, path: &str) -> Output {
        let port = filer.port(0);
        let url = format!("nfs://127.0.0.1{path}?version=3&nfsport={port}&mountport={port}");
        let tool = format!("nfs-{action}");
        let mut command = match self {
            Self::Ours => millrace(),
            Self::Libnfs => Command::new(&tool),
            Self::LibnfsOfNobody => Command::new("setpriv"),
        };
        match self {
            Self::Ours => command.args(["nfs", action]),
            Self::Libnfs => &mut command,
            Self::LibnfsOfNobody => command.args(["--reuid=65534", "--regid=65534", "--clear-groups", tool.as_str()]),
        };
        command.args(before).arg(url).output().unwrap()
    }

    fn read(self, filer: &Configured, volume: &str) -> Output {
        self.run("cat", &[], filer, &format!("/{volume}/there"))
    }

    fn copy(self, filer: &Configured, source: &str, volume: &str) -> Output {
        self.run("cp", &[source], filer, &format!("/{volume}/by-{self:?}"))
    }
}

/// Runs Millrace's client over IPv6.
fn ours(filer: &Configured, action: &str, path: &str) -> Output {
    let port = filer.port(1);
    let url = format!("nfs://[::1]:{port}{path}?nfsport={port}&mountport={port}");
    millrace().args(["nfs", action, &url]).output().unwrap()
}

#[test]
fn a_client_that_no_rule_names_gets_neither_mount_nor_file_nor_the_use_of_a_handle() {
    let scratch = scratch("outside", &["open", "closed"]);
    let filer = Configured::start(&scratch, TWO);
    let (mut inside, mut outside) = (v4(&filer), v6(&filer));
    let dir = inside.mount("/db/closed").unwrap();
    let file = inside.create(dir, "file");
    assert_eq!(outside.mount("/db/closed"), Err(MountStatus::Acces));
    assert_eq!(outside.getattr(file).unwrap_err().status, NfsStatus::Acces);
    assert_eq!(outside.lookup(dir, "file").unwrap_err().status, NfsStatus::Acces);
    assert_eq!(outside.try_write(file, 0, b"x", StableHow::FileSync).unwrap_err().status, NfsStatus::Acces);
    let open = outside.mount("/open").unwrap();
    outside.create(open, "file");
    assert!(scratch.path().join("open/file").exists() && scratch.path().join("closed/file").exists());
    let (refused, served) = (ours(&filer, "ls", "/db/closed"), ours(&filer, "ls", "/open"));
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(served.status.success() && text(&served).contains("file"), "{}", text(&served));
}

#[test]
fn fences_are_served_to_those_who_may_use_an_export_and_to_nobody_else() {
    let scratch = scratch("fences", &["closed"]);
    let filer = Configured::start(&scratch, TWO.split_once("\n\n").unwrap().1);
    let attached = |mut wire: Wire| {
        let root = nfs_proto::nfs3::FileHandle::new(&[1; 16]).unwrap();
        let args = AttachArgs { instance: 0, process: 1, channel: 1, generation: 1, secret: 1, root };
        wire.raw(channel1::PROGRAM, channel1::VERSION, channel1::Procedure::Attach.number(), &args).status()
    };
    assert_eq!(attached(v4(&filer)), ReplyStatus::Success);
    assert_eq!(attached(v6(&filer)), ReplyStatus::ProgramUnavailable, "what is remembered of fences is not theirs to fill");
    assert_eq!(attached(connect("127.0.0.1", filer.portmap())), ReplyStatus::ProgramUnavailable);
}

/// A volume for each rule. All users of the host may write to its directory, which contains a file.
fn one_volume_a_rule(scratch: &Scratch) -> String {
    let rules = [
        ("root", "127.0.0.1", "squash = \"root\"\nanonymous_uid = 7001\nanonymous_gid = 7002"),
        ("none", "127.0.0.1", "squash = \"none\""),
        ("all", "127.0.0.0/8", "squash = \"all\"\nanonymous_uid = 7003\nanonymous_gid = 7004"),
        ("ro", "127.0.0.1", "access = \"ro\"\nsquash = \"none\""),
        ("outside", "127.0.0.2/31", "squash = \"none\""),
        ("family", "::1", "squash = \"none\""),
        ("privileged", "127.0.0.1", "squash = \"none\"\nprivileged_ports = true"),
    ];
    let mut text = String::new();
    for (name, clients, rest) in rules {
        let dir = scratch.folder(name);
        std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        std::fs::write(dir.join("there"), b"there\n").unwrap();
        text += &format!("[[volume]]\nname = \"{name}\"\ndir = \"DIR/{name}\"\nclients = [\"{clients}\"]\n{rest}\n");
    }
    text
}

/// Asserts that the client can read and copy what the rules of each volume allow.
fn gets_what_the_rules_say(client: Client) {
    if let Some(reason) = client.missing() {
        return skip(reason);
    }
    let scratch = Scratch::new("rules");
    let filer = Configured::start(&scratch, &one_volume_a_rule(&scratch));
    let place = scratch.path().join("source");
    std::fs::write(&place, b"copied\n").unwrap();
    let source = place.to_str().unwrap();
    let is_nobody = matches!(client, Client::LibnfsOfNobody);
    let own = if is_nobody { (65_534, 65_534) } else { (0, 0) };
    for (name, owner) in [("root", (7001, 7002)), ("none", own), ("all", (7003, 7004))] {
        let owner = if name == "root" && is_nobody { own } else { owner };
        let (read, copied) = (client.read(&filer, name), client.copy(&filer, source, name));
        assert!(read.status.success() && read.stdout == b"there\n", "{client:?} {name}: {}", text(&read));
        assert!(copied.status.success(), "{client:?} {name}: {}", text(&copied));
        let made = std::fs::metadata(scratch.path().join(name).join(format!("by-{client:?}"))).unwrap();
        // A filer that is not root serves only its own user, and makes everything as that user.
        assert!(!is_root() || (made.uid(), made.gid()) == owner, "{client:?} {name}: {}:{}", made.uid(), made.gid());
    }
    let read = client.read(&filer, "ro");
    assert!(read.status.success() && read.stdout == b"there\n", "{client:?}: {}", text(&read));
    // libnfs uses a port below 1024 if it may. Millrace's client never does.
    let privileged = matches!(client, Client::Libnfs) && is_root();
    assert_eq!(client.read(&filer, "privileged").status.success(), privileged, "{client:?}");
    let refused: &[&str] = if privileged { &["outside", "family"] } else { &["outside", "family", "privileged"] };
    for name in refused {
        let read = client.read(&filer, name);
        assert!(!read.status.success() && read.stdout.is_empty(), "{client:?} {name}: {}", text(&read));
    }
    for name in refused.iter().chain(&["ro"]) {
        let copied = client.copy(&filer, source, name);
        let there = scratch.path().join(name).join(format!("by-{client:?}"));
        assert!(!copied.status.success() && !there.exists(), "{client:?} {name}: {}", text(&copied));
    }
}

#[test]
fn our_client_gets_what_the_rules_of_each_export_say() {
    gets_what_the_rules_say(Client::Ours);
}

#[test]
fn libnfs_gets_what_the_rules_of_each_export_say() {
    gets_what_the_rules_say(Client::Libnfs);
}

#[test]
fn libnfs_of_a_user_without_privilege_gets_what_the_rules_of_each_export_say() {
    gets_what_the_rules_say(Client::LibnfsOfNobody);
}

#[test]
fn a_port_that_needs_no_privilege_is_refused_at_the_mount_and_at_every_call() {
    let scratch = Scratch::new("port");
    let filer = Configured::start(&scratch, &one_volume_a_rule(&scratch));
    let mut wire = v4(&filer);
    assert_eq!(wire.mount("/privileged"), Err(MountStatus::Perm));
    let dir = wire.mount("/none").unwrap();
    let file = wire.create(dir, "file");
    filer.edit(|text| text.replacen("squash = \"none\"\n", "squash = \"none\"\nprivileged_ports = true\n", 1));
    assert_eq!(filer.order(&["reload"]), "changed: none\n");
    assert_eq!(wire.getattr(file).unwrap_err().status, NfsStatus::Perm, "a handle got before does not help");
    assert_eq!(wire.try_write(file, 0, b"x", StableHow::FileSync).unwrap_err().status, NfsStatus::Perm);
}

#[test]
fn a_reload_changes_the_rules_of_a_connection_that_is_there() {
    let scratch = scratch("reload", &["open", "closed", "third"]);
    let filer = Configured::start(&scratch, TWO);
    let mut wire = v4(&filer);
    let dir = wire.mount("/open").unwrap();
    let file = wire.create(dir, "file");
    wire.write(file, 0, b"one", StableHow::FileSync);
    filer.edit(|text| text.replacen("squash = \"none\"", "squash = \"none\"\naccess = \"ro\"", 1));
    assert_eq!(filer.order(&["reload"]), "changed: open\n");
    assert_eq!(wire.try_write(file, 0, b"two", StableHow::FileSync).unwrap_err().status, NfsStatus::RoFs);
    assert!(wire.getattr(file).is_ok());
    let closed = wire.mount("/db/closed").unwrap();
    assert!(wire.getattr(closed).is_ok(), "the other volume is as it was");
    filer.edit(|text| text.replacen("access = \"ro\"", "access = \"rw\"", 1));
    filer.signal("HUP");
    await_until("the rules of before", Duration::from_secs(30), || wire.try_write(file, 0, b"two", StableHow::FileSync).ok());
    let here = scratch.path().to_str().unwrap().to_owned();
    filer.edit(|text| format!("{text}\n[[volume]]\nname = \"third\"\ndir = \"{here}/third\"\nclients = [\"*\"]\n"));
    assert_eq!(filer.order(&["reload"]), "added: third\n");
    assert!(wire.mount("/third").is_ok());
    assert!(wire.getattr(file).is_ok(), "the connection and its handles are those of the start");
    filer.edit(|text| text.replacen("127.0.0.1:0", "127.0.0.1:1", 1));
    assert_eq!(filer.order(&["reload"]), "takes effect at the next start: listen of [filer]\n");
    filer.edit(|text| text.replacen("127.0.0.1:1", "127.0.0.1:0", 1));
    assert_eq!(filer.order(&["reload"]), "nothing has changed\n");
}

#[test]
fn a_volume_taken_out_is_served_no_more_and_can_come_back_with_its_handles() {
    let scratch = scratch("out", &["open", "closed"]);
    let filer = Configured::start(&scratch, TWO);
    let (mut wire, mut idle) = (v4(&filer), v4(&filer));
    let dir = wire.mount("/db/closed").unwrap();
    let file = wire.create(dir, "file");
    assert!(idle.mount("/db/closed").is_ok());
    let mut whole = String::new();
    filer.edit(|text| {
        whole.clone_from(&text);
        text[..text.rfind("[[volume]]").unwrap()].to_owned()
    });
    assert_eq!(filer.order(&["reload"]), "removed: closed\n");
    assert_eq!(wire.mount("/db/closed"), Err(MountStatus::NoEnt));
    assert_eq!(wire.getattr(file).unwrap_err().status, NfsStatus::BadHandle);
    let open = wire.mount("/open").unwrap();
    assert!(wire.getattr(open).is_ok());
    // One connection has not called since then.
    filer.edit(|_| whole);
    assert_eq!(filer.order(&["reload"]), "added: closed\n");
    assert!(wire.getattr(file).is_ok() && idle.getattr(file).is_ok());
}

#[test]
fn a_volume_taken_out_is_closed_by_the_reload_although_connections_are_idle() {
    let scratch = scratch("out-idle", &["open", "closed"]);
    let filer = Configured::start(&scratch, TWO);
    let serving = || crate::parked::serving(filer.pid());
    // At the reload, one connection has no thread any more, and the other one waits for its next
    // call on its thread.
    let (mut parked, mut waiting) = (v4(&filer), v4(&filer));
    let dir = parked.mount("/db/closed").unwrap();
    let file = parked.create(dir, "file");
    parked.write(file, 0, b"kept", StableHow::FileSync);
    await_until("the connection to be parked", Duration::from_secs(20), || (serving() == 0).then_some(()));
    assert!(waiting.mount("/open").is_ok());
    let closed = scratch.path().join("closed");
    assert!(open_below(filer.pid(), &closed) > 0);
    filer.edit(|text| text[..text.rfind("[[volume]]").unwrap()].to_owned());
    assert_eq!(filer.order(&["reload"]), "removed: closed\n");
    assert_eq!(open_below(filer.pid(), &closed), 0, "the filer keeps the volume's directory open");
    assert_eq!(parked.getattr(file).unwrap_err().status, NfsStatus::BadHandle);
    assert!(waiting.mount("/open").is_ok());
}

/// Number of descriptors of a process that lead to `dir` or below it.
fn open_below(pid: u32, dir: &Path) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.starts_with(dir)).count()
}

#[test]
fn a_broken_file_changes_nothing_and_says_what_is_wrong_where() {
    let scratch = scratch("broken", &["open", "closed"]);
    let filer = Configured::start(&scratch, TWO);
    let mut wire = v4(&filer);
    let dir = wire.mount("/open").unwrap();
    let good = std::fs::read_to_string(scratch.path().join("filer.toml")).unwrap();
    for (from, to, said) in [
        ("squash = \"none\"", "squahs = \"none\"", ":10: unknown field `squahs`"),
        ("squash = \"none\"", "squahs = \"none\"", "`squash`"),
        ("\"::1\"", "\"::1/200\"", ":9: clients: \"::1/200\" is not a network: an address has 128 bits"),
        ("name = \"closed\"", "name = \"open\"", ":12: volume \"open\" is already defined on line 6"),
        ("DIR/closed", "DIR/missing", "/missing does not exist"),
        ("DIR/closed", "DIR/open", "are the same, or one is in the other"),
        ("squash", "[squash", ":10: "),
    ] {
        let here = scratch.path().to_str().unwrap();
        filer.edit(|_| {
            good.replacen(&from.replace("DIR", here), &to.replace("DIR", here), 1).replace("127.0.0.0/8", "10.0.0.0/8")
        });
        let output = filer.volume(&["reload"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains(said), "{said}: {}", text(&output));
        assert!(wire.getattr(dir).is_ok(), "the rules of before count");
        let output = serve(&scratch.path().join("filer.toml")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "it does not start either: {}", text(&output));
        assert!(text(&output).contains(said), "{}", text(&output));
    }
    std::fs::remove_file(scratch.path().join("filer.toml")).unwrap();
    assert_eq!(filer.volume(&["reload"]).status.code(), Some(1));
    filer.signal("HUP");
    assert!(wire.getattr(dir).is_ok());
    let other = Scratch::new("no-file");
    let one = crate::support::filer::Filer::start(&other, &[]);
    let output = millrace().args(["volume", "reload", "--admin"]).arg(&one.admin).output().unwrap();
    assert!(output.status.code() == Some(1) && text(&output).contains("--config"), "{}", text(&output));
}

#[test]
fn what_keeps_a_file_from_being_served_names_the_object_and_the_fix() {
    let scratch = scratch("missing", &["open"]);
    let here = scratch.path().display();
    let file = crate::support::configured::write(&scratch, TWO);
    let said = text(&serve(&file).output().unwrap());
    assert!(said.contains(&format!("millrace: cannot serve volume \"closed\": {here}/closed does not exist (")), "{said}");
    assert!(said.contains(&format!("hint: create it: mkdir -p {here}/closed\n")), "{said}");
    let misspelled = std::fs::read_to_string(&file).unwrap().replacen("squash", "squahs", 1);
    std::fs::write(&file, misspelled).unwrap();
    let said = text(&serve(&file).output().unwrap());
    let error = format!("cannot read the configuration {}:10: unknown field `squahs`: did you mean", file.display());
    assert!(said.contains(&error), "{said}");
}

#[test]
fn a_quota_stops_growth_before_anything_is_written_and_fsstat_shows_it() {
    let scratch = scratch("quota", &["open", "closed"]);
    std::fs::write(scratch.path().join("open/before"), [1; 3000]).unwrap();
    let filer = Configured::start(&scratch, &TWO.replacen("squash", "quota = \"10k\"\nsquash", 1));
    let mut wire = v4(&filer);
    let dir = wire.mount("/open").unwrap();
    let file = wire.create(dir, "file");
    let space = |wire: &mut Wire| {
        let reply = wire.nfs(Procedure::FsStat, &ObjectArgs { object: dir });
        let space = reply.results::<FsStatResult>().unwrap();
        (space.total_bytes, space.available_bytes)
    };
    assert_eq!(space(&mut wire), (10_240, 7240));
    assert_eq!(wire.try_write(file, 0, &[7; 7241], StableHow::Unstable).unwrap_err().status, NfsStatus::NoSpc);
    assert_eq!(wire.getattr(file).unwrap().attributes.size, 0);
    wire.write(file, 0, &[7; 7240], StableHow::FileSync);
    assert_eq!(space(&mut wire), (10_240, 0));
    wire.write(file, 0, &[8; 7240], StableHow::FileSync);
    filer.edit(|text| text.replacen("10k", "1M", 1));
    assert_eq!(filer.order(&["reload"]), "changed: open\n");
    wire.write(file, 7240, &[7; 100_000], StableHow::FileSync);
    assert_eq!(space(&mut wire), (1 << 20, (1 << 20) - 110_240));
}

#[test]
fn handles_of_several_volumes_outlive_the_filer() {
    let scratch = scratch("outlive", &["open", "closed"]);
    let filer = Configured::start(&scratch, TWO);
    let mut wire = v4(&filer);
    let handles = ["/open", "/db/closed"].map(|path| {
        let dir = wire.mount(path).unwrap();
        wire.create(dir, &format!("in{}", path.replace('/', "-")))
    });
    let before = handles.map(|handle| wire.getattr(handle).unwrap().attributes);
    drop(filer);
    let filer = Configured::start(&scratch, TWO);
    let mut wire = v4(&filer);
    let after = handles.map(|handle| wire.getattr(handle).unwrap().attributes);
    assert_eq!(before.map(|attr| (attr.fsid, attr.fileid)), after.map(|attr| (attr.fsid, attr.fileid)));
    assert_ne!(before[0].fsid, before[1].fsid);
}

#[test]
fn the_port_of_portmap_tells_where_nfs_is_and_serves_nothing_else() {
    let scratch = scratch("portmap", &["open", "closed"]);
    let filer = Configured::start(&scratch, TWO);
    let mut wire = connect("127.0.0.1", filer.portmap());
    for (program, version) in [(nfs3::PROGRAM, nfs3::VERSION), (mount3::PROGRAM, mount3::VERSION)] {
        let asked = Mapping { program, version, protocol: IPPROTO_TCP, port: 0 };
        let number = portmap2::Procedure::GetPort.number();
        let reply = wire.raw(portmap2::PROGRAM, portmap2::VERSION, number, &asked);
        assert_eq!(reply.results::<u32>(), u32::from(filer.port(0)));
        assert_eq!(wire.raw(program, version, 0, &()).status(), ReplyStatus::ProgramUnavailable);
    }
}

#[test]
fn the_service_manager_is_told_when_it_serves_and_when_it_stops() {
    let scratch = scratch("notify", &["open", "closed"]);
    let place = scratch.path().join("notify");
    let socket = UnixDatagram::bind(&place).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let file = write(&scratch, TWO);
    let mut command = serve(&file);
    command.env("NOTIFY_SOCKET", &place);
    let mut filer = Configured::spawn(file, command);
    let heard = || {
        let mut word = [0; 64];
        let bytes = socket.recv(&mut word).unwrap();
        String::from_utf8_lossy(&word[..bytes]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    assert!(v6(&filer).mount("/open").is_ok());
    filer.signal("TERM");
    assert_eq!(heard(), "STOPPING=1");
    assert_eq!(filer.ended(), Some(0));
}
