use super::*;
use crate::listener::ListenerRole;
use crate::nfs::policy::{Network, Peer, Refusal, Security, Squash};
use std::io::ErrorKind;
use std::net::Ipv6Addr;
use volume::{CacheMode, Options, ReadAhead};

fn names(name: &str) -> std::io::Result<Vec<IpAddr>> {
    match name {
        "db.example" => Ok(vec!["10.9.0.1".parse().unwrap(), "fd00::9".parse().unwrap()]),
        _ => Err(ErrorKind::NotFound.into()),
    }
}

fn parse(text: &str) -> Result<Settings, ConfigError> {
    Settings::parse(text, Path::new("/etc/filer.toml"), Path::new("/var/lib/millrace"), &names)
}

/// The line and reason of the error.
fn wrong(text: &str) -> (usize, String) {
    match parse(text) {
        Err(ConfigError::Line { line, reason, .. }) => (line, reason),
        other => panic!("{other:?}"),
    }
}

fn rights(volume: &VolumeSettings, address: &str) -> Result<Rights, Refusal> {
    let peer = Peer::at(SocketAddr::new(address.parse().unwrap(), 700), ListenerRole::Nfs);
    // Without TLS, or with a certificate if a rule requires one.
    volume.policy.judge(&peer).or_else(|_| volume.policy.judge(&Peer { security: Security::Certified, ..peer }))
}

const LEAST: &str = "[[volume]]\nname = \"data\"\ndir = \"/srv/data\"\nclients = [\"*\"]\n";

const UNDER_TLS: &str = "[filer]\ntls_cert = \"/x\"\ntls_key = \"/x\"\n";

#[test]
fn the_least_file_says_a_name_a_directory_and_who_may_use_it() {
    let settings = parse(LEAST).unwrap();
    assert_eq!(settings.listen, ["127.0.0.1:2049".parse().unwrap()]);
    assert_eq!((settings.state.as_path(), settings.portmap.len()), (Path::new("/var/lib/millrace"), 0));
    assert_eq!(settings.admin, Path::new("/var/lib/millrace/admin.sock"));
    assert_eq!(settings.metrics, None);
    let [volume] = &settings.volumes[..] else { panic!("{settings:?}") };
    assert_eq!((volume.path.as_str(), volume.volume.dir.as_path()), ("/data", Path::new("/srv/data")));
    assert_eq!(volume.volume.state_dir, Path::new("/var/lib/millrace/data"));
    assert_eq!(volume.policy, Policy::open(Rights::default()));
}

const ALL_KEYS: &str = r#"
[filer]
listen = ["10.1.0.5:2049", "[fd00::5]:2049"]
portmap = ["10.1.0.5:111"]
state = "/srv/state"
admin = "/run/filer.sock"
tls_cert = "/etc/filer.pem"
tls_key = "/etc/filer.key"
tls_client_ca = "/etc/ca.pem"
metrics = "[::1]:9100"
[[volume]]
name = "data"
path = "/db/data"
dir = "/srv/data"
state = "/srv/elsewhere"
clients = ["10.1.0.0/16", "db.example"]
access = "rw"
squash = "all"
anonymous_uid = 70
anonymous_gid = 71
privileged_ports = true
quota = "500GiB"
tls = "mutual"
medium = "nvme"
durability = "sync"
cache = "dropbehind"
read_ahead = "minimal"
exclusive = true
faults = ["slow-flush,delay_ms=5,rate=0.1", "drop-reply,on=READ"]
loss_layer = true
loss_seed = 7
[[volume.rule]]
clients = ["10.1.9.0/24"]
access = "ro"
squash = "none"
privileged_ports = false
tls = "off"
[[volume]]
name = "other"
dir = "/srv/other"
clients = ["::1"]
"#;

