//! `millrace nfs` against `millrace serve`, and its messages if something is wrong.

use crate::support::filer::Filer;
use crate::support::{Scratch, await_until, millrace, succeed, text};
use nfs_proto::record::{self, Framed};
use nfs_proto::rpc::{CallHeader, ReplyHeader, ReplyStatus, encode_reply};
use nfs_proto::xdr::{Decode, Reader};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt as _;
use std::process::{Output, Stdio};
use std::time::Duration;

/// The filer's URL with a path below the export.
fn below(filer: &Filer, path: &str) -> String {
    let (location, query) = filer.url.split_once('?').unwrap();
    format!("{location}/{path}?{query}")
}

fn nfs(arguments: &[&str]) -> Output {
    millrace().arg("nfs").args(arguments).output().unwrap()
}

/// Exit code and stderr of a command that fails.
fn failure(arguments: &[&str]) -> (i32, String) {
    let output = nfs(arguments);
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn files_go_both_ways_byte_for_byte() {
    let scratch = Scratch::new("nfs-cp");
    let filer = Filer::start(&scratch, &[]);
    let bytes = sim::Rng::new(1).bytes((3 << 20) + 12_345);
    let (local, back) = (scratch.path().join("local"), scratch.path().join("back"));
    std::fs::write(&local, &bytes).unwrap();
    let (local, back) = (local.to_str().unwrap(), back.to_str().unwrap());
    // Large transfers, and many small ones in flight.
    for options in ["", "&rsize=4096&wsize=4096", "&rsize=65536&wsize=32768&slots=3", "&stable=always"] {
        let url = below(&filer, "copy") + options;
        succeed(millrace().args(["nfs", "cp", local, &url]));
        assert_eq!(std::fs::read(filer.export().join("copy")).unwrap(), bytes, "{options}");
        succeed(millrace().args(["nfs", "cp", &url, back]));
        assert_eq!(std::fs::read(back).unwrap(), bytes, "{options}");
        assert_eq!(nfs(&["cat", &url]).stdout, bytes, "{options}");
    }
    let names: Vec<_> = std::fs::read_dir(filer.export()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["copy"], "a part of a copy was left behind");
}

#[test]
fn a_copy_from_a_pipe_of_which_the_server_lost_a_part_fails_and_leaves_nothing_behind() {
    let scratch = Scratch::new("nfs-cp-pipe");
    let filer = Filer::start(&scratch, &["--loss-layer"]);
    let mut copy = millrace();
    copy.args(["nfs", "cp", "/dev/stdin", &below(&filer, "dump")]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut copy = copy.spawn().unwrap();
    let mut pipe = copy.stdin.take().unwrap();
    pipe.write_all(&vec![7; 8 << 20]).unwrap();
    await_until("the server has a part of the data", Duration::from_secs(20), || (filer.calls("WRITE") > 0).then_some(()));
    let cut = filer.admin(r#"{"op":"power-cut"}"#);
    assert_eq!(cut["ok"], true, "{cut}");
    pipe.write_all(b"the end").unwrap();
    drop(pipe);
    let output = copy.wait_with_output().unwrap();
    let said = text(&output);
    assert!(output.status.code() == Some(2) && said.contains("a pipe cannot be read twice"), "{said}");
    let left: Vec<_> = std::fs::read_dir(filer.export()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".millrace-limbo"], "of the loss layer");
}

#[test]
fn a_copy_replaces_regular_files_only_and_follows_a_link() {
    let scratch = Scratch::new("nfs-cp-kinds");
    let filer = Filer::start(&scratch, &[]);
    std::fs::write(filer.export().join("f"), "new").unwrap();
    let (real, link, fifo) = (scratch.path().join("real"), scratch.path().join("link"), scratch.path().join("fifo"));
    std::fs::write(&real, "old").unwrap();
    std::os::unix::fs::symlink("real", &link).unwrap();
    succeed(millrace().args(["nfs", "cp", &below(&filer, "f")]).arg(&link));
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "new");
    assert!(link.is_symlink());
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let (code, said) = failure(&["cp", &below(&filer, "f"), fifo.to_str().unwrap()]);
    assert!(code == 2 && said.contains("not a regular file") && said.contains("millrace nfs cat"), "{said}");
    assert!(std::fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    std::os::unix::fs::symlink("nowhere", scratch.path().join("dangling")).unwrap();
    let (code, said) = failure(&["cp", &below(&filer, "f"), scratch.path().join("dangling").to_str().unwrap()]);
    assert!(code == 2 && said.contains("a symbolic link to a file that does not exist"), "{said}");
    let long = "n".repeat(255);
    succeed(millrace().args(["nfs", "cp"]).arg(&real).arg(below(&filer, &long)));
    assert_eq!(std::fs::read_to_string(filer.export().join(long)).unwrap(), "new");
}

#[test]
fn a_benchmark_measures_the_size_that_it_was_given_or_nothing() {
    let scratch = Scratch::new("nfs-bench-size");
    let filer = Filer::start(&scratch, &[]);
    std::fs::write(filer.export().join("f"), vec![1; 1 << 20]).unwrap();
    let (code, said) = failure(&["bench", &below(&filer, "f"), "--size", "2MiB", "--seconds", "0.1"]);
    assert!(code == 2 && said.contains("measure 2097152 bytes of") && said.contains("it has 1048576"), "{said}");
    let (code, said) = failure(&["bench", &below(&filer, "f"), "--size", "4k", "--bs", "8k"]);
    assert!(code == 2 && said.contains("a block has 8192"), "{said}");
    let (code, said) = failure(&["bench", &below(&filer, "x.bench"), "--create", "--size", "4k", "--bs", "8k"]);
    assert!(code == 2 && !filer.export().join("x.bench").exists(), "{said}");
    let (code, said) = failure(&["bench", &below(&filer, "x.bench"), "--create", "--size", "4096TiB"]);
    assert!(code == 2 && said.contains("with 4096TiB: the server has ") && said.contains("choose a smaller --size"), "{said}");
    assert!(!filer.export().join("x.bench").exists());
}

#[test]
fn a_benchmark_that_is_stopped_while_it_fills_its_file_removes_the_file() {
    let scratch = Scratch::new("nfs-bench-signal");
    let filer = Filer::start(&scratch, &["--fault", "slow,on=WRITE,delay_ms=100"]);
    let file = filer.export().join("x.bench");
    for (signal, code, seconds, is_left) in
        [(Signal::INT, 130, "1", false), (Signal::TERM, 143, "1", false), (Signal::TERM, 143, "60", true)]
    {
        let size = if is_left { "8k" } else { "64MiB" };
        let mut bench = millrace();
        bench.args(["nfs", "bench", "--create", "--size", size, "--seconds", seconds, &below(&filer, "x.bench")]);
        let child = bench.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let is_begun = || if is_left { filer.calls("READ") > 100 } else { file.exists() };
        await_until("the file", Duration::from_secs(20), || is_begun().then_some(()));
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert_eq!(file.exists(), is_left, "{}", text(&output));
    }
}

#[test]
fn a_copy_that_fails_leaves_nothing_behind() {
    let scratch = Scratch::new("nfs-cp-fail");
    let filer = Filer::start(&scratch, &[]);
    std::fs::create_dir(filer.export().join("dir")).unwrap();
    let missing = scratch.path().join("missing");
    let (code, said) = failure(&["cp", missing.to_str().unwrap(), &below(&filer, "new")]);
    assert_eq!(code, 2, "{said}");
    let (code, said) = failure(&["cp", &below(&filer, "none"), scratch.path().join("x").to_str().unwrap()]);
    assert!(code == 1 && said.contains("no such file"), "{said}");
    let (code, said) = failure(&["cp", &below(&filer, "dir"), scratch.path().join("x").to_str().unwrap()]);
    assert!(code == 1 && said.contains("is a directory"), "{said}");
    assert!(!scratch.path().join("x").exists());
    assert_eq!(std::fs::read_dir(filer.export()).unwrap().count(), 1);
}

#[test]
fn a_copy_that_is_interrupted_leaves_nothing_behind() {
    let scratch = Scratch::new("nfs-cp-signal");
    let filer = Filer::start(&scratch, &["--fault", "slow,on=READ,delay_ms=100", "--fault", "slow,on=WRITE,delay_ms=100"]);
    let source = scratch.path().join("source");
    std::fs::write(&source, vec![7; 64 << 20]).unwrap();
    std::fs::copy(&source, filer.export().join("there")).unwrap();
    let back = scratch.path().join("back");
    std::fs::create_dir(&back).unwrap();
    let copies = [
        (source.display().to_string(), below(&filer, "new"), filer.export().to_owned()),
        (below(&filer, "there"), back.join("new").display().to_string(), back.clone()),
    ];
    for (from, to, place) in copies {
        let before = std::fs::read_dir(&place).unwrap().count();
        let child = millrace().args(["nfs", "cp", &from, &to]).stderr(Stdio::piped()).spawn().unwrap();
        await_until("a part", Duration::from_secs(20), || (std::fs::read_dir(&place).unwrap().count() > before).then_some(()));
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        assert!(output.status.code() == Some(130) && said.contains("stopped by Ctrl-C"), "{said}");
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), before, "{to}: {said}");
    }
}

