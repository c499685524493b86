//! patch(1) applies the differences of a plan.

use std::fs;
use std::process::{Command, Stdio};

use crate::change::{Rules, World, YesToAll, finding, linux, write};
use tune::change::{Root, State, Steps, apply, plan, render};

/// Applies the text of a plan with patch(1) in a copy of a tree. The error is what patch prints.
fn patched(tree: &std::path::Path, copy: &std::path::Path, text: &str) -> Result<(), String> {
    assert!(Command::new("cp").arg("-a").arg(tree).arg(copy).status().unwrap().success());
    let patch = copy.with_extension("patch");
    fs::write(&patch, text).unwrap();
    let stdin = fs::File::open(&patch).unwrap();
    let ran = Command::new("patch").args(["-p1", "--binary", "--fuzz=0", "-d"]).arg(copy).stdin(stdin).output().unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    if ran.status.success() { Ok(()) } else { Err(printed) }
}

fn has_patch() -> bool {
    let found = Command::new("patch").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        sim::skip("patch is not installed");
    }
    found
}

#[test]
fn patch_makes_the_same_files_from_a_plan_as_apply() {
    if !has_patch() {
        return;
    }
    sim::sweep(20, |_, mut rng| {
        let folder = tempfile::tempdir().unwrap();
        let (root, copy) = (folder.path().join("root"), folder.path().join("copy"));
        let world = World::random(&root, &mut rng);
        let root_of_plan = Root::new(&root);
        let plan = plan(&world.rules, &world.facts, &world.findings, &root_of_plan);
        if !plan.files.is_empty() {
            patched(&root, &copy, &render(&plan)).unwrap_or_else(|printed| panic!("{printed}\n{}", render(&plan)));
        }
        apply(&plan, &State::new(folder.path().join("state")), "2026-11-21T20:00:00Z", &mut YesToAll, &mut Steps::new()).unwrap();
        for file in &plan.files {
            let path = file.real.trim_start_matches('/');
            assert_eq!(fs::read(copy.join(path)).unwrap(), fs::read(root.join(path)).unwrap(), "{path}");
        }
    });
}

#[test]
fn comments_near_a_change_are_not_shown_and_patch_applies_it() {
    if !has_patch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, copy) = (folder.path().join("root"), folder.path().join("copy"));
    let fstab = "# the key is hunter2\nUUID=1 / ext4 defaults 0 1\n# note\n\nfiler:/redo /redo nfs rw,soft 0 0\n# the end\n\
                 a:/a /a nfs rw,soft 0 0\nb:/b /b nfs ro 0 0\n";
    write(&root, "etc/fstab", fstab);
    let mut rules = Rules::default();
    rules.add("hard", "", "remount", "{ kind = \"fstab-option\", key = \"hard\" }", "");
    let findings = ["mount /redo", "mount /a"].map(|mount| finding("hard", Some(mount)));
    let text = render(&plan(&rules, &linux(), &findings, &Root::new(&root)));
    assert!(!text.contains("hunter2") && text.matches("@@ -").count() == 2, "{text}");
    patched(&root, &copy, &text).unwrap_or_else(|printed| panic!("{printed}\n{text}"));
    assert_eq!(fs::read_to_string(copy.join("etc/fstab")).unwrap(), fstab.replace("soft", "hard"));
}
