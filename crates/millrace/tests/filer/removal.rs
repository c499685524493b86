//! What the scripts of the packages remove, keep and print.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::filer::Filer;
use crate::support::{Scratch, text};

fn script(name: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(name));
    command
}

/// Runs `dpkg --purge` in another root directory.
fn purge(root: &Path) -> Output {
    let output = script("deb/postrm").arg("purge").env("DPKG_ROOT", root).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    output
}

#[test]
fn a_purge_keeps_the_backups_of_an_apply_until_it_is_reverted() {
    let scratch = Scratch::new("purge-tune");
    let root = scratch.folder("root");
    let state = scratch.folder("root/var/lib/millrace");
    let (reverted, applied) = (state.join("tune/journals/0001"), state.join("tune/journals/0002"));
    let begun = "{\"entry\":\"begin\",\"form\":1,\"program\":\"millrace\",\"root\":\"/\",\"started\":\"\"}\n";
    let ended = format!("{begun}{{\"entry\":\"complete\"}}\n{{\"entry\":\"reverted\"}}\n");
    for (folder, journal) in [(&reverted, ended.as_str()), (&applied, begun)] {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("journal"), journal).unwrap();
    }
    std::fs::create_dir(state.join("vol")).unwrap();
    let said = text(&purge(&root));
    assert!(said.contains("/tune stays: ") && said.contains("0002") && !said.contains("0001"), "{said}");
    assert!(said.contains("hint: install the package again, `millrace tune revert --all`"), "{said}");
    assert!(applied.join("journal").exists() && !state.join("vol").exists(), "the backups and nothing else");
    std::fs::write(applied.join("journal"), ended).unwrap();
    assert_eq!(text(&purge(&root)), "");
    assert!(!state.exists(), "all of it");
}

#[test]
fn a_purge_keeps_the_state_of_a_filer_that_runs_and_the_removal_names_it() {
    let scratch = Scratch::new("purge-filer");
    let state = scratch.folder("var/lib/millrace");
    let own = state.join("vol");
    let mut filer = Filer::start(&scratch, &[]);
    std::fs::rename(scratch.path().join("state"), &own).unwrap();
    let said = text(&purge(scratch.path()));
    assert!(said.contains(" stays: programs still use it:") && said.contains(&format!("pid {}: ", filer.pid())), "{said}");
    assert!(own.join("volume-state").exists());
    let said = text(&script("forget-segments").arg(scratch.folder("no-segments")).output().unwrap());
    assert!(said.contains(&format!("a filer still runs (pid {}): ", filer.pid())), "{said}");
    filer.kill();
    assert_eq!(text(&purge(scratch.path())), "");
    assert!(!state.exists());
}
