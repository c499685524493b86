//! All descriptors of the process share one budget: no call and no connection fails while clients
//! read or write many files of many volumes.

use std::path::Path;

use crate::support::Scratch;
use crate::support::configured::{self, Configured};
use crate::support::wire::Wire;
use nfs_proto::nfs3::{FileHandle, Procedure, ReadArgs, ReadResult, StableHow};

const VOLUMES: usize = 5;
const FILES: usize = 400;

/// A filer with a limit of 1,200 descriptors and [`VOLUMES`] volumes of [`FILES`] files.
fn serving(scratch: &Scratch) -> Configured {
    let mut volumes = String::new();
    for volume in 0..VOLUMES {
        let dir = scratch.folder(&format!("v{volume}"));
        (0..FILES).for_each(|file| std::fs::write(dir.join(format!("f{file}")), "content").unwrap());
        volumes += &format!("[[volume]]\nname = \"v{volume}\"\ndir = \"DIR/v{volume}\"\nsquash = \"none\"\nclients = [\"*\"]\n");
    }
    let file = configured::write(scratch, &volumes);
    let mut limited = std::process::Command::new("prlimit");
    limited.arg("--nofile=1200:1200").arg(env!("CARGO_BIN_EXE_millrace")).args(["serve", "--json", "--config"]).arg(&file);
    Configured::spawn(file, limited)
}

fn read(wire: &mut Wire, file: FileHandle) -> Vec<u8> {
    let reply = wire.nfs(Procedure::Read, &ReadArgs { file, offset: 0, count: 100 });
    reply.results::<ReadResult>().unwrap().data.0.to_vec()
}

fn open_descriptors(filer: &Configured) -> usize {
    std::fs::read_dir(Path::new("/proc").join(filer.pid().to_string()).join("fd")).unwrap().count()
}

#[test]
fn no_call_and_no_connection_fails_while_all_files_of_many_volumes_are_read() {
    let scratch = Scratch::new("descriptors");
    let filer = serving(&scratch);
    let mut wire = Wire::connect(filer.port(0));
    for volume in 0..VOLUMES {
        let root = wire.mount(&format!("/v{volume}")).unwrap();
        for file in 0..FILES {
            let found = wire.lookup(root, &format!("f{file}")).unwrap_or_else(|error| panic!("v{volume}/f{file}: {error:?}"));
            assert_eq!(read(&mut wire, found.object), b"content");
        }
        wire.create(root, "new");
    }
    let others: Vec<Wire> = (0..300).map(|_| Wire::connect(filer.port(0))).collect();
    for mut other in others {
        assert!(other.mount("/v0").is_ok(), "{} descriptors", open_descriptors(&filer));
    }
    assert!(open_descriptors(&filer) < 1200 - 64);
}

#[test]
fn no_call_and_no_connection_fails_while_all_files_of_many_volumes_have_unstable_writes() {
    let scratch = Scratch::new("descriptors-dirty");
    let filer = serving(&scratch);
    let mut wire = Wire::connect(filer.port(0));
    for volume in 0..VOLUMES {
        let root = wire.mount(&format!("/v{volume}")).unwrap();
        for file in 0..FILES {
            let found = wire.lookup(root, &format!("f{file}")).unwrap().object;
            assert_eq!(wire.write(found, 0, b"changed", StableHow::Unstable).count, 7);
        }
    }
    let others: Vec<Wire> = (0..300).map(|_| Wire::connect(filer.port(0))).collect();
    for mut other in others {
        let root = other.mount("/v1").unwrap();
        let found = other.lookup(root, "f1").unwrap().object;
        assert_eq!(read(&mut other, found), b"changed");
    }
}
