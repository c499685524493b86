//! What apply refuses, and what revert refuses and restores.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::change::{Rules, YesToAll, finding, linux, tree, write};
use results::audit::{Activation, Finding};
use tune::change::{
    ChangeError, Choice, Group, JournalStatus, Operator, Outcome, Plan, Root, State, Steps, apply, plan, plan_of, revert,
};

const NOW: &str = "2026-11-21T20:00:00Z";
const SWAPPINESS: &str = "{ kind = \"sysctl\", key = \"vm.swappiness\", value = \"1\" }";
const HARD: &str = "{ kind = \"fstab-option\", key = \"hard\" }";

struct Host {
    folder: tempfile::TempDir,
    rules: Rules,
    findings: Vec<Finding>,
}

impl Host {
    /// A host with a mount and a kernel setting that are both changed.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        write(&root, "etc/fstab", "filer:/redo /redo nfs rw,soft 0 0\n");
        write(&root, "proc/sys/vm/swappiness", "60\n");
        let mut rules = Rules::default();
        rules.add("swappiness", "", "live", SWAPPINESS, "");
        rules.add("hard", "", "remount", HARD, "needs = [\"stop the databases\"]");
        let findings = vec![finding("swappiness", None), finding("hard", Some("mount /redo"))];
        Self { folder, rules, findings }
    }

    fn place(&self) -> std::path::PathBuf {
        self.folder.path().join("root")
    }

    fn root(&self) -> Root {
        Root::new(self.place())
    }

    fn state(&self) -> State {
        State::new(self.folder.path().join("state"))
    }

    fn plan(&self) -> Plan {
        plan(&self.rules, &linux(), &self.findings, &self.root())
    }

    fn apply(&self) -> Result<tune::change::Applied, ChangeError> {
        apply(&self.plan(), &self.state(), NOW, &mut YesToAll, &mut Steps::new())
    }

    fn revert(&self, force: bool) -> Result<tune::change::Reverted, ChangeError> {
        revert(&self.state(), Some(&self.root()), force, &mut Steps::new())
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.place().join(path)).unwrap()
    }
}

/// Creates a process in a tree that replaces a host's root.
fn process(root: &Path, pid: u32, name: &str, open: &str) {
    let process = root.join(format!("proc/{pid}"));
    fs::create_dir_all(process.join("fd")).unwrap();
    fs::write(process.join("comm"), name).unwrap();
    fs::write(process.join("maps"), "").unwrap();
    symlink("/", process.join("cwd")).unwrap();
    symlink(open, process.join("fd/3")).unwrap();
}

#[test]
fn a_remount_is_refused_while_a_process_uses_the_path_and_the_rest_is_done() {
    let host = Host::new();
    process(&host.place(), 4711, "postgres", "/redo/pg_wal/000000010000000000000001");
    let applied = host.apply().unwrap();
    let [live, remount] = applied.groups.as_slice() else { panic!("{applied:?}") };
    assert!(matches!(live.outcome, Outcome::Done { files: 1, running: 1, .. }), "{applied:?}");
    let Outcome::InUse { users, hidden: 0 } = &remount.outcome else { panic!("{applied:?}") };
    assert!(users.len() == 1 && users[0].pid == 4711 && users[0].program == "postgres", "{users:?}");
    assert!(applied.is_left() && host.text("etc/fstab").contains("soft"));
    assert_eq!(host.text("proc/sys/vm/swappiness"), "1\n");
}

#[test]
fn a_process_elsewhere_does_not_stand_in_the_way() {
    let host = Host::new();
    process(&host.place(), 4712, "postgres", "/redo2/file");
    let applied = host.apply().unwrap();
    assert!(!applied.is_left(), "{applied:?}");
    let steps: Vec<&str> = applied.groups.iter().flat_map(|group| &group.steps).map(|step| step.text.as_str()).collect();
    assert_eq!(steps, ["stop the databases", "unmount the file system and mount it again"]);
    assert_eq!(applied.steps_remain, 2);
    assert!(host.text("etc/fstab").contains("/redo nfs rw,hard 0 0"));
    assert!(host.plan().groups.iter().all(|group| group.files.is_empty()));
}

