//! A LUN as a block device of this host: it has the LUN's data, it keeps working when the filer is
//! restarted, and `detach` leaves nothing.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::attached::{Host, MountCopy};
use crate::support::configured::Configured;
use crate::support::target::Target;
use crate::support::{Scratch, await_until, find_program, millrace, skip, skip_unsupported, succeed, text};
use initiator::{Blocking, IscsiUrl, Options};
use serde_json::Value;
use sim::Rng;

const MIB: usize = 1 << 20;

/// The device name in the output of `attach --json`.
fn device(attached: &Value) -> &str {
    attached["device"].as_str().unwrap()
}

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..bytes / 8).flat_map(|_| rng.below(u64::MAX).to_le_bytes()).collect()
}

/// dd that copies between a file and a device, with these options.
fn dd(from: &Path, to: &Path, options: &[&str]) -> Command {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", from.display()))
        .arg(format!("of={}", to.display()))
        .args(["status=none", "conv=notrunc"])
        .args(options);
    dd.stdout(Stdio::null()).stderr(Stdio::null());
    dd
}

/// The LUN through the initiator library, without the block device.
fn raw(url: &str) -> Blocking {
    let url: IscsiUrl = url.parse().unwrap();
    Blocking::open(&url, Options::for_portals(1)).unwrap()
}

#[test]
fn what_is_written_to_the_device_is_on_the_lun_and_detach_leaves_nothing() {
    let scratch = Scratch::new("iscsi-attach");
    let Some(host) = Host::new(&scratch) else { return };
    let target = Target::start(&scratch, &[]);
    let url = target.url(0, target.create("db", "64MiB", &[]));
    let attached = host.attach(&[&url]);
    let node = PathBuf::from(device(&attached));
    let name = node.file_name().unwrap().to_str().unwrap();
    let sys = |attribute: &str| fs::read_to_string(format!("/sys/block/{name}/{attribute}")).unwrap().trim().to_owned();
    assert_eq!((sys("loop/dio"), sys("size")), ("1".into(), (64 * MIB / 512).to_string()));
    assert_eq!((&attached["kind"], &attached["paths"][0]["state"]), (&"fuse-loop".into(), &"up".into()), "{attached}");
    let (ours, back) = (scratch.path().join("ours"), scratch.path().join("back"));
    let data = random(1, 8 * MIB);
    fs::write(&ours, &data).unwrap();
    succeed(&mut dd(&ours, &node, &["bs=1M", "seek=3", "oflag=direct", "conv=notrunc,fsync"]));
    let mut beside = raw(&url);
    assert!(beside.read(3 * MIB as u64, data.len()).unwrap() == data, "through the device, read as the LUN");
    let data = random(2, MIB);
    beside.write(40 * MIB as u64, &data, false).unwrap();
    succeed(&mut dd(&node, &back, &["bs=64k", "skip=640", "count=16", "iflag=direct"]));
    assert!(fs::read(&back).unwrap() == data, "written as the LUN, read through the device");
    succeed(Command::new("blkdiscard").args(["--offset", "3145728", "--length", "1048576"]).arg(&node));
    assert!(beside.read(3 * MIB as u64, MIB).unwrap() == vec![0; MIB], "discarded");
    beside.close();
    let (again, code) = host.refused(&["attach", &url]);
    assert!(again.contains("already attached") && code == Some(2), "{again}");
    // A write to the LUN would change data under the block device. It is refused by this URL and by
    // another URL of the same LUN.
    for named in [url.clone(), url.replace("127.0.0.1", "localhost")] {
        let (said, code) = host.refused(&["bench", &named, "--rw", "randwrite", "--overwrite", "--seconds", "0.1"]);
        let expected = format!("the LUN is attached here as {}, and what is on it would be lost", node.display());
        assert!(said.contains(&expected) && code == Some(2), "{said}");
        assert!(said.contains(&format!("hint: detach it first: millrace iscsi detach {}", node.display())), "{said}");
    }
    assert!(host.iscsi(&["bench", &url, "--seconds", "0.1"]).status.success(), "reading is no harm");
    let locked = fs::read_to_string(format!("/proc/{}/status", attached["pid"])).unwrap();
    let kib = locked.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    assert!(!kib.trim().starts_with("0 "), "locked in memory: {kib}");
    host.detach(node.to_str().unwrap());
    assert_eq!(host.left(), Vec::<String>::new());
    let sessions = || target.listed("db")["sessions"].as_array().unwrap().len();
    await_until("the sessions to end", Duration::from_secs(30), || (sessions() == 0).then_some(()));
}

