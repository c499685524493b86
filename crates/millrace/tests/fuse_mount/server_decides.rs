//! What the server decides, and what a server does not support: rights, renames with flags,
//! listings, nested file systems.

use crate::mounted::{Mounted, has_fuse};
use crate::support::configured::Configured;
use crate::support::ganesha::Ganesha;
use crate::support::lesser_server::{LesserServer, NOT_SUPPORTED, Refusal};
use crate::support::private_files::{CALLER, RIGHTS, lay_out};
use crate::support::world::World;
use crate::support::{Scratch, keepers, millrace, skip, succeed};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The distribution's Python, which every user may run.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn what_the_server_grants_is_granted_though_the_mode_bits_deny_it() {
    if !has_fuse() {
        return;
    }
    if !Path::new(PYTHON).is_file() {
        return skip("no /usr/bin/python3");
    }
    let scratch = Scratch::new("fuse-rights");
    let export = scratch.folder("vol");
    lay_out(&export);
    let rest = "admin = \"DIR/admin.sock\"\n[[volume]]\nname = \"vol\"\ndir = \"DIR/vol\"\nclients = [\"127.0.0.1\"]\n\
                squash = \"all\"\nanonymous_uid = 4002\nanonymous_gid = 4002\n";
    let filer = Configured::start(&scratch, rest);
    let mounted = Mounted::by_url(World::new("fuse-rights-world"), &format!("nfs://127.0.0.1:{}/vol", filer.port(0)));
    let mut program = Command::new("setpriv");
    let id = CALLER.to_string();
    program.args(["--reuid", &id, "--regid", &id, "--clear-groups", "timeout", "90", PYTHON, "-c", RIGHTS]);
    let out = succeed(program.arg(&mounted.directory).current_dir("/"));
    assert!(out.lines().count() == 12 && out.lines().all(|line| line.ends_with(" ok")), "{out}");
    drop(mounted);
    keepers::end(filer.port(0));
}