#[test]
fn a_second_apply_lies_on_the_first_and_reverts_take_them_from_the_top() {
    let mut host = Host::new();
    let before = tree(&host.place());
    host.apply().unwrap();
    let between = tree(&host.place());
    host.rules.add("swappiness", "", "live", &SWAPPINESS.replace("\"1\"", "\"10\""), "");
    host.apply().unwrap();
    assert_eq!(host.state().journals().unwrap().len(), 2);
    host.revert(false).unwrap();
    assert_eq!(tree(&host.place()), between);
    let reverted = host.revert(false).unwrap();
    assert_eq!(tree(&host.place()), before);
    assert!(reverted.removed.iter().any(|path| path == "/etc/sysctl.d"), "{reverted:?}");
    assert!(host.revert(false).unwrap().journal.is_none());
}

#[test]
fn an_interrupted_apply_keeps_a_second_one_from_beginning() {
    let host = Host::new();
    let ended = apply(&host.plan(), &host.state(), NOW, &mut YesToAll, &mut Steps::ending_at(12, false));
    assert!(matches!(ended, Err(ChangeError::Interrupted { step: 12 })), "{ended:?}");
    let error = host.apply().unwrap_err();
    assert!(
        matches!(&error, ChangeError::OpenJournal { .. }) && error.hint().unwrap().contains("millrace tune revert"),
        "{error}"
    );
    assert_eq!(host.state().journals().unwrap()[0].1, JournalStatus::Open);
    host.revert(false).unwrap();
    host.apply().unwrap();
}

#[test]
fn what_somebody_else_changed_is_named_and_nothing_is_taken_back() {
    let host = Host::new();
    host.apply().unwrap();
    let applied = tree(&host.place());
    fs::write(host.place().join("etc/fstab"), "theirs\n").unwrap();
    fs::write(host.place().join("proc/sys/vm/swappiness"), "33\n").unwrap();
    let Err(ChangeError::ChangedSince { paths, .. }) = host.revert(false) else { panic!("it must be refused") };
    assert_eq!(paths, ["/etc/fstab", "/proc/sys/vm/swappiness"]);
    assert_eq!(host.text("etc/sysctl.d/60-millrace.conf").as_bytes(), applied["etc/sysctl.d/60-millrace.conf"].1);

    let reverted = host.revert(true).unwrap();
    assert_eq!(host.text("etc/fstab"), "filer:/redo /redo nfs rw,soft 0 0\n");
    assert_eq!(host.text("proc/sys/vm/swappiness"), "60\n");
    assert_eq!(reverted.kept.len(), 1);
    assert_eq!(fs::read_to_string(&reverted.kept[0]).unwrap(), "theirs\n");
}

#[test]
fn a_folder_that_somebody_uses_stays_and_is_named() {
    let host = Host::new();
    host.apply().unwrap();
    write(&host.place(), "etc/sysctl.d/10-theirs.conf", "x = 1\n");
    let reverted = host.revert(false).unwrap();
    assert!(reverted.left.len() == 1 && reverted.left[0].starts_with("/etc/sysctl.d:"), "{reverted:?}");
    assert_eq!(host.text("etc/sysctl.d/10-theirs.conf"), "x = 1\n");
}

#[test]
fn a_file_behind_a_link_changes_where_it_lies_and_keeps_its_mode() {
    let host = Host::new();
    fs::rename(host.place().join("etc/fstab"), host.place().join("etc/fstab.real")).unwrap();
    symlink("/etc/fstab.real", host.place().join("etc/fstab")).unwrap();
    fs::set_permissions(host.place().join("etc/fstab.real"), fs::Permissions::from_mode(0o640)).unwrap();
    let before = tree(&host.place());
    host.apply().unwrap();
    let after = tree(&host.place());
    assert!(after["etc/fstab"] == before["etc/fstab"], "the link stays a link");
    assert_eq!(after["etc/fstab.real"].0, before["etc/fstab.real"].0);
    assert!(host.text("etc/fstab.real").contains("hard"));
    host.revert(false).unwrap();
    assert_eq!(tree(&host.place()), before);
}

#[test]
fn a_declined_group_leaves_no_trace() {
    struct No(Vec<Activation>);
    impl Operator for No {
        fn confirm(&mut self, group: &Group) -> bool {
            self.0.push(group.activation);
            false
        }
        fn progress(&mut self, _: usize, _: usize, _: &str) {
            panic!("nothing may begin");
        }
    }
    let host = Host::new();
    let before = tree(host.folder.path());
    let mut no = No(Vec::new());
    let applied = apply(&host.plan(), &host.state(), NOW, &mut no, &mut Steps::new()).unwrap();
    assert_eq!(no.0, [Activation::Live, Activation::Remount]);
    assert!(applied.is_left() && applied.journal.is_none() && applied.steps_remain == 0, "{applied:?}");
    assert_eq!(tree(host.folder.path()), before, "the state directory is not made");
}