#[test]
fn the_depth_of_a_load_on_the_device_is_its_depth_on_the_wire() {
    let scratch = Scratch::new("iscsi-attach-depth");
    let Some(host) = Host::new(&scratch) else { return };
    if find_program("fio").is_none() {
        return skip("fio is not installed");
    }
    // The medium takes 20 ms for each command, so that all 128 commands are open at the same time.
    let target = Target::start(&scratch, &["--medium", "spindles=128,service_ms=20"]);
    let url = target.url(0, target.create("db", "64MiB", &[]));
    let attached = host.attach(&[&url]);
    for pattern in ["randread", "randwrite"] {
        succeed(
            Command::new("fio").args(["--name=depth", "--direct=1", "--ioengine=libaio", "--iodepth=128", "--bs=4k"]).args([
                &format!("--rw={pattern}"),
                "--number_ios=600",
                &format!("--filename={}", device(&attached)),
            ]),
        );
    }
    let depth = await_until("the daemon's report", Duration::from_secs(30), || {
        let listed = host.list().remove(0);
        (listed["requests"].as_u64()? >= 1200).then(|| listed["commands_under_way_max"].as_u64().unwrap())
    });
    println!("commands under way together: {depth}");
    assert!((100..=160).contains(&depth), "{depth} of 128");
}

#[test]
fn a_file_system_is_there_again_after_detach_and_attach_and_is_not_overwritten() {
    let scratch = Scratch::new("iscsi-attach-fs");
    let Some(host) = Host::new(&scratch) else { return };
    let target = Target::start(&scratch, &[]);
    let place = scratch.folder("place");
    let at = place.to_str().unwrap();
    for (kind, program) in [("ext4", "mkfs.ext4"), ("xfs", "mkfs.xfs")] {
        if find_program(program).is_none() {
            skip(&format!("{program} is not installed"));
            continue;
        }
        let url = target.url(0, target.create(kind, "320MiB", &[]));
        let attached = host.attach(&[&url, "--mkfs", kind, "--mount", at]);
        assert_eq!(attached["mount"], at, "{attached}");
        let warnings = attached["warnings"].to_string();
        assert!(!warnings.contains("writes are slower"), "aligned: {warnings}");
        let data = random(3, 4 * MIB);
        fs::write(place.join("file"), &data).unwrap();
        let (mounted, _) = host.refused(&["bench", &url, "--rw", "write", "--overwrite", "--seconds", "0.1"]);
        assert!(mounted.contains(&format!(", mounted at {at}, and")), "{mounted}");
        // A process has its working directory in the mount.
        let mut sleeper = Command::new("sleep").arg("60").current_dir(&place).spawn().unwrap();
        let (busy, _) = host.refused(&["detach", at]);
        assert!(
            busy.contains(&format!("process {} (sleep; its working directory is in {at}: cd elsewhere)", sleeper.id())),
            "{busy}"
        );
        assert!(fs::read(place.join("file")).unwrap() == data, "still mounted");
        // A shell in the mount runs detach and waits for it. The message names the shell, not the
        // detach process that it started.
        let inside = "cd \"$1\"; \"$2\" iscsi detach \"$1\"; echo";
        let mut shell = Command::new("sh");
        shell.args(["-c", inside, "sh", at]).arg(millrace().get_program()).env("MILLRACE_RUNTIME_DIR", &host.runtime);
        let busy = text(&shell.output().unwrap());
        assert!(busy.contains(" (sh; its working directory is in ") && !busy.contains(" (millrace"), "{busy}");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        // Another mount namespace has a copy of the mount, which would keep the device in use.
        let apart = MountCopy::make();
        let (busy, _) = host.refused(&["detach", at]);
        assert!(busy.contains(&apart.named()), "{busy}");
        assert!(fs::read(place.join("file")).unwrap() == data, "still mounted");
        drop(apart);
        host.detach(at);
        assert_eq!(host.left(), Vec::<String>::new());
        let (refused, code) = host.refused(&["attach", &url, "--mkfs", "ext4"]);
        assert!(refused.contains(&format!("the LUN has {kind}")) && code == Some(2), "{refused}");
        assert_eq!(host.left(), Vec::<String>::new(), "undone");
        host.attach(&[&url, "--mount", at]);
        assert!(fs::read(place.join("file")).unwrap() == data);
        host.detach(&url);
        assert_eq!(host.left(), Vec::<String>::new());
    }
}

