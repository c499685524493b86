//! mount(8), fstab(5) and options.

use crate::mounted::{Mounted, is_mounted};
use crate::support::{millrace, succeed, text};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

const EROFS: i32 = 30;

#[test]
fn a_mount_with_ro_refuses_every_change_with_erofs() {
    let Some(mounted) = Mounted::served("fuse-ro", "", &["-o", "ro,_netdev"]) else { return };
    fs::write(mounted.filer().export().join("f"), "there").unwrap();
    assert_eq!(fs::read_to_string(mounted.path("f")).unwrap(), "there");
    let refused = [
        fs::write(mounted.path("f"), "x").unwrap_err(),
        fs::write(mounted.path("new"), "x").unwrap_err(),
        fs::remove_file(mounted.path("f")).unwrap_err(),
        fs::create_dir(mounted.path("d")).unwrap_err(),
    ];
    assert_eq!(refused.map(|error| error.raw_os_error()), [Some(EROFS); 4]);
}

#[test]
fn mount_a_mounts_a_line_of_fstab_once_and_a_remount_is_refused_with_what_to_do() {
    let Some(mounted) = Mounted::new("fuse-fstab") else { return };
    let (directory, helpers) = (mounted.world.scratch.folder("fstab"), mounted.world.scratch.folder("helpers"));
    symlink(millrace().get_program(), helpers.join("mount.fuse.millrace")).unwrap();
    let fstab = mounted.world.scratch.path().join("fstab.txt");
    fs::write(&fstab, format!("{} {} fuse.millrace ro,noexec,_netdev 0 0\n", mounted.filer().url, directory.display())).unwrap();
    // The mount namespace of its own has the helper in /sbin, as after an installation.
    let script = format!(
        "mount -t tmpfs sbin /usr/local/sbin; cp -P {helpers}/* /usr/local/sbin/; mount -t overlay overlay -o lowerdir=/usr/local/sbin:/usr/sbin /usr/sbin
         mount -T {fstab} -a; mount -T {fstab} -a
         findmnt -no SOURCE,FSTYPE,OPTIONS {dir}; grep -c ' {dir} ' /proc/self/mountinfo
         mount -o remount,rw {dir} || echo remount: $?
         umount {dir}",
        helpers = helpers.display(),
        fstab = fstab.display(),
        dir = directory.display(),
    );
    let done: Output = Command::new("unshare").args(["--mount", "sh", "-euc", &script]).output().unwrap();
    let said = text(&done);
    assert!(done.status.success(), "{said}");
    let line = said.lines().find(|line| line.contains("fuse.millrace")).unwrap_or_default();
    assert!(line.starts_with("nfs://127.0.0.1") && line.contains(" ro,nosuid,nodev,noexec"), "{said}");
    assert!(said.contains("\n1\n") && said.contains("remount: ") && said.contains("unmount it, and mount it again"), "{said}");
    assert!(!is_mounted(&directory));
}

#[test]
fn the_form_by_which_mount_fuse_calls_a_program_mounts_and_an_unknown_option_is_named() {
    let Some(mounted) = Mounted::new("fuse-by-mount") else { return };
    let directory = mounted.world.scratch.folder("second");
    succeed(millrace().arg(&mounted.filer().url).arg(&directory).args(["-o", "rw,dev,suid"]));
    fs::write(directory.join("f"), "x").unwrap();
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"x");
    succeed(millrace().arg("unmount").arg(&directory));
    let refused = millrace().arg(&mounted.filer().url).arg(&directory).args(["-o", "rsize=8192"]).output().unwrap();
    assert!(!refused.status.success());
    assert!(
        text(&refused)
            .contains("rsize=8192 is an option of the client: write it into the URL, as in nfs://HOST/EXPORT?rsize=8192"),
        "{}",
        text(&refused)
    );
}
