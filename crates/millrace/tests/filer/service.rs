//! The filer as a process: it keeps handles and verifier when it is killed, forgets in a power cut
//! only what it never promised, stops cleanly, stays small, and reports why it cannot start.

use crate::support::filer::Filer;
use crate::support::process::memory;
use crate::support::wire::{Wire, place, write_args};
use crate::support::{Scratch, await_until, millrace, succeed, text};
use nfs_proto::nfs3::{
    CommitArgs, CommitResult, CreateHow, FileHandle, NfsStatus, Procedure, ReadArgs, ReadResult, RenameArgs, RenameResult,
    SetAttr, SetAttrArgs, StableHow, WccResult, WriteVerifier,
};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn read(wire: &mut Wire, file: FileHandle, offset: u64, count: u32) -> Vec<u8> {
    let reply = wire.nfs(Procedure::Read, &ReadArgs { file, offset, count });
    reply.results::<ReadResult<'_>>().unwrap().data.0.to_vec()
}

fn commit(wire: &mut Wire, file: FileHandle) -> WriteVerifier {
    wire.nfs(Procedure::Commit, &CommitArgs { file, offset: 0, count: 0 }).results::<CommitResult>().unwrap().verifier
}

#[test]
fn a_killed_filer_comes_back_on_its_port_with_handles_and_verifier() {
    let scratch = Scratch::new("restart");
    let mut filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    let verifier = wire.write(file, 0, b"not committed", StableHow::Unstable).verifier;
    for round in 0..3 {
        filer.kill();
        filer.restart();
        let mut wire = Wire::connect(filer.port);
        assert_eq!(wire.root(), root);
        assert_eq!(read(&mut wire, file, 0, 100), b"not committed", "the kernel kept it: round {round}");
        assert_eq!(commit(&mut wire, file), verifier, "nothing was lost, so the verifier stands");
    }
}

