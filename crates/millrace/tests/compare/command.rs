//! `millrace compare` end to end: a small comparison on a real PostgreSQL, what it leaves, what it refuses.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::compare::{Place, may_keep_awake, postgres_is_here};
use crate::support::filer::Filer;
use crate::support::postgres::database_user;
use crate::support::{Scratch, await_until, is_root, millrace, preload_library, skip_unsupported, text};
use results::compare::PathStatus;

fn refused(output: &Output, object: &str, hint: &str) {
    let text = text(output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("millrace: cannot ") && text.contains(object), "{text}");
    assert!(text.lines().any(|line| line.starts_with("hint: ") && line.contains(hint)), "{text}");
}

#[test]
fn small_comparison_measures_local_and_dnfs_proves_both_and_leaves_nothing() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    let place = Place::new();
    let mut arguments = vec!["--paths", "local,dnfs,fc", "--quick", "--users", "4", "--warehouses", "1"];
    arguments.extend(may_keep_awake().then_some("--keep-awake"));
    let mut child = place.compare(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok).collect::<Vec<_>>();
    let output = child.wait_with_output().unwrap();
    let all = format!("{}\n{}", lines.join("\n"), text(&output));
    assert_eq!(output.status.code(), Some(0), "{all}");
    place.assert_nothing_left(pid);
    assert!(
        lines.iter().any(|line| line.starts_with('[') && line.contains("left]") && line.contains("dnfs: measuring")),
        "{all}"
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    let first = "NOT A RESULT: one run on each path";
    assert!(printed.trim_start().starts_with(first), "the verdict comes first: {all}");
    assert!(printed.lines().all(|line| line.chars().count() <= 100), "{all}");
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(" Direct NFS: ")
            && words.contains("REHEARSAL")
            && words.contains("not comparable to published TPC-C results"),
        "{all}"
    );

    let record = place.record();
    assert_eq!((record.schema, record.rehearsal, record.valid), (1, true, true));
    assert_eq!(record.plan.order, ["local", "dnfs"]);
    assert_eq!(record.notes.iter().any(|note| note.contains("kept awake")), may_keep_awake(), "{:?}", record.notes);
    for path in &record.paths[..2] {
        assert_eq!(path.status, PathStatus::Measured, "{path:?}");
        let checks = path.checks.as_ref().unwrap();
        assert_eq!((checks.passed, checks.failed), (12, 0), "{checks:?}");
        let proof = path.proof.as_ref().unwrap();
        assert!(proof.passed && proof.database_read_bytes > 1 << 20, "{proof:?}");
        let traffic = path.traffic.as_ref().unwrap();
        assert!(traffic.reads_per_s > 0.0 && traffic.log_flushes_per_s > 0.0 && traffic.log_flush_ms > Some(0.0), "{traffic:?}");
        // Both paths had the page cache in small folios, where the kernel shows their sizes.
        let folios = &path.runs[0].folio_bytes;
        let large: u64 = folios.range(128..).map(|(_, bytes)| bytes).sum();
        assert!(large * 10 <= folios.values().sum(), "{}: {folios:?}", path.name);
        assert!(path.oets_per_minute.as_ref().unwrap().mean > 0.0);
        assert!(path.block_read_us.as_ref().unwrap().mean > 0.0);
        assert!(path.io.as_ref().unwrap().reads_per_order >= 1.0, "{:?}", path.io);
        assert!(path.cpu.as_ref().unwrap().by_owner["database"].s_per_1000_orders > 0.0);
        assert!(path.response_ms["new_order"].p50 > 0.0 && path.response_ms["stock_level"].count > 0);
        assert!(path.caching.as_ref().unwrap().contains("page cache"));
    }
    let dnfs = &record.paths[1];
    assert_eq!(dnfs.proof.as_ref().unwrap().kind.as_str(), "filer_reads");
    assert!(dnfs.runs[0].filer["READ"].calls > 0 && dnfs.cpu.as_ref().unwrap().by_owner["filer"].s_per_1000_orders > 0.0);
    let connections = dnfs.runs[0].connections.unwrap();
    assert!(connections >= 5, "each of 4 users' processes and the checkpointer has its own, the filer saw {connections}");
    assert_eq!(record.paths[0].runs[0].connections, None);
    assert_eq!(record.paths[2].status, PathStatus::Skipped);
    assert!(record.paths[2].reason.as_ref().unwrap().contains("--path fc=/dev/mapper/NAME"));
    assert_eq!(record.environment.database_settings["wal_sync_method"], "fdatasync");
    let page = std::fs::read_to_string(place.out().join("report.html")).unwrap();
    assert!(page.contains("REHEARSAL") && page.contains(&record.paths[1].name) && !page.contains("http"));

    let predicted = millrace().arg("predict").arg(place.out()).args(["--users", "8"]).output().unwrap();
    let said = text(&predicted);
    assert!(said.contains("NOT TO BE TRUSTED: the comparison is not a result: one run on each path"), "{said}");
    assert_eq!(predicted.status.code(), Some(3), "{said}");
}