#[test]
fn of_what_mkfs_says_the_first_line_is_shown_and_a_hint() {
    let scratch = Scratch::new("iscsi-attach-mkfs");
    let Some(host) = Host::new(&scratch) else { return };
    if find_program("mkfs.xfs").is_none() {
        return skip("mkfs.xfs is not installed");
    }
    let target = Target::start(&scratch, &[]);
    let url = target.url(0, target.create("small", "8MiB", &[]));
    let (said, code) = host.refused(&["attach", &url, "--mkfs", "xfs"]);
    assert!(
        said.contains("more lines: to see them, attach it without --mkfs and run mkfs.xfs by hand)") && code == Some(2),
        "{said}"
    );
    assert!(said.starts_with(&format!("millrace: cannot attach {url}: mkfs.xfs ")), "{said}");
    assert!(said.trim().lines().count() == 2 && said.contains("\nhint: no LUN stays attached"), "{said}");
    assert_eq!(host.left(), Vec::<String>::new(), "undone");
}

#[test]
fn a_filer_that_is_killed_under_load_and_comes_back_is_no_error() {
    let scratch = Scratch::new("iscsi-attach-restart");
    let Some(host) = Host::new(&scratch) else { return };
    let mut target = Target::start(&scratch, &[]);
    let url = target.url(0, target.create("db", "64MiB", &[]));
    let attached = host.attach(&[&url]);
    let ours = scratch.path().join("ours");
    let data = random(4, 3 * MIB);
    fs::write(&ours, &data).unwrap();
    let mut load = dd(&ours, Path::new(device(&attached)), &["bs=16k", "oflag=direct"]).spawn().unwrap();
    let commands = |target: &Target| target.listed("db")["commands"].as_u64().unwrap();
    let before = commands(&target);
    await_until("the load", Duration::from_secs(20), || (commands(&target) > before + 50).then_some(()));
    target.kill();
    assert!(load.try_wait().unwrap().is_none(), "the load was still under way");
    target.restart();
    let ended = await_until("the load to end", Duration::from_secs(60), || load.try_wait().unwrap());
    assert!(ended.success(), "{ended}");
    let mut beside = raw(&url);
    assert!(beside.read(0, data.len()).unwrap() == data);
    beside.close();
    // The serving process updates once a second what `list` shows.
    let listed = await_until("the path's failure in the list", Duration::from_secs(20), || {
        Some(host.list().remove(0)).filter(|listed| listed["paths"][0]["failures"].as_u64() >= Some(1))
    });
    // Failed retries count as failures too. The path went down once.
    assert_eq!(listed["paths"][0]["downs"], 1, "{listed}");
    assert_eq!(listed["failed"], 0, "{listed}");
    host.detach(device(&attached));
    assert_eq!(host.left(), Vec::<String>::new());
}

