//! MAP_PRIVATE of files of a mount: the program gets the bytes of the file, or an error with the reason.

use crate::support::any_server::AnyServer;
use crate::support::world::{World, compile};
use crate::support::{Scratch, find_program, skip, skip_unsupported, succeed, text};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn private_mappings_keep_the_bytes_of_the_file_as_on_a_local_directory() {
    let scratch = Scratch::new("private-maps");
    let Some(program) = compile(&scratch, "private_maps", &["-O1"]) else { return };
    let local = succeed(Command::new(&program).arg(scratch.folder("local")));
    let servers = [Some(AnyServer::filer("private-maps-filer")), AnyServer::ganesha("private-maps-ganesha")];
    for server in servers.into_iter().flatten() {
        assert_eq!(local, succeed(server.exec(program.to_str().unwrap()).arg("/db")), "{}", server.url);
    }
}

/// Maps a sparse file. The argument is its size in bytes.
const MAP: &str = "import mmap, os, sys\n\
                   f = open('/db/large', 'w+b')\n\
                   f.truncate(int(sys.argv[1]))\n\
                   try: print('mapped', mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)[-1])\n\
                   except OSError as error: print('refused', error.strerror)\n";

fn map(world: &World, before: &str, bytes: u64) -> Option<Output> {
    let Some(python) = find_program("python3") else {
        skip("no python3");
        return None;
    };
    std::fs::write(world.scratch.path().join("map.py"), MAP).unwrap();
    let script = format!("{before} exec {} {}/map.py {bytes}", python.display(), world.scratch.path().display());
    Some(world.exec("/bin/sh").args(["-euc", &script]).output().unwrap())
}

#[track_caller]
fn assert_refused(output: &Output, cause: &str) {
    assert_eq!(String::from_utf8_lossy(&output.stdout), "refused Cannot allocate memory\n", "{}", text(output));
    let lines = String::from_utf8_lossy(&output.stderr);
    assert!(lines.contains("cannot map a file of /db MAP_PRIVATE") && lines.contains(cause), "{lines}");
}

#[test]
fn a_private_mapping_that_is_larger_than_memory_is_refused_before_the_file_is_read() {
    let world = World::new("private-large");
    let Some(output) = map(&world, "", 8 << 40) else { return };
    assert_refused(&output, "8388608 MiB");
    assert_eq!(world.filer.calls("READ"), 0);
    assert_refused(&map(&world, "ulimit -v 500000;", 1 << 30).unwrap(), "RLIMIT_AS");
}

/// A memory control group. Dropping it removes the group.
struct Group(PathBuf);

impl Group {
    fn new(limit: u64) -> Option<Self> {
        for (root, name) in [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")] {
            let group = Self(Path::new(root).join(format!("millrace-test-{}", std::process::id())));
            if std::fs::create_dir(&group.0).is_err() {
                continue;
            }
            let file = std::fs::OpenOptions::new().write(true).open(group.0.join(name)); // there only where groups limit memory
            if file.and_then(|mut file| file.write_all(limit.to_string().as_bytes())).is_ok() {
                return Some(group);
            }
        }
        skip_unsupported("this user may not make a memory control group");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_private_mapping_that_is_larger_than_the_limit_of_the_control_group_is_refused() {
    let world = World::new("private-limit");
    let Some(group) = Group::new(256 << 20) else { return };
    let enter = format!("echo $$ > {}/cgroup.procs;", group.0.display());
    let Some(output) = map(&world, &enter, 512 << 20) else { return };
    assert_refused(&output, "512 MiB");
    let output = map(&world, &enter, 64 << 20).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "mapped 0\n", "{}", text(&output));
}
