//! The runtime directory of a user's programs. Users that can write there can read and change what
//! the programs write. Each test has its own /dev/shm and /run, without files of this host.

use crate::support::filer::Filer;
use crate::support::{Scratch, is_root, keepers, may_make_namespaces, millrace, preload_library, skip, text};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// `as UID …` runs a command as a user whose only group is `users`, 100 on every Debian.
const PRELUDE: &str = r#"
mount -t tmpfs -o mode=1777 none /dev/shm
unset MILLRACE_RUNTIME_DIR XDG_RUNTIME_DIR
as() { uid=$1; shift; setpriv --reuid "$uid" --regid 100 --clear-groups "$@"; }
run() { "$MILLRACE" exec "$@" --mount /db="$URL" -- sh -c 'id -u > /db/f; echo done'; }
run_as() { uid=$1; shift; as "$uid" "$MILLRACE" exec "$@" --mount /db="$URL" -- sh -c 'echo x > /db/by-$(id -u); echo done'; }
"#;

struct World {
    filer: Filer,
    scratch: Scratch,
}

impl World {
    /// `None`, with a message, if this host cannot run the test.
    fn new(label: &str) -> Option<Self> {
        if !is_root() {
            skip("only root can be several users");
            return None;
        }
        if !may_make_namespaces() {
            return None;
        }
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, &[]);
        std::fs::set_permissions(filer.export(), PermissionsExt::from_mode(0o777)).unwrap();
        Some(Self { filer, scratch })
    }

    fn shell(&self, script: &str) -> Output {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("{PRELUDE}{script}")]);
        command.env("MILLRACE", millrace().get_program()).env("MILLRACE_PRELOAD", preload_library());
        command.env("URL", &self.filer.url).env("SCRATCH", self.scratch.path()).current_dir("/");
        let output = command.output().unwrap();
        keepers::end(self.filer.port);
        output
    }

    /// Asserts that the script ends with 2 and that its output has all these parts.
    fn refuses(&self, script: &str, told: &[&str]) {
        let output = self.shell(script);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{script}: {said}");
        for part in told.iter().chain(&["MILLRACE_RUNTIME_DIR"]) {
            assert!(said.contains(part), "{script}: no `{part}` in {said}");
        }
        let files = std::fs::read_dir(self.filer.export()).unwrap().count();
        assert_eq!(files, 0, "{script}: nothing ran");
    }

    fn runs(&self, script: &str) -> String {
        let output = self.shell(script);
        assert!(output.status.success(), "{script}: {}", text(&output));
        text(&output)
    }
}

#[test]
fn a_default_directory_that_another_user_made_is_used_by_no_command() {
    let Some(world) = World::new("trust-default") else { return };
    let owner = ["/dev/shm/millrace-0 belongs to another user, nobody (uid 65534)"];
    let make = "as 65534 sh -c 'mkdir /dev/shm/millrace-0; chmod 2770 /dev/shm/millrace-0';";
    for command in [
        "run",
        r#""$MILLRACE" mount "$URL" "$SCRATCH""#,
        r#""$MILLRACE" keeper --mount /db="$URL""#,
        r#""$MILLRACE" nfs counters"#,
        r#""$MILLRACE" nfs counters --prometheus"#,
        r#""$MILLRACE" nfs counters --remove-dead"#,
        r#""$MILLRACE" nfs counters /dev/shm/millrace-0/0123456789abcdef"#,
    ] {
        world.refuses(&format!("{make} {command}"), if command.contains("keeper") { &["uid 65534"] } else { &owner });
    }
    world.refuses("as 65534 mkdir -m 700 /dev/shm/millrace-0; run", &owner);
    world.refuses("as 65534 sh -c 'echo > /dev/shm/millrace-0'; run", &["is not a directory; it belongs to nobody"]);
    world.refuses("mkdir -m 700 /dev/shm/mine; ln -s mine /dev/shm/millrace-0; run", &["is a symbolic link; it belongs to root"]);
    world.refuses("mkdir -m 755 /dev/shm/millrace-0; run", &["has mode 0755"]);
}