#[test]
fn of_two_applies_that_both_ask_only_one_writes() {
    struct Inside<'a>(&'a Host, Option<Result<tune::change::Applied, ChangeError>>);
    impl Operator for Inside<'_> {
        fn confirm(&mut self, _: &Group) -> bool {
            self.1.get_or_insert_with(|| self.0.apply());
            true
        }
        fn progress(&mut self, _: usize, _: usize, _: &str) {}
    }
    let host = Host::new();
    process(&host.place(), 4711, "postgres", "/redo/file");
    let mut inside = Inside(&host, None);
    let outer = apply(&host.plan(), &host.state(), NOW, &mut inside, &mut Steps::new());
    assert!(matches!(inside.1, Some(Ok(_))), "{:?}", inside.1);
    let error = outer.unwrap_err();
    assert!(matches!(&error, ChangeError::Unchanged(_)), "{error:?}");
    assert_eq!(error.hint().unwrap(), "nothing was changed; run the plan again");
    assert_eq!(host.state().journals().unwrap().len(), 1);
}

#[test]
fn contested_settings_and_those_that_lose_data_wait_for_their_name() {
    let mut host = Host::new();
    host.rules.add("hard", "standing = [{ kind = \"contested-by\", by = \"X\", says = \"soft\" }]", "live", HARD, "");
    host.rules.add("swappiness", "", "live", SWAPPINESS, "loses_durability = true");
    let before = tree(&host.place());
    let plan = host.plan();
    assert!(plan.is_empty() && plan.apart.len() == 2, "{plan:?}");
    assert!(plan.apart.iter().any(|apart| apart.why.contains("X: soft")));
    let text = tune::change::render(&plan);
    assert!(text.contains("MAY LOSE ACKNOWLEDGED DATA") && text.contains("--rule"), "{text}");
    host.apply().unwrap();
    assert_eq!(tree(&host.place()), before);

    let named = Choice { rules: vec!["swappiness".to_owned()] };
    let plan = plan_of(&host.rules, &linux(), &host.findings, &host.root(), &named);
    assert!(plan.apart.is_empty() && plan.groups.len() == 1);
    assert!(tune::change::render(&plan).contains("DANGER"));
    apply(&plan, &host.state(), NOW, &mut YesToAll, &mut Steps::new()).unwrap();
    assert_eq!(host.text("proc/sys/vm/swappiness"), "1\n");
    assert!(host.text("etc/fstab").contains("soft"));
}

#[test]
fn two_that_run_at_once_are_told_apart_by_the_lock() {
    struct Inside<'a>(&'a Host, bool);
    impl Operator for Inside<'_> {
        fn confirm(&mut self, _: &Group) -> bool {
            let other = self.0.revert(false);
            self.1 |= matches!(other, Err(ChangeError::Busy { .. }));
            true
        }
        fn progress(&mut self, _: usize, _: usize, _: &str) {}
    }
    let host = Host::new();
    let mut inside = Inside(&host, false);
    apply(&host.plan(), &host.state(), NOW, &mut inside, &mut Steps::new()).unwrap();
    assert!(inside.1);
}

#[test]
fn a_journal_of_another_tree_is_not_taken_back_here() {
    let host = Host::new();
    host.apply().unwrap();
    let other = revert(&host.state(), Some(&Root::new(host.folder.path())), false, &mut Steps::new());
    assert!(matches!(other, Err(ChangeError::OtherRoot { .. })), "{other:?}");
}

#[test]
fn the_other_of_a_pair_of_kernel_settings_is_noted_and_set_back() {
    let mut host = Host::new();
    write(&host.place(), "proc/sys/vm/dirty_bytes", "0\n");
    write(&host.place(), "proc/sys/vm/dirty_ratio", "20\n");
    host.rules.add("dirty", "", "live", "{ kind = \"sysctl\", key = \"vm.dirty_bytes\", value = \"536870912\" }", "");
    host.findings = vec![finding("dirty", None)];
    host.apply().unwrap();
    // The kernel does this by itself.
    fs::write(host.place().join("proc/sys/vm/dirty_ratio"), "0\n").unwrap();
    let reverted = host.revert(false).unwrap();
    assert!(reverted.left.is_empty(), "{reverted:?}");
    assert_eq!((host.text("proc/sys/vm/dirty_bytes").as_str(), host.text("proc/sys/vm/dirty_ratio").as_str()), ("0\n", "20\n"));
}
