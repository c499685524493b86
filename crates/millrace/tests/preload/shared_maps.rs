//! MAP_SHARED of files of a mount: what mmap(2) promises to the programs of one host, with kills
//! and restarts of the filer in between, and programs that rely on it.

use crate::support::postgres::server_programs;
use crate::support::remote::RemoteCluster;
use crate::support::world::{World, compile};
use crate::support::{Scratch, await_until, find_program, peers_python, seeds, skip, succeed, text};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const PAGE: usize = 4096;

/// A command that runs one of the programs of shared_maps.py on the mount.
fn python(world: &World, arguments: &[&str]) -> Command {
    run_by(&find_program("python3").unwrap(), world, arguments)
}

fn run_by(python: &Path, world: &World, arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/shared_maps.py");
    let mut command = world.exec(python.to_str().unwrap());
    let (which, more) = arguments.split_first().unwrap();
    command.arg(script).args([*which, "/db"]).args(more);
    command
}

/// A program that prints a line before it waits, and continues after it has read one.
struct Talking {
    child: Child,
    ears: BufReader<ChildStdout>,
    mouth: ChildStdin,
}

impl Talking {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (ears, mouth) = (BufReader::new(child.stdout.take().unwrap()), child.stdin.take().unwrap());
        Self { child, ears, mouth }
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.ears.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn tell(&mut self) {
        self.mouth.write_all(b"\n").unwrap();
    }

    fn end(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn shared_mappings_keep_what_mmap_promises_as_on_a_local_directory() {
    let world = World::new("shared-maps");
    let Some(program) = compile(&world.scratch, "shared_maps", &["-O1"]) else { return };
    let local = succeed(Command::new(&program).arg(world.scratch.folder("local")));
    let mounted = succeed(world.exec(program.to_str().unwrap()).arg("/db"));
    assert_eq!(mounted, local);
    assert!(local.lines().count() > 45, "{local}");
    // The keeper writes the stores of processes that were killed or ended without msync.
    await_until("the server to have all", Duration::from_secs(20), || {
        (["family", "parts", "coherent"].iter().all(|name| world.exported(name) == local_file(&world, name))).then_some(())
    });
    world.nothing_left_behind();
}

fn local_file(world: &World, name: &str) -> Vec<u8> {
    std::fs::read(world.scratch.path().join("local").join(name)).unwrap()
}

#[test]
fn what_a_killed_process_stored_is_read_at_once_and_at_the_server_within_seconds() {
    if find_program("python3").is_none() {
        return skip("no python3");
    }
    let world = World::new("shared-map-kill");
    std::fs::write(world.filer.export().join("victim"), vec![b'.'; 10 * PAGE]).unwrap();
    let killed = python(&world, &["store_and_die"]).output().unwrap();
    assert!(killed.status.signal() == Some(9) || killed.status.code() == Some(137), "{}", text(&killed));
    let read =
        world.shell("dd if=/db/victim bs=1 skip=100 count=6 2>/dev/null; dd if=/db/victim bs=1 skip=36864 count=3 2>/dev/null");
    assert_eq!(read, "storedfar");
    let mut expected = vec![b'.'; 10 * PAGE];
    expected[100..106].copy_from_slice(b"stored");
    expected[9 * PAGE..9 * PAGE + 3].copy_from_slice(b"far");
    await_until("the server to have it", Duration::from_secs(20), || (world.exported("victim") == expected).then_some(()));
}

#[test]
fn what_a_process_was_killed_in_writing_is_in_the_mappings_once_the_server_has_done_it() {
    if find_program("python3").is_none() {
        return skip("no python3");
    }
    let world = World::new("shared-map-torn");
    std::fs::write(world.filer.export().join("torn"), vec![b'.'; PAGE]).unwrap();
    let mut watcher = Talking::start(python(&world, &["see"]));
    assert_eq!(watcher.hear(), "mapped");
    let mut writer = Talking::start(python(&world, &["write_when_told"]));
    assert_eq!(writer.hear(), "open");
    let signal = |name: &str, pid: u32| succeed(Command::new("kill").args([name, &pid.to_string()]));
    signal("-STOP", world.filer.pid());
    writer.tell();
    await_until("the call to be with the filer", Duration::from_secs(20), || has_unread(&world).then_some(()));
    let killed = python_below(writer.child.id());
    signal("-KILL", killed);
    let _ = writer.child.wait();
    signal("-CONT", world.filer.pid());
    assert_eq!(watcher.hear(), "new");
    watcher.end();
}

/// Whether the filer has received data that it has not read.
fn has_unread(world: &World) -> bool {
    let port = world.filer.url.split(':').nth(2).and_then(|rest| rest.split('/').next()).unwrap().parse::<u16>().unwrap();
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let of_filer =
        sockets.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&format!(":{port:04X}"))));
    of_filer.filter_map(|line| line.split_whitespace().nth(4)?.split_once(':')).any(|(_, unread)| unread != "00000000")
}