/// Starts a comparison of `path`, sends SIGINT after a line with `moment`, and checks what is left.
fn interrupted_at(path: &str, moment: &str) {
    let place = Place::new();
    let mut child = place
        .compare(&["--paths", path, "--quick", "--seconds", "600", "--budget", "1h"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let reached = lines.by_ref().any(|line| line.contains(moment));
    assert!(reached, "never came to {moment}");
    crate::support::succeed(Command::new("kill").args(["-INT", &pid.to_string()]));
    let rest: Vec<String> = lines.collect();
    let status = await_until("compare to end", Duration::from_secs(60), || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("stopped by a signal")), "{rest:?}");
    place.assert_nothing_left(pid);
    assert!(!place.out().exists() && !place.out().parent().unwrap().exists(), "an empty record directory is left");
}

#[test]
fn ctrl_c_while_loading_leaves_nothing() {
    if postgres_is_here() {
        interrupted_at("local", "loading 2 warehouses");
    }
}

#[test]
#[ignore = "nightly: a comparison until it measures, half a minute"]
fn ctrl_c_while_measuring_over_dnfs_leaves_nothing() {
    if postgres_is_here() {
        preload_library();
        interrupted_at("dnfs", "measuring 600 s");
    }
}

#[test]
#[ignore = "nightly: half a minute, two clusters"]
fn interrupted_comparison_goes_on_with_its_finished_runs() {
    if !postgres_is_here() {
        return;
    }
    let place = Place::new();
    let plan = ["--path", "local:a", "--path", "local:b", "--warehouses", "1", "--users", "2", "--seconds", "2", "--warmup", "1"];
    let plan = [&plan[..], &["--repeats", "1", "--no-gates"]].concat();
    let mut child = place.compare(&plan).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains("run 2 of 2, local:b: starting")), "never came to the second run");
    crate::support::succeed(Command::new("kill").args(["-INT", &pid.to_string()]));
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.last().is_some_and(|line| line.starts_with("hint: go on with --resume ")), "{rest:?}");
    place.assert_nothing_left(pid);

    let resume = |words: &[&str]| {
        let mut command = millrace();
        command.arg("compare").args(words).arg("--work").arg(place.work()).arg("--resume").arg(place.out());
        command.output().unwrap()
    };
    refused(&resume(&["--path", "local:a", "--users", "3"]), "another plan", "resume with the plan");
    let output = resume(&plan);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let record = place.record();
    assert_eq!(record.plan.order, ["local:a", "local:b"]);
    assert!(record.notes.iter().any(|note| note.starts_with("resumed: 1 runs")), "{:?}", record.notes);
    assert!(!place.out().join("runs.jsonl").exists());
}

#[test]
#[ignore = "nightly: a minute, waits for a modelled medium"]
fn paths_on_one_modelled_medium_are_probed_alike_and_wait_for_it() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    let place = Place::new();
    let plan = ["--paths", "local,dnfs", "--medium", "fc15k,spindles=80", "--layout", "split", "--warehouses", "1", "--quick"];
    let output = place.compare(&plan).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let record = place.record();
    let times: Vec<f64> = record.paths.iter().map(|path| path.read_probe.as_ref().unwrap().medium_read_us.unwrap()).collect();
    assert!(times[0] > 3_000.0 && (times[0] - times[1]).abs() / times[0] < 0.05, "{times:?}");
    for path in &record.paths {
        assert_eq!(
            (path.caching_class.as_ref().map(|class| class.as_str()), path.layout_name.as_deref()),
            (Some("direct"), Some("split"))
        );
        assert!(path.block_read_us.as_ref().unwrap().mean > 3_000.0, "reads did not wait for the medium");
        assert!(path.runs[0].medium.as_ref().unwrap().reads > 100);
    }
    assert!(record.notes.iter().any(|note| note.contains("quick check")), "{:?}", record.notes);
    place.assert_nothing_left(0);
}