#[test]
fn a_fellow_member_of_a_group_is_another_user() {
    let Some(world) = World::new("trust-member") else { return };
    let make = |name: &str| format!("as 4002 sh -c 'mkdir /dev/shm/{name}; chmod 2770 /dev/shm/{name}';");
    let told = ["belongs to another user, uid 4002"];
    world.refuses(&format!("{} run_as 4001", make("millrace-4001")), &told);
    world.refuses(&format!("{} run_as 4001 --group 100", make("millrace-group-100")), &told);
    world.refuses(&format!("{} run --group 100", make("millrace-group-100")), &told);
    let named = "export MILLRACE_RUNTIME_DIR=/dev/shm/named;";
    world.refuses(&format!("{} {named} run_as 4001", make("named")), &told);
    world.refuses(&format!("{} {named} run", make("named")), &told);
    // A shared directory is never the default, whichever user created it.
    world.refuses("mkdir -m 700 /dev/shm/millrace-0; chmod 2770 /dev/shm/millrace-0; run", &["has mode 2770"]);
}

#[test]
fn a_directory_that_others_can_rename_is_refused() {
    let Some(world) = World::new("trust-above") else { return };
    let named = |path: &str| format!("export MILLRACE_RUNTIME_DIR={path};");
    let of_other = format!("as 4002 mkdir -m 755 /dev/shm/theirs; {}", named("/dev/shm/theirs/run"));
    world.refuses(&format!("{of_other} run"), &["can be replaced by another user: /dev/shm/theirs belongs to uid 4002"]);
    world.refuses(&format!("{of_other} mkdir -m 700 /dev/shm/theirs/run; run"), &["/dev/shm/theirs belongs to uid 4002"]);
    let open = "mkdir -m 700 /dev/shm/open /dev/shm/open/run; chmod 777 /dev/shm/open;";
    world.refuses(&format!("{open} {} run", named("/dev/shm/open/run")), &["/dev/shm/open has mode 0777"]);
    let link = format!("mkdir -m 700 /dev/shm/mine; as 4002 ln -s mine /dev/shm/link; {} run", named("/dev/shm/link/run"));
    world.refuses(&link, &["/dev/shm/link belongs to uid 4002"]);
    let session =
        "umount /dev/shm; mount -t tmpfs -o mode=755 none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9
        install -d -m 700 -o 4002 \"$SCRATCH/session\"; export XDG_RUNTIME_DIR=\"$SCRATCH/session\"; run";
    world.refuses(session, &["session belongs to uid 4002"]);
}

#[test]
fn root_has_its_directory_where_nobody_else_makes_names() {
    let Some(world) = World::new("trust-root") else { return };
    let squat = "as 65534 mkdir -m 700 /dev/shm/millrace-0; mount -t tmpfs -o mode=755 none /run;";
    let said = world.runs(&format!(
        "{squat} run; ls -d /run/millrace/*/segment; stat -c %a:%u /run/millrace; \"$MILLRACE\" nfs counters --all"
    ));
    assert!(said.starts_with("done\n/run/millrace/") && said.contains("\n700:0\n") && said.contains("(/run/millrace/"), "{said}");
}

#[test]
fn a_group_shares_the_directory_that_root_made() {
    let Some(world) = World::new("trust-group") else { return };
    let said = world.runs("run --group 100 && run_as 4001 --group 100 && run_as 4002 --group 100 && ls /dev/shm");
    assert_eq!(said.matches("done").count(), 3, "{said}");
    assert!(said.contains("millrace-group-100") && !said.contains("separately"), "{said}");
    // The child of another user has the directory of exec's --group.
    let child = r#"run --group 100 && "$MILLRACE" exec --group 100 --mount /db="$URL" -- setpriv --reuid 4001 --regid 100 --clear-groups \
        sh -c 'cat /db/f; echo $MILLRACE_RUNTIME_DIR'; ls /dev/shm"#;
    let said = world.runs(child);
    assert!(said.contains("0\n/dev/shm/millrace-group-100\n") && !said.contains("millrace-4001"), "{said}");
}

#[test]
fn giving_up_the_last_mount_leaves_nothing_of_the_default_directory() {
    let Some(world) = World::new("trust-end") else { return };
    let said = world.runs("run && \"$MILLRACE\" nfs give-up /db 2>/dev/null && find /dev/shm -mindepth 1");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.starts_with("done\ngave up /db on nfs://"), "{said}");
}