#[test]
fn a_device_whose_process_was_killed_gives_errors_and_detach_cleans_up() {
    let scratch = Scratch::new("iscsi-attach-killed");
    let Some(host) = Host::new(&scratch) else { return };
    let target = Target::start(&scratch, &[]);
    let url = target.url(0, target.create("db", "64MiB", &[]));
    let place = scratch.folder("place");
    let attached = host.attach(&[&url, "--mkfs", "ext4", "--mount", place.to_str().unwrap()]);
    fs::write(place.join("file"), "x").unwrap();
    succeed(Command::new("kill").args(["-KILL", &attached["pid"].to_string()]));
    let node = Path::new(device(&attached));
    await_until("errors", Duration::from_secs(30), || {
        (!dd(node, Path::new("/dev/null"), &["bs=4k", "count=1", "skip=4000", "iflag=direct"]).status().unwrap().success())
            .then_some(())
    });
    // The kernel closes the files of the killed process one by one, and the lock file is not the first.
    await_until("its end to be seen", Duration::from_secs(30), || (host.list()[0]["state"] == "dead").then_some(()));
    host.detach(place.to_str().unwrap());
    assert_eq!(host.left(), Vec::<String>::new());
    host.attach(&[&url]);
    host.detach(&url);
    assert_eq!(host.left(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_attached_is_said_and_leaves_nothing() {
    let scratch = Scratch::new("iscsi-attach-wrong");
    let Some(host) = Host::new(&scratch) else { return };
    let target = Target::start(&scratch, &[]);
    let lun = target.create("db", "1MiB", &[]);
    let url = target.url(0, lun);
    let refused = |arguments: &[&str], code: i32, what: &str| {
        let (said, found) = host.refused(arguments);
        assert!(said.contains(what) && found == Some(code), "{arguments:?}: {found:?} {said}");
        assert_eq!(host.left(), Vec::<String>::new());
    };
    refused(&["attach", &url.replace(":vol.", ":other.")], 1, "refused the login");
    refused(&["attach", &target.url(0, lun + 1)], 1, "LUN");
    refused(&["attach", "iscsi://127.0.0.1:1/iqn.2026-11.org.example:vol/0"], 2, "cannot be reached");
    refused(&["attach", "iscsi://127.0.0.1"], 2, "names no LUN");
    refused(&["attach", &url, "--mount", "/no/such/directory"], 2, "no such directory");
    std::fs::write(scratch.folder("full").join("file"), "x").unwrap();
    refused(&["attach", &url, "--mkfs", "ext4", "--mount", scratch.path().join("full").to_str().unwrap()], 2, "is not empty");
    refused(&["attach", &url, "--mount", scratch.folder("place").to_str().unwrap()], 2, "--mkfs xfs");
    refused(&["detach", "/dev/loop/none"], 2, "not attached");
    let mut nobody = millrace();
    nobody.args(["iscsi", "attach", &url]).env("MILLRACE_RUNTIME_DIR", &host.runtime).uid(65534).gid(65534);
    match nobody.output() {
        Ok(output) => assert!(text(&output).contains("only root may") && output.status.code() == Some(2), "{}", text(&output)),
        Err(error) => skip_unsupported(&format!("another user cannot run this binary: {error}")),
    }
}

#[test]
fn without_open_iscsi_its_own_client_is_taken_and_the_reason_is_told() {
    let scratch = Scratch::new("iscsi-attach-client");
    let Some(host) = Host::new(&scratch) else { return };
    let target = Target::start(&scratch, &[]);
    let url = target.url(0, target.create("db", "1MiB", &[]));
    let attach = |options: &[&str]| {
        millrace().args(["iscsi", "attach", &url]).args(options).env("MILLRACE_RUNTIME_DIR", &host.runtime).output().unwrap()
    };
    let output = attach(&[]);
    let said = String::from_utf8(output.stderr).unwrap();
    let listed = host.list().remove(0);
    host.detach(&url);
    if listed["client"] == "open-iscsi" {
        return skip("this host has open-iscsi, and tests/guest is where it is tested");
    }
    let reason = listed["client_reason"].as_str().unwrap();
    assert!(said.contains(&format!("client: millrace, its own initiator: {reason}\n")) && reason.contains("; "), "{said}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("{}\n", listed["device"].as_str().unwrap()),
        "the device alone"
    );
    assert_eq!((&listed["client"], &listed["kind"]), (&"millrace".into(), &"fuse-loop".into()), "{listed}");
    let output = attach(&["--json"]);
    let attached: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&attached["client"], &attached["client_reason"]), (&"millrace".into(), &reason.into()));
    assert!(!text(&output).contains("client: "), "with --json it is in the object alone: {}", text(&output));
    host.detach(&url);
    let attached = host.attach(&[&url]);
    assert_eq!(attached["client_reason"], "as --client asks");
    host.detach(&url);
    let output = attach(&["--client", "open-iscsi"]);
    let (what, fix) = reason.split_once("; ").unwrap();
    assert!(
        text(&output).contains(&format!("cannot attach {url}: cannot use open-iscsi: {what}\nhint: {fix}")),
        "{}",
        text(&output)
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(host.left(), Vec::<String>::new());
}

#[test]
fn a_wrong_secret_is_refused_and_a_right_one_is_in_nobodys_arguments() {
    const SECRET: &str = "a secret of the host";
    let scratch = Scratch::new("iscsi-attach-secret");
    let Some(host) = Host::new(&scratch) else { return };
    scratch.folder("data");
    let name = initiator::default_name();
    let filer = Configured::start(
        &scratch,
        &format!(
            "[iscsi]\nlisten = [\"127.0.0.1:0\"]\niqn = \"iqn.2026-11.com.example.filer\"\n\
             [[iscsi.user]]\nname = \"host\"\nsecret = \"{SECRET}\"\ninitiators = [\"{name}\"]\n\
             [[volume]]\nname = \"data\"\ndir = \"DIR/data\"\nclients = [\"127.0.0.1\"]\n"
        ),
    );
    succeed(millrace().args(["lun", "create", "data/db", "--size", "1MiB", "--lun", "0", "--admin"]).arg(&filer.admin));
    let portal = filer.ready["portals"][0].as_str().unwrap();
    let url = |secret: &str| format!("iscsi://host%{secret}@{portal}/iqn.2026-11.com.example.filer:data/0");
    let (said, code) = host.refused(&["attach", &url("another secret of it")]);
    assert!(said.contains("the user or the secret is wrong") && !said.contains("another secret") && code == Some(1), "{said}");
    assert_eq!(host.left(), Vec::<String>::new());
    let attached = host.attach(&[&url(SECRET)]);
    let arguments = fs::read_to_string(format!("/proc/{}/cmdline", attached["pid"])).unwrap();
    assert!(!arguments.contains("secret of"), "{arguments}");
    assert!(!host.list()[0].to_string().contains("secret of"));
    host.detach(&url(SECRET));
    assert_eq!(host.left(), Vec::<String>::new());
}
