//! `millrace compare` on storage that Millrace did not make: it works in its own directory and
//! leaves everything else as it was.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::compare::{Place, postgres_is_here};
use crate::support::filer::Filer;
use crate::support::fuse::{self, has_fuse};
use crate::support::ganesha::Ganesha;
use crate::support::{Scratch, millrace, preload_library, succeed, text};
use results::compare::{Comparison, PathStatus};

/// Every name below `root` with kind, mode, owner, size, modification time and checksum. The root
/// itself is listed without its time, which changes when a directory in it is created or removed.
fn listing(ganesha: &Ganesha, root: &Path) -> String {
    let script = "cd \"$1\" && find . -mindepth 1 -printf '%P %y %m %U:%G %s %T@\\n' | sort && \
                  find . -type f -print0 | sort -z | xargs -0r sha256sum && stat -c '%a %u:%g' .";
    succeed(ganesha.inside(Path::new("sh")).args(["-c", script, "listing"]).arg(root))
}

/// Creates other people's files there, some with names like those of Millrace.
fn furnish(ganesha: &Ganesha, root: &Path) {
    let script = "cd \"$1\" && mkdir -p theirs/deep millrace-compare-notes && echo keep >theirs/deep/file && \
                  echo {} >millrace-compare-notes/.millrace-owner && ln -s theirs link && chmod 711 theirs && chmod 1777 .";
    succeed(ganesha.inside(Path::new("sh")).args(["-c", script, "furnish"]).arg(root));
}

fn compare(ganesha: &Ganesha, out: &str) -> Command {
    let mut command = ganesha.inside(Path::new(env!("CARGO_BIN_EXE_millrace")));
    command.arg("compare").arg("--path").arg(format!("dnfs={}", ganesha.url()));
    command.arg("--path").arg(format!("local:memory={}", ganesha.memory().display()));
    command.args(["--path", "fc", "--warehouses", "1", "--users", "2", "--seconds", "3", "--warmup", "1"]);
    command.args(["--repeats", "1", "--no-gates", "--work"]).arg(ganesha.scratch.folder("work"));
    command.arg("--out").arg(ganesha.scratch.path().join(out));
    command
}

/// Starts a comparison, sends it `signal` when both targets have a directory of the comparison, and
/// waits for its end.
fn signalled_at_work(ganesha: &Ganesha, signal: &str) {
    let mut child = compare(ganesha, signal).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains("making a database cluster")), "never came to work");
    succeed(Command::new("kill").args([signal, &child.id().to_string()]));
    let rest: Vec<String> = lines.collect();
    assert!(!child.wait().unwrap().success(), "{rest:?}");
}

#[test]
#[ignore = "nightly: a minute"]
fn foreign_export_and_file_system_are_measured_and_left_as_found_even_after_a_kill() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    let Some(ganesha) = Ganesha::start("targets") else { return };
    let targets = [ganesha.export(), ganesha.memory()];
    targets.iter().for_each(|root| furnish(&ganesha, root));
    let before: Vec<String> = targets.iter().map(|root| listing(&ganesha, root)).collect();

    let dry = compare(&ganesha, "dry").arg("--dry-run").output().unwrap();
    let words = text(&dry);
    assert_eq!(dry.status.code(), Some(0), "{words}");
    for (target, kind) in targets.iter().zip(["NFS export of 127.0.0.1:2049", "tmpfs mounted at"]) {
        let says = |line: &str| line.contains(&*target.to_string_lossy()) && line.contains(kind) && line.contains("1 copy of");
        assert!(words.lines().any(|line| line.starts_with("target") && says(line)), "{words}");
    }
    assert!(words.contains("skipped    fc: it needs the device of a LUN"), "{words}");
    signalled_at_work(&ganesha, "-INT");
    let after: Vec<String> = targets.iter().map(|root| listing(&ganesha, root)).collect();
    assert_eq!(after, before, "an interrupted comparison leaves nothing");
    signalled_at_work(&ganesha, "-KILL");
    for root in &targets {
        assert!(listing(&ganesha, root).contains("millrace-compare-"), "a killed comparison leaves its directory");
    }

    let output = compare(&ganesha, "one").output().unwrap();
    let words = text(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(words.matches("left on").count() >= 2 || words.matches(", left ").count() >= 2, "{words}");
    for (root, before) in targets.iter().zip(&before) {
        assert_eq!(&listing(&ganesha, root), before, "{} is not as it was", root.display());
    }
    let record = std::fs::read_to_string(ganesha.scratch.path().join("one/results.json")).unwrap();
    let record: Comparison = serde_json::from_str(&record).unwrap();
    assert!(
        record.valid && record.rehearsal && record.rehearsal_note.contains("served by this host"),
        "{}",
        record.rehearsal_note
    );
    let [dnfs, memory, fc] = &record.paths[..] else { panic!("{:?}", record.plan.paths) };
    assert_eq!((dnfs.status, memory.status, fc.status), (PathStatus::Measured, PathStatus::Measured, PathStatus::Skipped));
    assert_eq!(dnfs.target.as_deref(), Some(&*ganesha.url()));
    let proof = dnfs.proof.as_ref().unwrap();
    assert!(proof.kind.as_str() == "client_reads" && proof.passed && proof.path_read_bytes > 1 << 20, "{proof:?}");
    assert!(dnfs.runs[0].client["READ"].calls > 0 && dnfs.runs[0].filer.is_empty());
    assert_eq!((memory.arm.as_str(), memory.proof.as_ref().unwrap().kind.as_str()), ("local:memory", "read_calls"));
}

#[test]
fn the_process_of_a_mount_and_the_filer_of_its_export_are_found_and_named() {
    if !postgres_is_here() || !has_fuse() {
        return;
    }
    let scratch = Scratch::new("compare-served");
    let filer = Filer::start(&scratch, &[]);
    let directory = scratch.path().join("mount");
    std::fs::create_dir(&directory).unwrap();
    let pid = fuse::mount(millrace(), &[], &filer.url, &directory);
    let place = Place::new();
    let target = format!("local={}", directory.display());
    let output = place.compare(&["--path", &target, "--quick", "--dry-run"]).output().unwrap();
    fuse::end(&directory, pid);
    let found = format!("served by process {pid} and a server at 127.0.0.1:{} (process {})", filer.port, filer.pid());
    assert!(output.status.success() && text(&output).contains(&found), "{found}: {}", text(&output));
}
