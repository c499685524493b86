//! Operations on files and directories.

use crate::mounted::Mounted;
use crate::support::{Scratch, await_until, succeed};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Operations of programs on files. It prints what they see, without anything in which two file
/// systems may differ.
const SCRIPT: &str = r#"
umask 027
say() { stat -c '%n %F %a %h %s %u %g' "$@"; }
try() { if "$@" >out 2>&1; then echo "$1: done"; else sed "s/^[a-z]*: //" out; fi; }
echo one >a; echo two >>a; cat a; say a
mkdir -p d/e; say d d/e; try mkdir d; try rmdir d; try rm d; try cat d; try cat absent
ln a d/b; say a d/b; ln -s d/b link; readlink link; cat link; say link; ln -s nowhere dangling; try cat dangling
mv d/b d/e/c; cat d/e/c; mv d/e d/f; say d/f/c; try mv d d/f/x
echo new >n; mv -f n a; cat a; say a d/f/c
chmod 4711 a; say a; chown 7:8 a; say a; chmod 600 a
touch -d '2001-02-03 04:05:06.123456789 UTC' a; stat -c '%.9Y' a; TZ=UTC stat -c '%y' a
truncate -s 5000 a; say a; tail -c 3 a | od -c; truncate -s 2 a; cat a; echo
dd if=/dev/zero of=z bs=1000 count=7 seek=3 2>/dev/null; say z; printf x | dd of=z bs=1 seek=500 conv=notrunc 2>/dev/null; cksum z
mkfifo p; say p; echo through >p & cat p; wait
try ln a a; try ln absent x; try mv absent x; try mkdir absent/x; try rmdir absent; try rmdir a
cp -a d copy; (cd copy && find . | sort); cp z z2; cmp z z2
exec 5>kept 6<kept; rm kept; echo still here >&5; cat <&6; exec 5>&- 6<&-
exec 5<z; mv -f z2 z; wc -c <&5; exec 5<&-
ls -a | sort; rm -r d copy a z link dangling p; ls -a
test -r . ; test -w . ; test -x . && echo allowed
"#;

#[test]
fn programs_see_on_a_mount_what_they_see_on_a_local_directory() {
    let Some(mounted) = Mounted::new("fuse-files") else { return };
    let local = Scratch::new("fuse-local");
    let expected = succeed(Command::new("sh").args(["-euc", SCRIPT]).current_dir(local.folder("x")).env("LC_ALL", "C"));
    assert_eq!(mounted.shell(SCRIPT), expected);
    assert!(expected.lines().count() > 60, "{expected}");
    mounted.world.nothing_left_behind();
}

#[test]
fn a_file_is_made_once_with_o_excl_and_emptied_with_o_trunc() {
    let Some(mounted) = Mounted::new("fuse-open") else { return };
    let path = mounted.path("f");
    OpenOptions::new().write(true).create_new(true).mode(0o640).open(&path).unwrap().write_all(b"content").unwrap();
    let again = OpenOptions::new().write(true).create_new(true).open(&path).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(fs::read(&path).unwrap(), b"content");
    let file = OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
    assert_eq!((file.metadata().unwrap().len(), mounted.world.exported("f").len()), (0, 0));
    file.write_all_at(b"end", 1 << 20).unwrap();
    drop(file);
    assert_eq!(mounted.world.exported("f").len(), (1 << 20) + 3);
}

#[test]
fn data_is_on_the_server_when_a_write_and_a_close_return() {
    let Some(mounted) = Mounted::new("fuse-write") else { return };
    let mut file = File::create(mounted.path("f")).unwrap();
    let data: Vec<u8> = (0..5_000_000u32).map(|i| (i / 7) as u8).collect();
    file.write_all(&data).unwrap();
    assert_eq!(mounted.world.exported("f"), data, "a write is no cache's");
    let commits = mounted.filer().calls("COMMIT");
    drop(file);
    assert!(mounted.filer().calls("COMMIT") > commits, "close commits");
    let mut file = OpenOptions::new().write(true).custom_flags(0o10_000).open(mounted.path("f")).unwrap(); // O_DSYNC
    let commits = mounted.filer().calls("COMMIT");
    file.write_all(b"stable").unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(mounted.filer().calls("COMMIT"), commits, "an O_DSYNC write is stable by itself");
}

#[test]
fn a_read_past_the_end_is_short_and_a_file_without_holes_is_all_data() {
    let Some(mounted) = Mounted::new("fuse-read") else { return };
    fs::write(mounted.path("f"), vec![7; 10_000]).unwrap();
    let mut file = File::open(mounted.path("f")).unwrap();
    let mut buffer = vec![0; 20_000];
    assert_eq!(file.read_at(&mut buffer, 4_000).unwrap(), 6_000);
    assert_eq!(file.read_at(&mut buffer, 10_000).unwrap(), 0);
    assert_eq!(file.seek(SeekFrom::End(-5)).unwrap(), 9_995);
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [7; 5]);
    assert_eq!(
        mounted.shell(
            "python3 -c 'import os; f = os.open(\"f\", 0); print(os.lseek(f, 5, os.SEEK_HOLE), os.lseek(f, 5, os.SEEK_DATA))'"
        ),
        "10000 5\n"
    );
}

