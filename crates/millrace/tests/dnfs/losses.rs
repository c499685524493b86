//! Writes that a server lost while nothing is retained (`retain=0`). Each open file description
//! gets the error once.

use crate::mount::worker_extends;
use crate::mounted::{MAKE, Mounted, READ_WRITE, open};
use dnfs::{Error, FsError};

fn is_lost(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::Fs(FsError::WritesLost)))
}

#[test]
fn power_cut_between_a_write_and_the_sync_of_another_process_is_told_once_to_each_description() {
    let mounted = Mounted::with_query("cut", &["--loss-layer"], "&retain=0");
    let (one, two) = (open(&mounted.mount, "data", &MAKE), open(&mounted.mount, "data", &READ_WRITE));
    one.sync().unwrap();
    mounted.worker("worker_extends", "data").finish();
    mounted.power_cut();
    assert!(is_lost(one.sync()));
    one.sync().unwrap();
    assert_eq!(mounted.mount.size(one.file), 0, "the lost write had extended the file");
    let late = open(&mounted.mount, "data", &READ_WRITE);
    late.sync().unwrap();
    assert!(is_lost(two.sync()));
    two.sync().unwrap();
    one.write(0, b"again");
    two.sync().unwrap();
    mounted.power_cut();
    one.sync().unwrap();
    assert_eq!(one.read(0, 10), b"again");
}

#[test]
fn a_file_made_shorter_by_a_power_cut_tells_its_size_to_no_writer_before_the_loss() {
    let mounted = Mounted::with_query("shorter", &["--loss-layer"], "&retain=0");
    let mount = &mounted.mount;
    let (one, two) = (open(mount, "data", &MAKE), open(mount, "data", &READ_WRITE));
    one.write(0, &[1; 8192]);
    two.sync().unwrap();
    mounted.worker("worker_extends", "data").finish();
    let extended = mount.size(one.file);
    assert!(extended > 8192);
    mounted.power_cut();
    // The first process that notices the loss reduces the size for all. Its own sync asks the
    // server, and a read by another process would do so too.
    assert!(is_lost(one.sync()));
    assert_eq!(mount.size(one.file), 8192);
    assert_eq!(mount.size_to_change(one.file, &one.cursor).unwrap(), 8192);
    for _ in 0..2 {
        assert!(is_lost(mount.size_to_change(two.file, &two.cursor).map(|_| ())));
        assert!(is_lost(mount.attr_to_change(two.file, &two.cursor).map(|_| ())));
    }
    assert!(is_lost(two.sync()));
    assert_eq!(mount.size_to_change(two.file, &two.cursor).unwrap(), 8192);
    assert_eq!(mount.attr_to_change(two.file, &two.cursor).unwrap().size, 8192);
}

#[test]
fn a_loss_that_a_write_notices_leaves_the_size_that_the_server_has() {
    let mounted = Mounted::with_query("noticed", &["--loss-layer"], "&retain=0");
    let mount = &mounted.mount;
    let one = open(mount, "data", &MAKE);
    one.write(0, &[1; 100]);
    one.sync().unwrap();
    one.write(5000, &[2; 100]);
    mounted.power_cut();
    one.write(200, &[3; 100]);
    assert!(is_lost(mount.size_to_change(one.file, &one.cursor).map(|_| ())));
    assert!(is_lost(one.sync()));
    assert_eq!(mount.size_to_change(one.file, &one.cursor).unwrap(), 300);
}

#[test]
fn loss_that_nobody_saw_waits_for_the_next_opener() {
    let mounted = Mounted::with_query("unseen", &["--loss-layer"], "&retain=0");
    let writer = open(&mounted.mount, "data", &MAKE);
    writer.write(0, b"first");
    mounted.filer.admin(r#"{"op":"power-cut"}"#);
    writer.write(100, b"second");
    drop(writer);
    let next = open(&mounted.mount, "data", &READ_WRITE);
    assert!(is_lost(next.sync()));
    next.sync().unwrap();
    open(&mounted.mount, "data", &READ_WRITE).sync().unwrap();
}

workers!(worker_extends);
