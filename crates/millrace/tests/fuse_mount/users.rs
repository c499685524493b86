//! Requests have the credentials of their caller.

use crate::mounted::Mounted;
use crate::support::succeed;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

/// A command line that runs a script as another user with one supplementary group.
fn as_user(uid: u32, group: u32, script: &str) -> String {
    format!("setpriv --reuid {uid} --regid {uid} --groups {group} sh -c '{script}'")
}

#[test]
fn files_belong_to_who_made_them_and_are_closed_to_others() {
    let Some(mounted) = Mounted::new("fuse-users") else { return };
    mounted.shell("chmod 1777 .");
    mounted.shell(&as_user(4001, 4900, "umask 077; echo secret >mine; mkdir room; echo x >room/file"));
    let exported = mounted.filer().export().join("mine").metadata().unwrap();
    assert_eq!((exported.uid(), exported.gid(), exported.mode() & 0o777), (4001, 4001, 0o600));
    for command in [
        "cat mine",
        "echo x >>mine",
        "rm -f mine",
        "ls room",
        "cat room/file",
        "chmod 644 mine",
        "mv mine yours",
        "cd room",
        "test -r mine",
    ] {
        let script = as_user(4002, 4900, &format!("if {command} 2>/dev/null; then echo done; else echo refused; fi"));
        assert_eq!(mounted.shell(&script), "refused\n", "{command}");
    }
    assert_eq!(mounted.shell(&as_user(4001, 4900, "cat mine room/file; test -w mine && echo allowed")), "secret\nx\nallowed\n");
}

#[test]
fn a_user_may_link_to_anothers_file_only_as_the_hosts_kernel_would_let_him() {
    let Some(mounted) = Mounted::new("fuse-links") else { return };
    let local = mounted.world.scratch.folder("local");
    let files = "chmod 1777 .; for f in 600:private 644:read 666:shared 4666:setuid 2676:setgid; do : >${f#*:}; chown 4001:4001 ${f#*:}; chmod ${f%%:*} ${f#*:}; done
ln -s shared symlink; chown -h 4001:4001 symlink";
    let link = |prefix: &str| {
        format!("for f in private read shared setuid setgid symlink; do ln -P $f {prefix}-$f 2>/dev/null && echo $f || :; done")
    };
    let script = format!("{files}\n{}\n{}", as_user(4002, 4900, &link("his")), as_user(4001, 4900, &link("own")));
    let expected = succeed(Command::new("sh").args(["-euc", &script]).current_dir(&local));
    assert_eq!(mounted.shell(&script), expected);
    let protected = std::fs::read_to_string("/proc/sys/fs/protected_hardlinks").unwrap();
    assert_eq!(expected.lines().count(), if protected.trim() == "0" { 12 } else { 7 }, "{expected}");
}

#[test]
fn supplementary_groups_count_and_programs_run_by_the_right_to_execute() {
    let Some(mounted) = Mounted::new("fuse-groups") else { return };
    mounted.shell("echo shared >f; chown 0:4900 f; chmod 640 f; cp /bin/true run; chown 0:4900 run; chmod 710 run");
    assert_eq!(mounted.shell(&as_user(4001, 4900, "cat f && ./run && echo ran")), "shared\nran\n");
    assert_eq!(mounted.shell(&as_user(4001, 4901, "cat f || ./run || echo neither")), "neither\n");
}

#[test]
fn what_was_opened_stays_open_to_whom_it_was_handed() {
    let Some(mounted) = Mounted::new("fuse-handed") else { return };
    mounted.shell("echo secret >f; chmod 600 f");
    let handed = format!("exec 5<f; {}", as_user(4001, 4900, "cat <&5; cat f 2>/dev/null || echo refused"));
    assert_eq!(mounted.shell(&handed), "secret\nrefused\n");
}

#[test]
fn a_user_of_the_url_is_everybody() {
    let Some(mounted) = Mounted::served("fuse-url-user", "&uid=4001&gid=4001", &[]) else { return };
    let export = mounted.filer().export();
    std::os::unix::fs::chown(export, Some(4001), Some(4001)).unwrap();
    std::fs::set_permissions(export, std::fs::Permissions::from_mode(0o700)).unwrap();
    mounted.shell("echo x >f");
    mounted.shell(&as_user(4002, 4900, "echo y >>f"));
    let found = export.join("f").metadata().unwrap();
    assert_eq!((found.uid(), found.size()), (4001, 4));
}