#[test]
fn space_cannot_be_reserved_and_the_file_system_says_how_much_there_is() {
    let Some(mounted) = Mounted::new("fuse-space") else { return };
    let refused = mounted.shell("touch f; fallocate -l 4096 f 2>&1 || echo refused");
    assert!(refused.contains("not supported") && refused.contains("refused"), "{refused}");
    let blocks = |path: &std::path::Path| succeed(Command::new("stat").args(["-f", "-c", "%b %S"]).arg(path));
    assert_eq!(blocks(&mounted.directory), blocks(mounted.filer().export()));
}

#[test]
fn times_are_kept_to_the_nanosecond() {
    let Some(mounted) = Mounted::new("fuse-times") else { return };
    let file = File::create(mounted.path("f")).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_007, 123_456_789);
    file.set_modified(time).unwrap();
    assert_eq!(file.metadata().unwrap().modified().unwrap(), time);
    assert_eq!(mounted.filer().export().join("f").metadata().unwrap().mtime_nsec(), 123_456_789);
}

#[test]
fn a_directory_of_many_names_is_listed_whole_while_they_are_removed() {
    let Some(mounted) = Mounted::new("fuse-list") else { return };
    for number in 0..5_000 {
        File::create(mounted.filer().export().join(format!("a-name-of-some-length-{number}"))).unwrap();
    }
    let mut seen = 0;
    for entry in fs::read_dir(&mounted.directory).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
        seen += 1;
    }
    assert_eq!(seen, 5_000);
    assert_eq!(fs::read_dir(&mounted.directory).unwrap().count(), 0);
}

#[test]
fn appends_of_many_processes_are_all_there_and_whole() {
    let Some(mounted) = Mounted::new("fuse-append") else { return };
    const SCRIPT: &str =
        "i=0; while [ $i -lt 300 ]; do echo \"$NAME $i 0123456789012345678901234567890123456789\" >>FILE; i=$((i+1)); done";
    let here = |name: &str| {
        let mut command = mounted.shell_command(&SCRIPT.replace("FILE", "log"));
        command.env("NAME", name).spawn().unwrap()
    };
    let mut beside = mounted.world.exec("/bin/sh");
    beside.args(["-euc", &SCRIPT.replace("FILE", "/db/log")]).env("NAME", "beside");
    let children = [here("one"), here("two"), beside.spawn().unwrap()];
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let log = String::from_utf8(mounted.world.exported("log")).unwrap();
    assert_eq!(log.lines().count(), 900);
    for name in ["one", "two", "beside"] {
        let numbers: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix(name)?.trim().split(' ').next()).collect();
        assert_eq!(numbers, (0..300).map(|i| i.to_string()).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_shared_mapping_is_written_back_where_the_kernel_can_map_such_files() {
    let Some(mounted) = Mounted::new("fuse-map") else { return };
    if !mounted.maps_files() {
        return;
    }
    let said = mounted.shell(
        "python3 - <<'END'
import mmap, os
f = os.open('f', os.O_RDWR | os.O_CREAT)
os.ftruncate(f, 8192)
m = mmap.mmap(f, 8192)
m[4090:4100] = b'0123456789'
m.flush()
print(os.pread(f, 10, 4090))
END",
    );
    assert_eq!(said, "b'0123456789'\n");
    assert_eq!(&mounted.world.exported("f")[4090..4100], b"0123456789");
}

#[test]
fn a_stat_is_one_call_and_an_open_file_is_looked_at_without_any() {
    let Some(mounted) = Mounted::new("fuse-calls") else { return };
    fs::write(mounted.filer().export().join("f"), "x").unwrap();
    let calls = || (mounted.filer().calls("LOOKUP"), mounted.filer().calls("GETATTR"));
    // The mount's keeper starts at this time and sends calls of its own.
    let round = || {
        let before = calls();
        (0..10).for_each(|_| assert_eq!(mounted.path("f").metadata().unwrap().len(), 1));
        (calls() == (before.0 + 10, before.1)).then_some(())
    };
    await_until("ten calls of stat to be ten LOOKUPs", Duration::from_secs(20), round);
    let file = File::open(mounted.path("f")).unwrap();
    let before = calls();
    for _ in 0..10 {
        file.metadata().unwrap();
    }
    assert_eq!(calls(), before);
}

#[test]
fn what_was_looked_up_is_believed_for_one_request_only() {
    let Some(mounted) = Mounted::new("fuse-fresh") else { return };
    fs::create_dir(mounted.path("d")).unwrap();
    let directory = OpenOptions::new().read(true).custom_flags(0o10_200_000).open(mounted.path("d")).unwrap(); // O_PATH
    for round in 0..10u64 {
        fs::create_dir(mounted.filer().export().join(format!("d/{round}"))).unwrap();
        assert_eq!(mounted.path("d").metadata().unwrap().nlink(), round + 3);
        fs::create_dir(mounted.path(&format!("d/other-{round}"))).unwrap();
        fs::remove_dir(mounted.path(&format!("d/other-{round}"))).unwrap();
        assert_eq!(directory.metadata().unwrap().nlink(), round + 3);
    }
}