#[test]
fn a_rename_with_flags_is_refused_and_of_files_given_one_name_without_replacing_one_stays() {
    let Some(mounted) = Mounted::new("fuse-rename-flags") else { return };
    std::fs::write(mounted.path("from"), "from").unwrap();
    std::fs::write(mounted.path("taken"), "taken").unwrap();
    let tried = |to: &str, flags| renameat_with(CWD, mounted.path("from"), CWD, mounted.path(to), flags);
    for flags in [RenameFlags::NOREPLACE, RenameFlags::WHITEOUT] {
        assert_eq!(tried("free", flags), Err(Errno::INVAL));
        assert_eq!(tried("free", flags), Err(Errno::INVAL), "again");
    }
    assert_eq!(tried("taken", RenameFlags::EXCHANGE), Err(Errno::INVAL));
    assert_eq!(tried("taken", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!(std::fs::read(mounted.path("taken")).unwrap(), b"taken");
    for round in 0..20 {
        let name = mounted.path(&format!("name-{round}"));
        let claim = || {
            let file = tempfile::NamedTempFile::new_in(&mounted.directory).unwrap();
            let inode = file.as_file().metadata().unwrap().ino();
            file.persist_noclobber(&name).ok().map(|_| inode)
        };
        let won: Vec<u64> = std::thread::scope(|scope| {
            let claims: Vec<_> = (0..4).map(|_| scope.spawn(claim)).collect();
            claims.into_iter().filter_map(|claim| claim.join().unwrap()).collect()
        });
        assert_eq!(won, [std::fs::metadata(&name).unwrap().ino()]);
    }
}

#[test]
fn directories_are_listed_and_open_files_replaced_where_readdirplus_and_link_are_refused() {
    if !has_fuse() {
        return;
    }
    let world = World::new("fuse-lesser");
    let server = LesserServer::start(world.filer.port, vec![Refusal::readdirplus(NOT_SUPPORTED), Refusal::link(NOT_SUPPORTED)]);
    let url = server.url(&world.filer.url, world.filer.port);
    let mounted = Mounted::by_url(world, &url);
    std::fs::write(mounted.path("new"), "new").unwrap();
    std::fs::write(mounted.path("old"), "old").unwrap();
    let reader = std::fs::File::open(mounted.path("old")).unwrap();
    std::fs::rename(mounted.path("new"), mounted.path("old")).unwrap();
    assert_eq!(std::io::read_to_string(&reader).unwrap(), "old");
    assert_eq!(std::fs::read_to_string(mounted.path("old")).unwrap(), "new");
    for uid in ["0", "4001"] {
        let listed = succeed(Command::new("setpriv").args(["--reuid", uid, "--clear-groups", "ls"]).arg(&mounted.directory));
        assert_eq!(listed, "old\n");
    }
    drop(reader);
    assert_eq!((server.refusals[0].seen(), server.refusals[1].seen()), (1, 1));
    assert_eq!(mounted.shell("find . -type f"), "./old\n");
    drop(mounted);
    keepers::end(server.port);
}

#[test]
fn times_and_modes_stay_as_set_when_the_server_loses_its_power() {
    let Some(mounted) = Mounted::of("fuse-set", &["--loss-layer"], "&close=nothing") else { return };
    if !Path::new(PYTHON).is_file() {
        return skip("no /usr/bin/python3");
    }
    std::fs::set_permissions(mounted.filer().export(), PermissionsExt::from_mode(0o777)).unwrap();
    let script = r#"
import os, socket, sys
fd = os.open("f", os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, b"A" * 300_000); os.utime(fd, (1_000_000_000, 1_000_000_000)); os.fchmod(fd, 0o6755)
admin = socket.socket(socket.AF_UNIX); admin.connect(sys.argv[1]); admin.sendall(b'{"op":"power-cut"}\n')
assert b'"ok":true' in admin.recv(4096)
os.fsync(fd); os.close(fd); found = os.stat("f"); print(found.st_mtime, oct(found.st_mode), found.st_size)
"#;
    std::fs::set_permissions(&mounted.filer().admin, PermissionsExt::from_mode(0o777)).unwrap();
    let mut program = Command::new("setpriv");
    program.args(["--reuid", "4001", "--regid", "4001", "--clear-groups", PYTHON, "-c", script]).arg(&mounted.filer().admin);
    assert_eq!(succeed(program.current_dir(&mounted.directory)), "1000000000.0 0o106755 300000\n");
}

/// The mount has one `st_dev`, so two files may not have the same number. The server says which
/// file system contains a name.
#[test]
fn files_of_file_systems_nested_in_an_export_have_numbers_of_their_own() {
    if !has_fuse() {
        return;
    }
    let Some(ganesha) = Ganesha::start_with("fuse-nested", "Squash = No_Root_Squash;", &["one", "two"]) else { return };
    let (runtime, directory) = (Scratch::new("fuse-nested-runtime"), ganesha.scratch.folder("mnt"));
    std::fs::set_permissions(runtime.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let script = r#"
mkdir -p "$3"; "$1" mount "$2" "$3" >/dev/null; trap 'cd /; "$1" unmount "$3" >/dev/null' EXIT; cd "$3"
echo first > one/f; echo second > two/f; ln one/f one/g
stat -c %i one/f two/f one/g one two . | sort | uniq -c | awk '$1 > 1' | wc -l
test "$(stat -c %i one/f)" = "$(ls -i one | awk '$2 == "f" { print $1 }')" && echo listed
cp one/f two/copied && cat two/copied
tar cf - one two | tar tvf - | grep -c ' link to '
mv one/f two/moved && cat two/moved; ln two/moved one/h 2>/dev/null || echo refused
df -k --output=size one two/f | tail -n 2
"#;
    let mut command = ganesha.inside(&PathBuf::from("bash"));
    command.args(["-c", script, "bash"]).arg(millrace().get_program()).arg(ganesha.url()).arg(&directory);
    let out = succeed(command.env("MILLRACE_RUNTIME_DIR", runtime.path()).env("LC_ALL", "C"));
    let words: Vec<&str> = out.split_whitespace().collect();
    assert_eq!(words, ["1", "listed", "first", "1", "first", "refused", "65536", "65536"]);
}
