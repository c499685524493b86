//! What the filer reports to clients and tools: ports, URLs, file systems inside a volume, and a volume with another directory.

use crate::support::configured::{Configured, serve, write};
use crate::support::mounted::Mounted;
use crate::support::wire::{Reply, Wire};
use crate::support::{Scratch, millrace, text};
use nfs_proto::mount3::{self, MountStatus};
use nfs_proto::nfs3::{self, NfsStatus};
use nfs_proto::portmap2::{self, IPPROTO_TCP, Mapping};
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::Encode;
use std::net::UdpSocket;
use std::time::Duration;

/// A volume with this directory of the scratch folder.
fn volume(dir: &str) -> String {
    format!("[[volume]]\nname = \"open\"\ndir = \"DIR/{dir}\"\nclients = [\"*\"]\nsquash = \"none\"\n")
}

fn scratch(label: &str) -> Scratch {
    let scratch = Scratch::new(label);
    scratch.folder("open");
    scratch
}

fn connect(filer: &Configured) -> Wire {
    Wire::connect(filer.port(0))
}

/// RFC 1833 defines portmap over UDP and TCP. showmount(8) and rpcinfo(8) use UDP.
#[test]
fn portmap_answers_datagrams_of_clients_that_a_rule_names_and_no_other_program_answers_them() {
    let scratch = scratch("portmap-udp");
    let filer = Configured::start(&scratch, &volume("open"));
    let mut wire = Wire::connect(filer.portmap());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", filer.portmap())).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut ask = |program, version, procedure, args: &dyn Encode| {
        // After each call without a reply, the test sends one whose reply it receives.
        socket.send(&wire.record(program, version, procedure, args)[4..]).unwrap();
    };
    let asked = Mapping { program: mount3::PROGRAM, version: mount3::VERSION, protocol: IPPROTO_TCP, port: 0 };
    ask(nfs3::PROGRAM, nfs3::VERSION, 0, &());
    socket.send(b"no call").unwrap();
    ask(portmap2::PROGRAM, portmap2::VERSION, portmap2::Procedure::GetPort.number(), &asked);
    let mut datagram = [0; 1024];
    let bytes = socket.recv(&mut datagram).unwrap();
    assert_eq!(Reply(datagram[..bytes].to_vec()).results::<u32>(), u32::from(filer.port(0)));
    ask(portmap2::PROGRAM, 4, 3, &());
    let bytes = socket.recv(&mut datagram).unwrap();
    assert_eq!(Reply(datagram[..bytes].to_vec()).status(), ReplyStatus::ProgramMismatch { low: 2, high: 2 });
}

#[test]
fn the_url_that_is_printed_for_a_path_with_special_characters_can_be_used() {
    let scratch = scratch("printed-url");
    std::fs::write(scratch.path().join("open/a file"), "x").unwrap();
    let volume = "[[volume]]\nname = \"open\"\npath = \"/50%?x y#é\"\ndir = \"DIR/open\"\nclients = [\"*\"]\n";
    let filer = Configured::start(&scratch, volume);
    let listed = millrace().args(["nfs", "ls", filer.ready["nfs"].as_str().unwrap()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "a file\n", "{}", text(&listed));
}

#[test]
fn a_mount_inside_a_volume_is_refused_with_its_cause() {
    let scratch = scratch("crossing");
    let Some(_inside) = Mounted::tmpfs(scratch.path().join("open/inside"), 8) else { return };
    let file = write(&scratch, &volume("open"));
    let log = scratch.path().join("log");
    let mut command = serve(&file);
    command.stderr(std::fs::File::create(&log).unwrap());
    let filer = Configured::spawn(file, command);
    let mut wire = connect(&filer);
    let root = wire.mount("/open").unwrap();
    assert_eq!(wire.lookup(root, "inside").unwrap_err().status, NfsStatus::XDev);
    assert_eq!(wire.mount("/open/inside"), Err(MountStatus::NotSupp));
    let url = filer.ready["nfs"].as_str().unwrap().replacen("/open", "/open/inside", 1);
    let listed = millrace().args(["nfs", "ls", &url]).output().unwrap();
    assert!(text(&listed).contains("another file system") && !text(&listed).contains("squash"), "{}", text(&listed));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("a mount or a btrfs subvolume inside the volume") && log.contains("inside"), "{log}");
}

#[test]
fn handles_of_the_former_directory_of_a_volume_are_invalid() {
    let scratch = scratch("former");
    std::fs::write(scratch.path().join("open/secret"), "x").unwrap();
    scratch.folder("other");
    let mut filer = Configured::start(&scratch, &volume("open"));
    let mut wire = connect(&filer);
    let root = wire.mount("/open").unwrap();
    let secret = wire.lookup(root, "secret").unwrap().object;
    let end = |filer: &mut Configured| {
        filer.signal("TERM");
        assert_eq!(filer.ended(), Some(0));
    };
    end(&mut filer);
    filer = Configured::start(&scratch, &volume("open"));
    assert!(connect(&filer).getattr(secret).is_ok(), "after a restart with the same directory");
    end(&mut filer);
    filer = Configured::start(&scratch, &volume("other"));
    let mut wire = connect(&filer);
    for handle in [root, secret] {
        assert_eq!(wire.getattr(handle).unwrap_err().status, NfsStatus::BadHandle);
    }
    assert!(wire.mount("/open").is_ok());
    end(&mut filer);
}

#[test]
fn no_message_shows_a_password_in_a_url() {
    let (nfs, iscsi) = ("nfs://user:SECRET@127.0.0.1:1/v", "iscsi://user%SECRET@127.0.0.1:1/iqn.2026-11.test:v/0");
    let mount = format!("/db={nfs}");
    for secret in ["hidden", "hid/den", "hid?den", "hid@den", "hid/den@x"] {
        for command in [
            &["nfs", "ls", nfs][..],
            &["mount", nfs, "/nowhere"],
            &["exec", "--mount", &mount, "--", "true"],
            &["compare", "--path", &format!("dnfs={nfs}")],
            &["iscsi", "discover", iscsi],
            &["iscsi", "bench", "--json", iscsi],
            &["iscsi", "detach", iscsi],
        ] {
            let words: Vec<String> = command.iter().map(|word| word.replace("SECRET", secret)).collect();
            let output = millrace().args(&words).output().unwrap();
            let said = text(&output);
            assert!(!output.status.success() && !said.contains("hid") && !said.contains("den"), "{command:?}: {said}");
        }
    }
}