#[test]
fn a_copy_that_is_interrupted_while_the_server_is_silent_ends_by_the_signal() {
    let scratch = Scratch::new("nfs-cp-silent");
    let filer = Filer::start(&scratch, &["--fault", "slow,on=READ,delay_ms=100"]);
    std::fs::write(filer.export().join("there"), vec![7; 64 << 20]).unwrap();
    let to = scratch.path().join("new");
    let before = std::fs::read_dir(scratch.path()).unwrap().count();
    let url = format!("{}&soft&timeo=10&retrans=0", below(&filer, "there"));
    let child = millrace().args(["nfs", "cp", &url, to.to_str().unwrap()]).stderr(Stdio::piped()).spawn().unwrap();
    let parts = || std::fs::read_dir(scratch.path()).unwrap().count() - before;
    await_until("a part", Duration::from_secs(20), || (parts() > 0).then_some(()));
    let server = Pid::from_raw(filer.pid().cast_signed()).unwrap();
    kill_process(server, Signal::STOP).unwrap();
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    kill_process(server, Signal::CONT).unwrap();
    let said = text(&output);
    assert!(output.status.code() == Some(130) && said.contains("stopped by Ctrl-C"), "{said}");
    assert_eq!(parts(), 0, "{said}");
}

#[test]
fn listings_and_attributes_are_those_of_the_folder() {
    let scratch = Scratch::new("nfs-ls");
    let filer = Filer::start(&scratch, &[]);
    std::fs::create_dir(filer.export().join("dir")).unwrap();
    for number in 0..3000 {
        std::fs::write(filer.export().join(format!("dir/{number:05}")), vec![0; number]).unwrap();
    }
    std::os::unix::fs::symlink("dir/00007", filer.export().join("link")).unwrap();
    let listed = text(&nfs(&["ls", &below(&filer, "dir")]));
    let expected: Vec<String> = (0..3000).map(|number| format!("{number:05}")).collect();
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    let first: serde_json::Value =
        serde_json::from_str(text(&nfs(&["ls", "--json", &below(&filer, "dir/00042")])).trim()).unwrap();
    assert_eq!((first["size"].as_u64(), first["name"].as_str()), (Some(42), Some("00042")));
    let through: serde_json::Value =
        serde_json::from_str(text(&nfs(&["stat", "--json", &below(&filer, "link")])).trim()).unwrap();
    assert_eq!((through["size"].as_u64(), through["kind"].as_str()), (Some(7), Some("file")));
    assert!(text(&nfs(&["ls", "-l", &filer.url])).contains("drwx"));
}

