//! Processes that change the same names and files at the same time, and processes that are killed meanwhile.

use crate::mounted::{MAKE, Mounted, READ_WRITE, at, open, status, try_open};
use dnfs::FsError;
use dnfs::mount::Mount;
use std::time::Duration;

#[test]
fn processes_that_replace_and_remove_one_name_never_pull_a_file_from_under_a_reader() {
    let mounted = Mounted::new("races", &[]);
    let workers: Vec<_> = (0..4).map(|number| mounted.worker("worker_replaces", &number.to_string())).collect();
    workers.into_iter().for_each(crate::mounted::Worker::finish);
    mounted.mount.sweep();
    let left = mounted.host_names();
    assert!(left.iter().all(|name| name == "shared"), "{left:?}");
}

fn worker_replaces(mount: &Mount, number: &str) {
    let own = format!("new.{number}");
    for round in 0..40 {
        write_file(mount, &own, round);
        let gone = [Some(FsError::NotFound), Some(FsError::Stale)];
        let renamed = mount.rename(&at(mount, &own), &at(mount, "shared"));
        renamed.unwrap_or_else(|error| panic!("rename: {error}"));
        if let Ok(file) = try_open(mount, "shared", &READ_WRITE) {
            let data = file.read(0, 100);
            assert!(data.starts_with(b"complete"), "{data:?}");
            if round % 4 == 0 {
                let removed = status(mount.unlink(&at(mount, "shared")));
                assert!(removed.is_none() || gone.contains(&removed), "{removed:?}");
            }
            assert_eq!(file.read(0, 100), data);
        }
    }
}

fn write_file(mount: &Mount, path: &str, round: u32) {
    let file = open(mount, path, &MAKE);
    file.write(0, format!("complete {round}").as_bytes());
    file.sync().unwrap();
}

#[test]
fn a_file_that_was_opened_or_made_is_there_whatever_others_do_with_its_name_at_that_moment() {
    let mounted = Mounted::new("contended", &[]);
    let workers: Vec<_> = (0..4).map(|number| mounted.worker("worker_contends", &number.to_string())).collect();
    workers.into_iter().for_each(crate::mounted::Worker::finish);
    for name in mounted.host_names().iter().filter(|name| !name.starts_with(".nfs")) {
        mounted.mount.unlink(&at(&mounted.mount, name)).unwrap();
    }
    mounted.await_host_names(&[]);
}

/// There are only two names, so that makers, removers and renamers meet at each step.
fn worker_contends(mount: &Mount, seed: &str) {
    let mut rng = sim::Rng::new(seed.parse().unwrap());
    for _ in 0..500 {
        let name = format!("file {}", rng.below(2));
        let file = open(mount, &name, &MAKE);
        file.append(b"data");
        assert!(!file.read(0, 4).is_empty());
        match rng.below(3) {
            0 => drop(mount.unlink(&at(mount, &name))), // another worker may have done it
            1 => drop(mount.rename(&at(mount, &name), &at(mount, "file 0"))),
            _ => {}
        }
    }
}

#[test]
fn processes_killed_at_work_leave_every_file_usable_and_no_name_behind() {
    let mounted = Mounted::new("killed", &[]);
    let mount = &mounted.mount;
    let connections = || mounted.filer.admin(r#"{"op":"stats"}"#)["connections"].as_u64().unwrap();
    mount.fsstat(&mount.client().parts().root).unwrap(); // connects
    let own = connections();
    for round in 0..6 {
        let mut workers: Vec<_> =
            (0..4).map(|number| mounted.worker("worker_works", &format!("{}", round * 4 + number))).collect();
        workers.iter_mut().for_each(crate::mounted::Worker::await_ready);
        let goal = mount.totals().write_calls + 50 + 37 * round;
        crate::support::await_until("the workers to write", Duration::from_secs(20), || {
            (mount.totals().write_calls > goal).then_some(())
        });
        workers.into_iter().for_each(crate::mounted::Worker::kill);
        // What they had sent is done when their connections are gone.
        crate::support::await_until("the filer to finish", Duration::from_secs(20), || (connections() <= own).then_some(()));
        for number in 0..3 {
            let name = format!("file {number}");
            let file = open(mount, &name, &MAKE);
            mount.truncate(file.file, 0).unwrap();
            assert_eq!(mount.size(file.file), 0);
            assert_eq!(file.append(b"after"), 0, "a killed append left its range behind");
            file.sync().unwrap();
            assert_eq!(mount.attr(file.file).unwrap().size, 5);
            assert_eq!(std::fs::read(mounted.filer.export().join(&name)).unwrap(), b"after");
        }
    }
    for number in 0..3 {
        mount.unlink(&at(mount, &format!("file {number}"))).unwrap();
    }
    mounted.await_host_names(&[]);
}

fn worker_works(mount: &Mount, seed: &str) {
    let mut rng = sim::Rng::new(seed.parse().unwrap());
    println!("ready");
    loop {
        let name = format!("file {}", rng.below(3));
        let file = open(mount, &name, &MAKE);
        file.append(&[b'x'; 100]);
        match rng.below(16) {
            0..4 => file.sync().unwrap(),
            4..8 => mount.truncate(file.file, 50).unwrap(),
            8..10 => drop(mount.unlink(&at(mount, &name))), // another worker may have done it
            10..12 => drop(mount.rename(&at(mount, &name), &at(mount, "file 0"))),
            _ => drop(file.read(0, 1000)),
        }
    }
}

workers!(worker_replaces, worker_contends, worker_works);