#[test]
fn a_power_cut_takes_back_unstable_data_and_changes_the_verifier() {
    let scratch = Scratch::new("cut-data");
    let filer = Filer::start(&scratch, &["--loss-layer"]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    wire.write(file, 0, &[1; 8192], StableHow::FileSync);
    let old = wire.write(file, 0, &[2; 4096], StableHow::Unstable).verifier;
    wire.write(file, 8192, &[3; 8192], StableHow::Unstable);
    let cut = filer.admin(r#"{"op":"power-cut"}"#);
    assert_eq!((cut["ok"].as_bool(), cut["undone_writes"].as_u64().map(|n| n > 0)), (Some(true), Some(true)), "{cut}");
    wire.stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let record = wire.nfs_record(Procedure::Null, &());
    let gone = std::io::Write::write_all(&mut wire.stream, &record).and_then(|()| wire.try_receive().map(drop));
    assert!(gone.is_err(), "connections end with the power");

    let mut wire = Wire::connect(filer.port);
    assert_ne!(commit(&mut wire, file), old, "the loss must show");
    assert_eq!(read(&mut wire, file, 0, 65_536), [1; 8192]);
    let new = wire.write(file, 0, &[4; 8192], StableHow::Unstable).verifier;
    assert_ne!(new, old);
    assert_eq!(commit(&mut wire, file), new);
    filer.admin(r#"{"op":"power-cut"}"#);
    let mut wire = Wire::connect(filer.port);
    assert_eq!(read(&mut wire, file, 0, 65_536), [4; 8192], "committed data stays");
}

/// Number of connections that read while the power is cut.
const READERS: usize = 6;

#[test]
fn no_answer_from_after_a_power_cut_comes_by_a_connection_from_before() {
    let scratch = Scratch::new("cut-sever");
    let filer = Filer::start(&scratch, &["--loss-layer"]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    for round in 1..=12_u8 {
        let mut wire = Wire::connect(filer.port);
        wire.write(file, 0, &[0; 8192], StableHow::FileSync);
        // Much data to revert, so that the cut takes some time.
        for block in 0..400 {
            wire.write(file, block * 8192, &[round; 8192], StableHow::Unstable);
        }
        let answered = Arc::new(AtomicUsize::new(0));
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let answered = Arc::clone(&answered);
                let mut wire = Wire::connect(filer.port);
                // The kernel connects before the filer accepts. Only a reply proves that the filer
                // accepted this connection before the cut.
                assert_eq!(read(&mut wire, file, 0, 1), [round]);
                std::thread::spawn(move || {
                    let args = ReadArgs { file, offset: 0, count: 16 };
                    loop {
                        let record = wire.nfs_record(Procedure::Read, &args);
                        let sent = std::io::Write::write_all(&mut wire.stream, &record);
                        let Ok(reply) = sent.and_then(|()| wire.try_receive()) else { return };
                        let found = reply.results::<ReadResult<'_>>().unwrap().data.0[0];
                        assert_eq!(found, round, "what was taken back, by a connection that saw it written");
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        await_until("readers at work", Duration::from_secs(20), || {
            (answered.load(Ordering::Relaxed) >= 10 * READERS).then_some(())
        });
        assert_eq!(filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        let mut wire = Wire::connect(filer.port);
        assert_eq!(read(&mut wire, file, 0, 1), [0]);
    }
}

#[test]
fn a_power_cut_after_the_answer_keeps_names_attributes_and_sizes() {
    let scratch = Scratch::new("cut-names");
    let filer = Filer::start(&scratch, &["--loss-layer"]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let kept = wire.create(root, "kept");
    wire.create(root, "old");
    let rename = RenameArgs { from: place(root, "old"), to: place(root, "new") };
    wire.nfs(Procedure::Rename, &rename).results::<RenameResult>().unwrap();
    wire.create(root, "gone");
    wire.nfs(Procedure::Remove, &place(root, "gone")).results::<WccResult>().unwrap();
    let set = SetAttr { mode: Some(0o751), size: Some(12_345), ..SetAttr::default() };
    wire.nfs(Procedure::SetAttr, &SetAttrArgs { object: kept, new_attributes: set, guard: None }).results::<WccResult>().unwrap();
    for _ in 0..2 {
        assert_eq!(filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
        let mut wire = Wire::connect(filer.port);
        let attributes = wire.getattr(kept).unwrap().attributes;
        assert_eq!((attributes.mode, attributes.size), (0o751, 12_345));
        assert!(wire.lookup(root, "new").is_ok());
        for name in ["old", "gone"] {
            assert_eq!(wire.lookup(root, name).unwrap_err().status, NfsStatus::NoEnt, "{name}");
        }
    }
}

#[test]
fn a_power_cut_without_the_loss_layer_is_refused() {
    let scratch = Scratch::new("cut-refused");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let reply = filer.admin(r#"{"op":"power-cut"}"#);
    assert_eq!(reply["ok"], false);
    assert!(wire.getattr(root).is_ok(), "what is refused disturbs nobody");
    assert!(reply["error"].as_str().unwrap().contains("--loss-layer"), "{reply}");
    assert_eq!(filer.admin(r#"{"op":"dance"}"#)["ok"], false);
    assert_eq!(filer.admin("no json")["ok"], false);
    let output = millrace().args(["volume", "power-cut", "--admin"]).arg(&filer.admin).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let output = millrace().args(["volume", "stats", "--admin", "/nowhere/admin.sock"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

#[test]
fn a_write_past_the_file_size_limit_is_an_answer_and_not_the_end_of_the_filer() {
    let scratch = Scratch::new("fsize");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    succeed(Command::new("prlimit").args(["--pid", &filer.pid().to_string(), "--fsize=65536"]));
    let refused = wire.try_write(file, 65_536, &[1; 512], StableHow::FileSync).unwrap_err();
    assert_eq!(refused.status, NfsStatus::FBig);
    wire.write(file, 0, b"still served", StableHow::FileSync);
    assert_eq!(read(&mut wire, file, 0, 100), b"still served");
}

#[test]
fn sigterm_answers_what_runs_flushes_and_removes_the_socket() {
    let scratch = Scratch::new("stop");
    let mut filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    wire.write(file, 0, &[5; 8192], StableHow::Unstable);
    let call = wire.nfs_record(Procedure::Write, &write_args(file, 8192, &[6; 8192], StableHow::FileSync));
    wire.send(&call);
    let answered = wire.try_receive();
    assert!(filer.admin.exists());
    assert_eq!(filer.stop(), Some(0));
    assert!(answered.is_ok() && !filer.admin.exists());
    assert_eq!(std::fs::read(filer.export().join("f")).unwrap().len(), 16_384);
}

#[test]
fn shutdown_by_the_admin_socket_ends_it_with_zero() {
    let scratch = Scratch::new("shutdown");
    let mut filer = Filer::start(&scratch, &[]);
    let _idle = Wire::connect(filer.port);
    let output = millrace().args(["volume", "shutdown", "--admin"]).arg(&filer.admin).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(filer.stop(), Some(0));
}

#[test]
fn sixty_four_connections_stay_below_64_mebibytes_and_give_memory_back() {
    let scratch = Scratch::new("memory");
    let filer = Filer::start(&scratch, &[]);
    let mut first = Wire::connect(filer.port);
    let root = first.root();
    let file = first.create(root, "f");
    let block = vec![7; 1 << 20];
    first.write(file, 0, &block, StableHow::Unstable);
    let mut wires: Vec<Wire> = (0..64).map(|_| Wire::connect(filer.port)).collect();
    for wire in &mut wires {
        wire.write(file, 0, &block, StableHow::Unstable);
        assert_eq!(read(wire, file, 0, 1 << 20).len(), 1 << 20);
        for _ in 0..4 {
            let call = wire.nfs_record(Procedure::Read, &ReadArgs { file, offset: 0, count: 8192 });
            wire.send(&call);
        }
    }
    for wire in &mut wires {
        for _ in 0..4 {
            wire.receive();
        }
    }
    let peak = memory(filer.pid(), "VmHWM:");
    assert!(peak < 64 << 20, "peak of {peak} bytes with 64 connections");
    let quiet = await_until("buffers to be given back", Duration::from_secs(30), || {
        Some(memory(filer.pid(), "RssAnon:")).filter(|bytes| *bytes < 12 << 20)
    });
    println!("64 connections: peak {} KiB, quiet {} KiB", peak >> 10, quiet >> 10);
    assert_eq!(filer.admin(r#"{"op":"stats"}"#)["connections"], 65);
}

fn serve(arguments: &[&str]) -> Output {
    millrace().arg("serve").args(arguments).output().unwrap()
}

#[test]
fn it_listens_at_each_address_that_is_named_and_serves_the_same_volume_there() {
    let scratch = Scratch::new("addresses");
    let filer = Filer::start(&scratch, &["--listen", "127.0.0.2:0", "--listen", "[::1]:0"]);
    std::fs::write(filer.export().join("seen"), b"x").unwrap();
    let hosts: Vec<&str> = filer.listen.iter().map(|address| address.rsplit_once(':').unwrap().0).collect();
    assert_eq!(hosts, ["127.0.0.1", "127.0.0.2", "[::1]"]);
    for address in &filer.listen {
        let port = address.rsplit(':').next().unwrap();
        let url = format!("nfs://{address}/vol?nfsport={port}&mountport={port}");
        assert_eq!(succeed(millrace().args(["nfs", "ls", &url])), "seen\n", "{address}");
    }
}

#[test]
fn what_keeps_it_from_starting_is_said_once_with_its_fix() {
    let scratch = Scratch::new("refusals");
    let export = scratch.folder("export");
    let export = export.to_str().unwrap();
    let state = scratch.folder("state");
    let state = state.to_str().unwrap();
    let file = scratch.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    let inside = format!("{export}/state");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let any = "127.0.0.1:0";
    let long = format!("{state}/{}", "s".repeat(120));
    for (arguments, cause) in [
        (vec!["/no/such/dir", "--listen", any, "--state", state], "no such directory"),
        (vec![file.to_str().unwrap(), "--listen", any, "--state", state], "not a directory"),
        (vec![export, "--listen", any, "--state", &inside], "inside the served directory"),
        (vec![export, "--listen", &taken, "--state", state], "in use"),
        (vec![export, "--listen", "192.0.2.1:0", "--state", state], "not an address of this machine"),
        (vec![export, "--listen", any, "--state", state, "--admin", &long], "admin socket"),
    ] {
        let output = serve(&arguments);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().filter(|line| line.starts_with("millrace: ")).count(), 1, "{said}");
        assert!(said.contains(cause) && said.contains("hint: "), "{cause}: {said}");
    }
    assert!(std::fs::read_dir(export).unwrap().next().is_none(), "nothing half-made stays in the export");
    assert_eq!(serve(&[export, "--listen", "nonsense"]).status.code(), Some(2));
}

#[test]
fn a_start_that_is_refused_leaves_no_state_directory_and_does_not_say_that_it_serves() {
    let scratch = Scratch::new("refused-start");
    let served = Filer::start(&scratch, &[]);
    let (export, other) = (scratch.folder("free"), scratch.folder("other"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let states = scratch.path().join("states");
    let state = states.join("of-it");
    let (export, served, state) = (export.to_str().unwrap(), served.export().to_str().unwrap(), state.to_str().unwrap());
    let any = "127.0.0.1:0";
    let config = scratch.path().join("filer.toml");
    let volume = |name: &str, dir: &str| format!("[[volume]]\nname = \"{name}\"\ndir = \"{dir}\"\nclients = [\"*\"]\n");
    let text_of = format!(
        "[filer]\nlisten = [\"{any}\"]\nstate = \"{}\"\n{}{}",
        states.display(),
        volume("first", other.to_str().unwrap()),
        volume("second", served)
    );
    std::fs::write(&config, text_of).unwrap();
    for (arguments, cause) in [
        (vec![export, "--listen", &taken, "--state", state], "in use"),
        (vec![export, "--listen", any, "--metrics", &taken, "--state", state], "in use"),
        (vec![export, "--listen", any, "--admin", "/no/such/folder/admin.sock", "--state", state], "make the admin socket"),
        (vec![export, "--listen", any, "--fault", "nonsense", "--state", state], "set --fault"),
        (vec![served, "--listen", any, "--state", state], "stop the other one"),
        (vec!["--config", config.to_str().unwrap()], "cannot serve volume \"second\""),
        (vec!["--listen", any], "neither a directory nor a configuration"),
    ] {
        let output = serve(&arguments);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(cause) && said.contains("hint: "), "{cause}: {said}");
        assert!(!said.contains("serving") && !said.contains("listening"), "{said}");
        assert!(!states.exists(), "{cause}: {:?}", std::fs::read_dir(&states).map(|found| found.count()));
    }
}

#[test]
#[ignore = "nightly: two waits for a stopped filer"]
fn a_filer_that_does_not_answer_is_named_within_ten_seconds() {
    let scratch = Scratch::new("stopped-filer");
    let filer = Filer::start(&scratch, &[]);
    let signal = |name: &str| succeed(Command::new("kill").args([name, &filer.pid().to_string()]));
    signal("-STOP");
    for order in [&["stats"][..], &["shutdown"]] {
        let began = Instant::now();
        let output = millrace().arg("volume").args(order).arg("--admin").arg(&filer.admin).output().unwrap();
        let said = text(&output);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(output.status.code(), Some(2), "{said}");
        let named = format!("reach the filer at {} (pid {}): it does not answer", filer.admin.display(), filer.pid());
        assert!(said.contains(&named) && said.contains(&format!("kill -CONT {}", filer.pid())), "{said}");
    }
}

#[test]
fn two_filers_do_not_share_a_state_directory() {
    let scratch = Scratch::new("twice");
    let _filer = Filer::start(&scratch, &[]);
    let state = scratch.folder("state");
    let other = scratch.folder("other");
    let output = serve(&[other.to_str().unwrap(), "--listen", "127.0.0.1:0", "--state", state.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("another process serves"), "{}", text(&output));
}

#[test]
fn a_directory_that_is_served_already_is_refused_and_so_are_those_above_and_below_it() {
    let scratch = Scratch::new("served-twice");
    let filer = Filer::start(&scratch, &[]);
    let below = filer.export().join("below");
    std::fs::create_dir(&below).unwrap();
    let state = Scratch::new("served-twice-state");
    for (dir, cause) in
        [(filer.export(), "that serves it"), (&below, ", which contains "), (scratch.path(), "a directory below it")]
    {
        let output = serve(&[dir.to_str().unwrap(), "--listen", "127.0.0.1:0", "--state", state.path().to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(cause) && text(&output).contains("stop the other one"), "{}", text(&output));
    }
    assert_eq!(std::fs::read_dir(filer.export()).unwrap().count(), 1, "nothing but what was made here");
}

/// Without privilege, the filer serves its own uid and refuses all others. The test needs root to
/// become another user.
#[test]
fn an_unprivileged_filer_serves_its_own_uid_only() {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" {
        crate::support::skip_unsupported("only root can start a filer as another user");
        return;
    }
    let scratch = Scratch::new("unprivileged");
    let (export, state) = (scratch.folder("export"), scratch.folder("state"));
    for folder in [&export, &state] {
        std::os::unix::fs::chown(folder, Some(4321), Some(4321)).unwrap();
    }
    // That user may have no access to the directory of the binary.
    let program = scratch.path().join("millrace");
    std::fs::copy(env!("CARGO_BIN_EXE_millrace"), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut child = Command::new(&program)
        .args(["serve", "--listen", "127.0.0.1:0", "--json", "--state"])
        .args([&state, &export])
        .uid(4321)
        .gid(4321)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let port = line.split("nfsport=").nth(1).unwrap().split('&').next().unwrap().parse().unwrap();
    let (mut own, mut other) = (Wire::as_user(port, 4321, 4321), Wire::as_user(port, 0, 0));
    let root = own.root();
    let file = own.create(root, "f");
    own.write(file, 0, b"mine", StableHow::FileSync);
    assert_eq!(read(&mut own, file, 0, 10), b"mine");
    assert_eq!(own.getattr(file).unwrap().attributes.uid, 4321);
    assert_eq!(other.lookup(root, "f").unwrap_err().status, NfsStatus::Acces);
    let refused = other.create_with(root, "g", CreateHow::Unchecked(SetAttr::default()));
    assert_eq!(refused.unwrap_err().status, NfsStatus::Acces);
    assert_eq!(other.try_write(file, 0, b"x", StableHow::Unstable).unwrap_err().status, NfsStatus::Acces);
    assert!(other.getattr(root).is_ok(), "a mount by root may look at the root");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_filer_that_all_of_the_network_may_use_says_so() {
    let scratch = Scratch::new("wildcard");
    let (export, state) = (scratch.folder("export"), scratch.folder("state"));
    for (address, said) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let mut serve = millrace();
        serve.arg("serve").arg(&export).args(["--listen", address, "--state"]).arg(&state);
        let mut child = serve.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        child.kill().unwrap();
        let log = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
        assert_eq!(log.contains("anyone who reaches these addresses can read and write the files"), said, "{address}: {log}");
    }
}

#[test]
fn connections_are_served_although_the_log_cannot_be_written() {
    let scratch = Scratch::new("full-log");
    let mut filer = Filer::start(&scratch, &[]);
    for format in ["text", "json"] {
        filer.kill();
        filer.restart_by(&[
            "sh",
            "-c",
            "exec \"$0\" \"$@\" --log-format $FORMAT 2>/dev/full".replace("$FORMAT", format).as_str(),
        ]);
        let mut wire = Wire::connect(filer.port);
        assert!(wire.mount("/nowhere").is_err(), "it is logged");
        wire.root();
        assert_eq!(filer.stop(), Some(0));
    }
}