#[test]
fn bench_reports_its_figures_and_keeps_its_hands_off_data() {
    let scratch = Scratch::new("nfs-bench");
    let filer = Filer::start(&scratch, &[]);
    for (rw, depth, more) in
        [("randread", "1", "--create"), ("randread", "32", "--warmup=0"), ("write", "8", "--stable=unstable")]
    {
        let url = below(&filer, "x.bench");
        let report = succeed(
            millrace()
                .args(["nfs", "bench", "--json", "--size", "4MiB", "--seconds", "0.3", "--rw", rw])
                .args(["--depth", depth, more, &url]),
        );
        let report: serde_json::Value = serde_json::from_str(report.trim()).unwrap();
        for figure in ["iops", "p50_us", "p99_us", "client_cpu_us_per_op"] {
            assert!(report[figure].as_f64().unwrap() > 0.0, "{rw}: {figure} in {report}");
        }
        assert_eq!(report["depth"].as_u64().unwrap().to_string(), depth);
    }
    assert!(filer.calls("READ") > 10 && filer.calls("COMMIT") >= 1);
    let data = filer.export().join("data");
    std::fs::write(&data, vec![1; 1 << 20]).unwrap();
    let (code, said) = failure(&["bench", "--rw", "randwrite", "--seconds", "0.1", &below(&filer, "data")]);
    assert!(code == 2 && said.contains("it holds data"), "{said}");
    assert_eq!(std::fs::read(&data).unwrap(), vec![1; 1 << 20]);
}