#[test]
fn every_key_is_taken() {
    let settings = parse(ALL_KEYS).unwrap();
    assert_eq!(settings.metrics, Some(SocketAddr::from((Ipv6Addr::LOCALHOST, 9100))));
    assert!(settings.listen.len() == 2 && settings.listen[1].is_ipv6() && settings.portmap[0].port() == 111);
    let volume = &settings.volumes[0];
    assert_eq!((volume.volume.loss, volume.medium.as_deref()), (Some(LossConfig { seed: 7 }), Some("nvme")));
    let faults: Vec<String> = volume.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["slow-flush,rate=0.1,delay_ms=5", "drop-reply,on=READ"]);
    assert_eq!((volume.volume.state_dir.as_path(), volume.path.as_str()), (Path::new("/srv/elsewhere"), "/db/data"));
    let chosen = Options { cache: CacheMode::DropBehind, read_ahead: ReadAhead::Minimal, exclusive: true, ..Options::default() };
    assert_eq!([volume.volume.options, settings.volumes[1].volume.options], [chosen, Options::default()]);
    assert_eq!((volume.quota, settings.volumes[1].quota), (Some(500 << 30), None));
    let all = Rights {
        squash: Squash::All,
        anonymous_uid: 70,
        anonymous_gid: 71,
        privileged_ports: true,
        read_only: false,
        tls: TlsRule::Mutual,
    };
    assert_eq!(rights(volume, "10.1.1.1"), Ok(all));
    assert_eq!(rights(volume, "10.9.0.1"), Ok(all), "a host by its first address");
    assert_eq!(rights(volume, "fd00::9"), Ok(all), "and by its second");
    let ro = Rights { squash: Squash::None, read_only: true, privileged_ports: false, tls: TlsRule::Off, ..all };
    assert_eq!(rights(volume, "10.1.9.1"), Ok(ro), "a rule goes before the volume's own clients, and takes the rest from it");
    assert_eq!(rights(volume, "10.2.0.1"), Err(Refusal::NoClient));
    assert_eq!(settings.volumes[1].policy.rules[0].clients[0].networks, [Network::of("::1".parse().unwrap())]);
}

#[test]
fn a_fault_that_makes_no_sense_is_an_error_of_its_line() {
    let (line, reason) = wrong(&format!("{LEAST}faults = [\"slow\"]\n"));
    assert!(line == 5 && reason.contains("slow needs delay_ms"), "{line}: {reason}");
}