/// The process that `timeout` has started.
fn python_below(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn stores_wait_for_a_filer_that_was_killed_and_are_there_when_it_is_back() {
    if find_program("python3").is_none() {
        return skip("no python3");
    }
    let mut world = World::new("shared-map-outage");
    std::fs::write(world.filer.export().join("outage"), vec![b'.'; PAGE]).unwrap();
    let mut program = Talking::start(python(&world, &["store_and_wait"]));
    assert_eq!(program.hear(), "stored");
    assert!(world.exported("outage").starts_with(b"first"), "msync wrote it");
    world.filer.kill();
    program.tell();
    world.filer.restart();
    assert_eq!(program.hear(), "flushed");
    assert!(world.exported("outage").starts_with(b"firstsecond."));
    program.end();
}

#[test]
fn processes_that_store_and_write_and_are_killed_share_one_file() {
    if find_program("python3").is_none() {
        return skip("no python3");
    }
    let world = World::new("shared-map-many");
    for seed in seeds(|count| count) {
        assert_eq!(succeed(&mut python(&world, &["workers", "5", "150", &seed.to_string()])), "one file\n", "seed {seed}");
        await_until("the server to have all", Duration::from_secs(20), || {
            (world.exported("shared") == world.exported("expected")).then_some(())
        });
    }
}

#[test]
fn what_another_host_wrote_is_in_the_mapping_after_the_next_open_and_own_stores_stay() {
    if find_program("python3").is_none() {
        return skip("no python3");
    }
    let world = World::new("shared-map-foreign");
    let file = world.filer.export().join("foreign");
    std::fs::write(&file, vec![b'.'; 2 * PAGE]).unwrap();
    let mut program = Talking::start(python(&world, &["others"]));
    assert_eq!(program.hear(), "mapped");
    let mut other = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    other.write_all(b"other").unwrap();
    std::os::unix::fs::FileExt::write_all_at(&other, b"host", PAGE as u64).unwrap();
    program.tell();
    assert_eq!(program.hear(), "b'other.....own' b'host'");
    program.end();
    assert!(world.exported("foreign").starts_with(b"other.....own."));
}

#[test]
fn a_file_that_memory_has_no_room_for_is_refused_with_one_line_that_says_what_helps() {
    if find_program("python3").is_none() {
        return skip("no python3");
    }
    let world = World::new("shared-map-large");
    std::fs::File::create(world.filer.export().join("large")).unwrap().set_len(4 << 40).unwrap();
    let refused = python(&world, &["too_large"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&refused.stdout), "Cannot allocate memory\n".repeat(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(said.matches("cannot map").count(), 1, "{said}");
    let number = std::os::unix::fs::MetadataExt::ino(&world.filer.export().join("large").metadata().unwrap());
    for part in
        [&format!("inode number {number} of /db")[..], "4194304 MiB", "shm-size", "mmap_size=0", "dynamic_shared_memory_type"]
    {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn a_file_mapped_part_by_part_is_read_from_the_server_once() {
    if find_program("python3").is_none() {
        return skip("no python3");
    }
    let world = World::new("shared-map-parts");
    std::fs::write(world.filer.export().join("parts"), vec![b'x'; 32 << 20]).unwrap();
    let before = world.filer.calls("READ");
    assert_eq!(succeed(&mut python(&world, &["windows"])), format!("{}\n", 32 << 20));
    assert!(world.filer.calls("READ") - before <= 64, "{} READs", world.filer.calls("READ") - before);
}

#[test]
fn a_mapping_that_the_table_has_no_place_for_is_refused_and_so_is_a_split() {
    if find_program("python3").is_none() {
        return skip("no python3");
    }
    let world = World::new("shared-map-full");
    let small = world.filer.export().join("small");
    std::fs::write(&small, vec![b'x'; 3 * PAGE]).unwrap();
    let said = python(&world, &["full_table"]).output().unwrap();
    let expected = "8192 ENOMEM\n-1 ENOMEM\nTrue ENOMEM\n0 0\n0\n";
    assert_eq!(String::from_utf8_lossy(&said.stdout), expected, "{}", text(&said));
    assert_eq!(&std::fs::read(small).unwrap()[2 * PAGE..2 * PAGE + 4], b"rest", "msync knows what is left of a split mapping");
}

#[test]
fn a_mapping_that_only_persistent_memory_could_have_is_refused_and_costs_no_copy_of_the_file() {
    if find_program("python3").is_none() {
        return skip("no python3");
    }
    let world = World::new("shared-map-sync");
    std::fs::write(world.filer.export().join("log"), vec![b'x'; 8 << 20]).unwrap();
    let before = world.filer.calls("READ");
    // MariaDB asks for this mapping of its log at every start.
    assert_eq!(succeed(&mut python(&world, &["persistent"])), "ENOTSUP\n");
    assert_eq!(world.filer.calls("READ"), before);
}

#[test]
fn two_lmdb_writers_share_an_environment_with_and_without_writemap() {
    let has_lmdb =
        |python: &PathBuf| Command::new(python).args(["-c", "import lmdb"]).output().is_ok_and(|tried| tried.status.success());
    let Some(python) = peers_python().filter(has_lmdb) else { return skip("no LMDB for Python: scripts/setup peers") };
    let world = World::new("lmdb");
    let said = succeed(&mut run_by(&python, &world, &["lmdb_processes"]));
    assert_eq!(said, "plain 80 81\nwritemap 80 81\n");
}

#[test]
fn two_writers_and_three_readers_of_sqlite_agree_when_they_map_the_database() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = World::new("sqlite-mapped");
    for mode in ["delete", "wal"] {
        std::fs::create_dir(world.filer.export().join(mode)).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/preload/sqlite_torture.py");
        let mut command = world.exec(python.to_str().unwrap());
        command.env("SQLITE_MMAP_SIZE", "268435456").args([script, &format!("/db/{mode}/t"), mode, "2"]);
        assert_eq!(succeed(&mut command), "ok 20000\n['t']\n", "{mode}");
    }
}

#[test]
#[ignore = "nightly: a cluster, twenty seconds"]
fn postgresql_runs_parallel_queries_with_its_shared_memory_in_files_of_the_mount() {
    let Some(programs) = server_programs() else {
        return skip("PostgreSQL's server programs (apt-get install postgresql)");
    };
    let scratch = Scratch::new("dsm-mmap");
    let filer = crate::support::filer::Filer::start(&scratch, &[]);
    let settings =
        "-c dynamic_shared_memory_type=mmap -c min_parallel_table_scan_size=0 -c parallel_setup_cost=0 -c parallel_tuple_cost=0";
    let cluster = RemoteCluster::create(&scratch, &filer, &programs, settings);
    cluster.start();
    cluster.sql("create table t as select i, i % 97 as k, repeat('x', 50) as b from generate_series(1, 60000) i; analyze t");
    let plan = cluster.sql("explain (analyze, costs off, timing off) select count(*) from t a join t b using (i) where a.k < 50");
    assert!(plan.contains("Workers Launched: ") && !plan.contains("Workers Launched: 0"), "{plan}");
    let counted = cluster.sql("select count(*), sum(a.i) from t a join t b using (i) where a.k < 50");
    let alone = cluster
        .sql("set max_parallel_workers_per_gather = 0; select count(*), sum(a.i) from t a join t b using (i) where a.k < 50");
    assert_eq!(Some(counted.trim()), alone.trim().lines().last());
    assert!(filer.export().join("data/pg_dynshmem").read_dir().is_ok_and(|mut found| found.next().is_some()));
    cluster.stop("fast");
}
