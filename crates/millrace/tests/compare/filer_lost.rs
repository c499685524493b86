//! What a comparison reports when the filer of a run ends, and what it leaves.

use crate::support::compare::{Place, filers_below, postgres_is_here};
use crate::support::filer::Filer;
use crate::support::{Scratch, await_until, is_root, preload_library, succeed};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time limit in which a quick comparison loads its database on a busy host.
const LONG: Duration = Duration::from_secs(240);

/// Starts a comparison, whose progress goes to the returned file.
fn start(place: &Place, arguments: &[&str], scratch: &Scratch) -> (Child, std::path::PathBuf) {
    let log = scratch.path().join("stderr");
    let mut command = place.compare(&[&["--quick", "--seconds", "60"][..], arguments].concat());
    command.stderr(std::fs::File::create(&log).unwrap()).stdout(Stdio::null());
    (command.spawn().unwrap(), log)
}

fn await_measuring(child: &mut Child, log: &std::path::Path) {
    await_until("the run to be measured", LONG, || {
        let text = std::fs::read_to_string(log).unwrap();
        assert_eq!(child.try_wait().unwrap(), None, "{text}");
        text.contains("dnfs: measuring").then_some(())
    });
}

#[test]
#[ignore = "nightly: a comparison, half a minute"]
fn a_filer_of_the_comparison_that_is_killed_is_named_with_the_run_and_nothing_but_logs_stays() {
    if !postgres_is_here() {
        return;
    }
    preload_library();
    let (place, scratch) = (Place::new(), Scratch::new("filer-lost"));
    let (mut child, log) = start(&place, &["--paths", "dnfs"], &scratch);
    await_measuring(&mut child, &log);
    let filers = filers_below(&place.work());
    assert_eq!(filers.len(), 1);
    succeed(Command::new("kill").args(["-KILL", &filers[0].to_string()]));
    let status = await_until("the comparison to end", LONG, || child.try_wait().unwrap());
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(2), "{text}");
    let said =
        text.lines().find(|line| line.starts_with("millrace: cannot go on: the filer ")).unwrap_or_else(|| panic!("{text}"));
    let parts = [
        "nfs://127.0.0.1:",
        &format!("(process {}, admin socket ", filers[0]),
        "was ended by signal 9 at 20",
        "Z, in run 1 of 1 (dnfs, round 1); all its processes were ended; the logs in ",
    ];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    let out = place.out();
    assert!(text.contains(&format!("hint: remove that with: rm -r {}", out.display())), "{text}");
    assert!(out.join("logs").is_dir());
    place.assert_nothing_left(child.id());
}

/// A filer that does not belong to the comparison, which the database's user may write to. `None`,
/// with a message, without root.
fn other_filer(scratch: &Scratch) -> Option<Filer> {
    preload_library();
    if !is_root() {
        crate::support::skip_unsupported("a filer for the database's user: only root may serve files of others");
        return None;
    }
    let filer = Filer::start(scratch, &[]);
    std::fs::set_permissions(filer.export(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    Some(filer)
}

#[test]
#[ignore = "nightly: a comparison, half a minute"]
fn a_filer_on_this_host_that_was_there_before_is_found_and_its_processor_time_counted() {
    if !postgres_is_here() {
        return;
    }
    let (place, scratch) = (Place::new(), Scratch::new("filer-lost-other"));
    let Some(filer) = other_filer(&scratch) else { return };
    let target = format!("dnfs={}", filer.url);

    let output = place.compare(&["--quick", "--seconds", "2", "--path", &target]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", crate::support::text(&output));
    let record = place.record();
    let cpu = record.paths[0].cpu.as_ref().unwrap();
    assert!(cpu.by_owner.get("filer").is_some_and(|filer| filer.s_per_1000_orders > 0.0), "{:?}", cpu.by_owner);
    assert!(record.verdict.starts_with("NOT A RESULT: one run on each path"), "{}", record.verdict);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.trim_start().starts_with("NOT A RESULT: ") && !said.contains('\x1b'), "{said}");
    let page = std::fs::read_to_string(place.out().join("report.html")).unwrap();
    assert!(page.contains("<body class=\"not-a-result\">") && page.contains("<p class=\"verdict\">NOT A RESULT: "));
}

#[test]
#[ignore = "nightly: two comparisons, and the wait for a filer that does not come back; two minutes"]
fn a_filer_that_was_there_before_and_ends_is_named_with_the_directory_left_on_it_which_the_next_one_removes() {
    if !postgres_is_here() {
        return;
    }
    let (place, scratch) = (Place::new(), Scratch::new("filer-lost-other"));
    let Some(mut filer) = other_filer(&scratch) else { return };
    let target = format!("dnfs={}", filer.url);
    let (mut child, log) = start(&place, &["--path", &target], &scratch);
    await_measuring(&mut child, &log);
    let pid = filer.pid();
    filer.kill();
    let status = await_until("the comparison to end", LONG, || child.try_wait().unwrap());
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(2), "{text}");
    let said =
        text.lines().find(|line| line.starts_with("millrace: cannot go on: the filer ")).unwrap_or_else(|| panic!("{text}"));
    let url = filer.url.split('?').next().unwrap();
    let parts = [
        url,
        &format!("(process {pid}, 127.0.0.1:{})", filer.port),
        "took no connection for 1",
        ", in run 1 of 1 (dnfs, round 1); the directory millrace-compare-",
    ];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    assert!(text.contains("hint: once the filer is back, the next comparison on "), "{text}");
    place.assert_nothing_left(child.id());
    let export = filer.export().to_owned();
    let left = || std::fs::read_dir(&export).unwrap().flatten().count();
    assert_eq!(left(), 1, "what is left is what was said");
    filer.restart();
    std::fs::remove_dir_all(place.out()).unwrap();
    let again = place.compare(&["--quick", "--seconds", "2", "--path", &target]).output().unwrap();
    assert!(crate::support::text(&again).contains("removed millrace-compare-"), "{}", crate::support::text(&again));
    assert_eq!(left(), 0, "the next one removed it");
}
