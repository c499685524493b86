//! A foreign client: libnfs and its tools against the filer.

use crate::support::filer::Filer;
use crate::support::{Scratch, find_program, skip, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The URL of a path in the export, in the form of libnfs.
fn url(filer: &Filer, path: &str) -> String {
    format!("nfs://127.0.0.1/vol/{path}?version=3&nfsport={0}&mountport={0}", filer.port)
}

#[test]
fn nfs_ls_cp_and_cat_work() {
    if ["nfs-ls", "nfs-cp", "nfs-cat"].iter().any(|tool| find_program(tool).is_none()) {
        skip("libnfs tools are not installed (libnfs-utils)");
        return;
    }
    let scratch = Scratch::new("libnfs");
    let filer = Filer::start(&scratch, &[]);
    let source = scratch.path().join("source");
    let bytes: Vec<u8> = (0..3_000_001u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&source, &bytes).unwrap();
    std::fs::create_dir(filer.export().join("folder")).unwrap();
    succeed(Command::new("nfs-cp").arg(&source).arg(url(&filer, "folder/copy")));
    assert_eq!(std::fs::read(filer.export().join("folder/copy")).unwrap(), bytes);
    let listing = succeed(Command::new("nfs-ls").arg(url(&filer, "folder")));
    assert!(listing.contains("3000001") && listing.contains("copy"), "{listing}");
    let back = Command::new("nfs-cat").arg(url(&filer, "folder/copy")).output().unwrap();
    assert!(back.status.success() && back.stdout == bytes, "{} bytes came back", back.stdout.len());
    let missing = Command::new("nfs-cat").arg(url(&filer, "folder/missing")).output().unwrap();
    assert!(!missing.status.success());
}

/// Compiles the load of `bench/`. `None` if there is no compiler, or no libnfs to compile with.
fn libnfs_load(scratch: &Scratch) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/libnfs_load.c");
    let program = scratch.path().join("libnfs_load");
    find_program("cc").filter(|_| Path::new("/usr/include/nfsc/libnfs.h").exists() && source.exists())?;
    succeed(Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(source).arg("-lnfs"));
    Some(program)
}

#[test]
fn random_reads_and_stable_writes_through_libnfs_work_at_depth() {
    let scratch = Scratch::new("libnfs-load");
    let Some(load) = libnfs_load(&scratch) else {
        skip("libnfs or a C compiler is not installed (libnfs-dev)");
        return;
    };
    let filer = Filer::start(&scratch, &[]);
    let size = 4 << 20;
    std::fs::write(filer.export().join("data"), vec![9; size]).unwrap();
    for (action, depth, connections) in
        [("read", "1", "1"), ("read", "32", "4"), ("write", "1", "1"), ("write", "32", "1"), ("write", "8", "8")]
    {
        let before = filer.calls(&action.to_uppercase());
        let printed = succeed(Command::new(&load).arg(url(&filer, "")).args([
            "/data",
            action,
            depth,
            "0.4",
            &size.to_string(),
            connections,
        ]));
        let done: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let operations = done["operations"].as_u64().unwrap();
        assert!(operations > 0 && filer.calls(&action.to_uppercase()) - before == operations, "{action} {depth}: {printed}");
    }
}
