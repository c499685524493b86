//! The commands of README, the tutorials and the how-to pages do what the pages say, and run as printed.

use std::path::{Path, PathBuf};

use crate::blocks::Mark;
use crate::support::{find_program, skip};

/// The commands of README that measure are within this number of lines.
const FIRST_SCREEN_LINES: usize = 42;

#[test]
fn the_commands_of_readme_run_as_printed() {
    run_page("README.md");
}

#[test]
fn the_tutorial_of_a_database_without_a_mount_runs_as_printed() {
    run_page("docs/tutorial-postgresql.md");
}

#[test]
fn the_tutorial_of_a_container_runs_as_printed() {
    if find_program("podman").is_none() {
        return skip("no podman for the tutorial of a container");
    }
    run_page("docs/tutorial-container.md");
}

#[test]
fn the_tutorial_of_the_audit_runs_as_printed() {
    run_page("docs/tutorial-audit.md");
}

#[test]
fn the_tutorial_that_breaks_a_database_runs_as_printed() {
    run_page("docs/tutorial-break.md");
}

#[test]
fn choosing_a_protocol_runs_as_printed() {
    run_page("docs/howto-protocol.md");
}

#[test]
#[ignore = "nightly: a page of many commands, a minute"]
fn backing_up_and_restoring_runs_as_printed() {
    run_page("docs/howto-backup.md");
}

#[test]
fn going_back_to_a_kernel_mount_runs_as_printed() {
    run_page("docs/howto-kernel-mount.md");
}

#[test]
#[ignore = "nightly: minutes; the blocks that take long, after those before them"]
fn the_long_commands_of_the_pages_run_as_printed() {
    for page in pages() {
        if crate::blocks::of_page(&root().join(&page)).iter().any(|block| block.mark == Mark::Nightly) {
            check(&page, true);
        }
    }
}

/// Without a test, a page becomes wrong. Each page has its own test above, so that they run at the same time.
#[test]
fn every_tutorial_and_how_to_page_is_run_and_is_in_the_index() {
    let this = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/printed.rs")).unwrap();
    let index = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    for page in pages() {
        assert!(this.contains(&format!("run_page(\"{page}\")")), "{page} is not run");
    }
    for file in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") && name != "README.md" {
            assert!(index.contains(&format!("]({name})")), "docs/README.md does not list {name}");
        }
    }
}

#[test]
fn a_block_that_is_not_run_says_why() {
    for page in pages() {
        for block in crate::blocks::of_page(&root().join(&page)) {
            if let Mark::NotRun(reason) = &block.mark {
                assert!(reason.split_whitespace().count() >= 3, "{page}:{}: {reason}", block.line);
            }
        }
    }
}

#[test]
fn the_commands_that_measure_are_on_the_first_screen_of_readme() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for command in ["millrace compare \\", "millrace compare --guest --quick "] {
        let at = readme.lines().position(|line| line.starts_with(command)).unwrap_or_else(|| panic!("README has no {command}"));
        assert!(at < FIRST_SCREEN_LINES, "{command} is in line {}", at + 1);
    }
}

fn run_page(page: &str) {
    check(page, false);
}

fn check(page: &str, nightly: bool) {
    if !crate::host::can_be_made() {
        return;
    }
    let blocks = crate::blocks::of_page(&root().join(page));
    assert!(blocks.iter().any(|block| !matches!(block.mark, Mark::NotRun(_))), "{page} has nothing to run");
    let label = page.replace(['/', '.'], "-");
    let ran = crate::host::run(&label, &blocks, nightly, &[]);
    assert!(ran.fault.is_none(), "{page}: {}", ran.fault.unwrap_or_default());
    assert_eq!(ran.left, "", "{page} leaves processes or files");
    for block in &blocks {
        let (_, printed) = ran.outputs.iter().find(|(line, _)| *line == block.line).unwrap();
        let is_run = !matches!(block.mark, Mark::NotRun(_)) && (nightly || block.mark != Mark::Nightly);
        let lacks = block.output.as_deref().filter(|_| is_run).and_then(|output| crate::blocks::lacks(output, printed));
        assert!(lacks.is_none(), "{page}:{}: does not print\n{}\nbut\n{printed}", block.line, lacks.unwrap_or_default());
    }
}

/// README, the tutorials and the how-to pages.
fn pages() -> Vec<String> {
    let names = std::fs::read_dir(root().join("docs")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let is_page = |name: &String| name.starts_with("tutorial-") || name.starts_with("howto-");
    let mut pages: Vec<String> = names.filter(is_page).map(|name| format!("docs/{name}")).collect();
    pages.push("README.md".to_owned());
    pages.sort();
    pages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn what_a_page_shows_may_leave_out_lines_and_parts_of_lines() {
    assert_eq!(crate::blocks::lacks("one\nthr…\n", "one\ntwo\nthree\n"), None);
    assert_eq!(crate::blocks::lacks("a … c … e\n", "a b c d e\n"), None);
    assert_eq!(crate::blocks::lacks("two\none\n", "one\ntwo\n"), Some("one"));
    assert_eq!(crate::blocks::lacks("on\n", "one\n"), Some("on"));
}