#[test]
fn an_unknown_key_is_an_error_that_names_its_line_and_the_keys_there_are() {
    for (text, line, key, known) in [
        (format!("{LEAST}acess = \"ro\"\n"), 5, "acess", "did you mean `access`?"),
        (format!("[filer]\nlisten_on = []\n{LEAST}"), 2, "listen_on", "`listen`"),
        (format!("{LEAST}\n[[volume.rule]]\nclients = [\"*\"]\ndir = \"/x\"\n"), 8, "dir", "`squash`"),
        (format!("{LEAST}[[volumes]]\nname = \"x\"\n"), 5, "volumes", "`volume`"),
    ] {
        let (at, reason) = wrong(&text);
        assert!(at == line && reason.contains(&format!("unknown field `{key}`")) && reason.contains(known), "{at}: {reason}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_line() {
    let with = |key: &str| format!("{LEAST}{key}\n");
    let clients = |clients: &str| LEAST.replace("[\"*\"]", clients);
    let iscsi = |tables: &str| format!("{tables}{LEAST}");
    for (text, line, said) in [
        (String::new(), 1, "no [[volume]]"),
        (format!("[filer]\nlisten = [\"127.0.0.1\"]\n{LEAST}"), 2, "listen \"127.0.0.1\": give ADDR:PORT or a port"),
        (
            format!("[filer]\nmetrics = true\n{LEAST}"),
            2,
            "metrics: boolean `true` is not accepted: write an address with a port, as in metrics = \"127.0.0.1:9749\"",
        ),
        (format!("[filer]\nmetrics = 70000\n{LEAST}"), 2, "metrics \"70000\": give ADDR:PORT or a port"),
        (with("quota = \"0\""), 5, "quota \"0\" refuses every write"),
        (with("access = \"w\""), 5, "access: `w` is not accepted: write \"rw\" or \"ro\""),
        (with("squash = \"some\""), 5, "squash: `some` is not accepted: write \"root\", \"all\""),
        (with("tls = \"on\""), 5, "tls: `on` is not accepted: write \"off\""),
        (with("tls = \"required\""), 5, "tls: this needs tls_cert and tls_key in [filer]"),
        (format!("{UNDER_TLS}{LEAST}tls = \"mutual\"\n"), 8, "tls_client_ca"),
        (format!("[filer]\ntls_key = \"/x\"\n{LEAST}"), 2, "together"),
        (with("anonymous_uid = 4294967295"), 5, "not a valid id"),
        (with("anonymous_gid = -1"), 5, "anonymous_gid: integer `-1` is not accepted: write a number"),
        (with("path = \"data\""), 5, "begin it with /"),
        (with("path = \"/a/../b\""), 5, "leave out .."),
        (with("state = \"state\""), 5, "absolute"),
        (with("medium = \"floppy\""), 5, "floppy"),
        (with("cache = \"none\""), 5, "cached, write-around, direct, dropbehind"),
        (with("read_ahead = \"off\""), 5, "host, minimal"),
        (with("durability = \"none\""), 5, "sync, battery"),
        (with("durability = \"battery\"\nloss_layer = true"), 1, "loses nothing"),
        (with("quota = \"ten\""), 5, "500GiB"),
        (with("quota = 10"), 5, "quota: integer `10` is not accepted: write a size, as in quota = \"500GiB\""),
        (with("squash = none"), 5, "write \"root\", \"all\" or \"none\", as in squash = \"none\""),
        (with("loss_seed = 3"), 1, "loss_layer"),
        (with("name = \"twice\""), 5, "name: duplicate key: remove one of the two lines"),
        (LEAST.replace("/srv/data", "srv/data"), 3, "dir: srv/data is not an absolute path: begin it with /"),
        (LEAST.replace("\"data\"", "\"../data\""), 2, "not a volume name"),
        (LEAST.replace("name = \"data\"\n", ""), 1, "missing field `name`: add name = \"data\""),
        (LEAST.replace("clients = [\"*\"]\n", ""), 1, "missing field `clients`"),
        (LEAST.replace("[[", "[").replace("]]", "]") + LEAST, 5, "write each volume as [[volume]]"),
        (clients("[\"*\",\n7]"), 5, "clients: integer `7` is not accepted: write a list"),
        (clients("[]"), 4, "clients is empty"),
        (clients("[\"*\",\n\"10.1.0.0/33\"]"), 5, "32 bits"),
        (clients("[\"10.1.0.1/16\"]"), 4, "after the first 16"),
        (clients("[\"10.1.0/16\"]"), 4, "not a network"),
        (clients("[\"10.0.0.*\"]"), 4, "not a client"),
        (clients("[\"gone.example\"]"), 4, "failed to look up"),
        (
            iscsi(
                "[[iscsi.user]]\nname = \"a\"\nsecret = \"the old secret\"\n[[iscsi.user]]\nname = \"a\"\nsecret = \"a new secret\"\n",
            ),
            5,
            "user \"a\" is already defined on line 2",
        ),
        (iscsi("[[iscsi.group]]\nname = \"a\"\ninitiators = [\"iqn.bad\"]\n"), 3, "iqn.YEAR-MONTH.DOMAIN"),
        (iscsi("[[iscsi.group]]\nname = \"a\"\ninitiators = [\"iqn.2026-11.org.example:a b\"]\n"), 3, "contains a blank"),
        (format!("{LEAST}{LEAST}"), 5, "is already defined on line 1"),
        (format!("{LEAST}{}", LEAST.replace("\"data\"", "\"x\"\npath = \"/data/\"")), 5, "is already used by volume \"data\""),
    ] {
        let (at, reason) = wrong(&text);
        assert!(at == line && reason.contains(said), "line {at}: {reason}\nof\n{text}");
    }
}

#[test]
fn a_port_alone_is_one_of_the_loopback_address_as_on_the_command_line() {
    let settings = parse(&format!("[filer]\nlisten = [\"2050\", 2051]\nmetrics = 9100\n{LEAST}")).unwrap();
    let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!((settings.listen, settings.metrics), (vec![loopback(2050), loopback(2051)], Some(loopback(9100))));
}

#[test]
fn the_example_is_a_configuration() {
    let settings = parse(include_str!("../../../../dist/filer.toml")).unwrap();
    assert_eq!(settings.volumes.len(), 1);
    assert!(rights(&settings.volumes[0], "10.1.9.3").unwrap().read_only);
}