#[test]
fn nonsense_is_refused_before_anything_is_made() {
    let place = Place::new();
    refused(&place.compare(&["--paths", "nvme"]).output().unwrap(), "\"nvme\"", "paths are local, dnfs");
    refused(&place.compare(&["--pg-bin", "/no/such/bin"]).output().unwrap(), "/no/such/bin", "--pg-bin");
    assert!(!place.out().exists());
    if postgres_is_here() {
        refused(&place.compare(&["--paths", "fc"]).output().unwrap(), "the device of a LUN", "millrace doctor");
        for (command, option, says) in [
            ("orders", "functions = true", "'--functions'"),
            ("orders", "mode = \"swift\"", "'swift'"),
            ("orders", "threads = 3", "multiple times"),
            ("filer", "speed = 9", "'--speed'"),
        ] {
            let plan = place.work().with_extension("toml");
            let own = include_str!("../../../../plans/compare.toml").replace("schema = 1", "schema = 1\ntunings = [\"own\"]");
            let text = format!("{own}\n[tuning.own.{command}]\n{option}\n");
            std::fs::write(&plan, text).unwrap();
            let output = place.compare(&[plan.to_str().unwrap(), "--dry-run", "--paths", "local"]).output().unwrap();
            refused(&output, says, "--help shows what it takes");
            std::fs::remove_file(plan).unwrap();
        }
        // The run and its dry run refuse the same.
        for dry_run in [&[][..], &["--dry-run"]] {
            let compare = |arguments: &[&str]| place.compare(&[arguments, dry_run].concat()).output().unwrap();
            refused(&compare(&["--paths", "local", "--load", "saturate@fast"]), "\"fast\"", "paths measured are local");
            refused(&compare(&["--paths", "local", "--budget", "10s"]), "within 0:10", "--budget ");
            refused(&compare(&["--paths", "local", "--overwrite-devices"]), "use --overwrite-devices", "--path NAME=/dev/");
            let mut resume = millrace();
            resume.args(["compare", "--paths", "local", "--resume"]).arg(place.work()).args(dry_run);
            refused(&resume.output().unwrap(), "resume from", "interrupted");
        }
        std::fs::create_dir_all(place.out()).unwrap();
        std::fs::write(place.out().join("mine"), "").unwrap();
        refused(&place.compare(&["--paths", "local"]).output().unwrap(), "not empty", "--out");
        refused(&place.compare(&["--paths", "local", "--dry-run"]).output().unwrap(), "not empty", "--out");
    }
    place.assert_nothing_left(0);
}

#[test]
fn a_place_that_may_not_be_written_to_is_refused_alike_by_the_run_and_by_its_dry_run() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    if !is_root() {
        return skip_unsupported("only root can take a directory from the user of this test");
    }
    let scratch = Scratch::new("compare-writable");
    let filer = Filer::start(&scratch, &[]);
    std::fs::set_permissions(filer.export(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let place = Place::new();
    let dnfs = format!("dnfs={}", filer.url);
    let (uid, gid) = database_user();
    for dry_run in [&[][..], &["--dry-run"]] {
        let compare = |arguments: &[&str]| place.compare(&[arguments, &["--quick"], dry_run].concat());
        let export = compare(&["--path", &dnfs]).output().unwrap();
        refused(&export, "make files there (the directory belongs to uid 0, mode 755)", "?uid=N&gid=N");
        // This user may not write to a directory of root, which is the target or the place for the work.
        let target = format!("local={}", filer.export().display());
        let record = compare(&["--path", "local"]).uid(uid).gid(gid).output().unwrap();
        refused(&record, "create directory", "--out for the record");
        for arguments in [["--path", &target], ["--path", "local"]] {
            let mut compare = millrace();
            compare.arg("compare").args(arguments).arg("--quick").args(dry_run).arg("--work").arg(place.work());
            // Refused before it is made, in a directory that every user may write to.
            compare.arg("--out").arg(std::env::temp_dir().join("millrace-never-made"));
            let output = compare.uid(uid).gid(gid).output().unwrap();
            refused(&output, "write to", "name another directory");
            assert!(text(&output).contains("Permission denied"), "{}", text(&output));
        }
    }
    assert_eq!(std::fs::read_dir(filer.export()).unwrap().count(), 0);
    place.assert_nothing_left(0);
}

#[test]
fn dry_run_says_sizes_and_starts_nothing() {
    if !postgres_is_here() {
        return;
    }
    let place = Place::new();
    let output = place.compare(&["--dry-run", "--paths", "local,fc", "--repeats", "2"]).output().unwrap();
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("runs       local local (") && text.contains("MiB needed below"), "{text}");
    for value in ["paths      local; tuning: untuned; layout: one; no modelled medium", "users=8 on 2", "page cache: no limit"] {
        assert!(text.contains(value), "{value}: {text}");
    }
    assert!(text.contains("skipped    fc: it needs the device of a LUN"), "{text}");
    preload_library();
    let unasked = crate::support::text(&place.compare(&["--dry-run"]).output().unwrap());
    assert!(unasked.contains("local dnfs") && !unasked.contains("skipped"), "nobody asked for the others: {unasked}");
    assert!(!place.out().exists());
    place.assert_nothing_left(0);
}