#[test]
fn a_filer_killed_in_the_middle_is_waited_for() {
    let scratch = Scratch::new("nfs-kill");
    let mut filer = Filer::start(&scratch, &[]);
    let url = below(&filer, "x.bench");
    let bench = millrace()
        .args(["nfs", "bench", "--json", "--create", "--size", "1MiB", "--seconds", "3", "--depth", "8", &url])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    crate::support::await_until("the first reads", std::time::Duration::from_secs(20), || {
        (filer.calls("READ") > 100).then_some(())
    });
    filer.kill();
    filer.restart();
    let output = bench.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_str(text(&output).trim()).unwrap();
    assert!(report["reconnects"].as_u64().unwrap() >= 1 && report["resends"].as_u64().unwrap() >= 1, "{report}");
    assert!(filer.calls("READ") > 100, "reads went on afterwards");
}

#[test]
fn bad_input_ends_with_object_cause_fix_and_code_2() {
    let scratch = Scratch::new("nfs-bad");
    let filer = Filer::start(&scratch, &[]);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let wrong = filer.url.replace("/vol?", "/wrong?");
    let typo = format!("{}&rszie=4096", filer.url);
    let refused = format!("nfs://127.0.0.1:{free}/vol");
    for (url, expected) in [
        ("nfs://no-such-host.invalid/vol", &["unknown host no-such-host.invalid", "getent hosts"][..]),
        (&refused, &["no connection to", "Connection refused", "has another port"]),
        (&wrong, &["/wrong", "no such export", "the server exports: /vol"]),
        (&typo, &["unknown option rszie", "did you mean rsize?"]),
        ("nfs:/host/vol", &["does not begin with nfs://", "for example"]),
        ("nfs://host", &["names no export"]),
        ("nfs://host/vol?version=4", &["version=4", "expected 3"]),
        ("nfs://host/vol?sec=krb5", &["sec=krb5", "expected sys"]),
    ] {
        let (code, said) = failure(&["ls", url]);
        assert_eq!(code, 2, "{url}: {said}");
        for words in expected {
            assert!(said.contains(words), "{url}: {words:?} not in {said}");
        }
    }
}

/// Starts a server that refuses every call in one way. Returns its port.
fn refusing(status: impl Fn(&CallHeader<'_>) -> ReplyStatus + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = vec![0; 65536];
            while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                let Framed::Record { body, .. } = record::frame(&mut buffer[..bytes], 65536).unwrap() else { break };
                let header = CallHeader::decode(&mut Reader::new(&buffer[body])).unwrap();
                let mut reply = Vec::new();
                encode_reply(&ReplyHeader { xid: header.xid, status: status(&header) }, &(), &mut reply);
                stream.write_all(&reply).unwrap();
            }
        }
    });
    port
}

#[test]
fn a_server_without_version_3_is_told_apart_from_one_without_mount() {
    let only_4 = refusing(|call| match call.program {
        nfs_proto::nfs3::PROGRAM => ReplyStatus::ProgramMismatch { low: 4, high: 4 },
        _ => ReplyStatus::ProgramUnavailable,
    });
    let (code, said) = failure(&["ls", &format!("nfs://127.0.0.1:{only_4}/vol")]);
    assert!(
        code == 2 && said.contains("version 4 to 4, not version 3") && said.contains("hint: switch NFS version 3 on"),
        "{said}"
    );
    let no_mount = refusing(|call| match call.program {
        nfs_proto::nfs3::PROGRAM => ReplyStatus::Success,
        _ => ReplyStatus::ProgramUnavailable,
    });
    let (code, said) = failure(&["ls", &format!("nfs://127.0.0.1:{no_mount}/vol")]);
    assert!(code == 2 && said.contains("no MOUNT service") && said.contains("mountport=N"), "{said}");
}

#[test]
fn a_refused_identity_names_the_ways_out() {
    let port = refusing(|_| ReplyStatus::AuthError(nfs_proto::rpc::AuthStat::TooWeak));
    let (code, said) = failure(&["ls", &format!("nfs://127.0.0.1:{port}/vol?mountport={port}")]);
    assert_eq!(code, 2, "{said}");
    for words in
        ["identity not accepted", "insecure", "mount-rootonly disabled", "CAP_NET_BIND_SERVICE", "ip_unprivileged_port_start"]
    {
        assert!(said.contains(words), "{words:?} not in {said}");
    }
}
