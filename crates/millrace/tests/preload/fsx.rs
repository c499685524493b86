//! fsx, the file system exerciser: random reads, writes, mappings, truncations and copies of a
//! file. fsx checks each against what it has written.

use crate::support::any_server::AnyServer;
use crate::support::{Scratch, fuse, millrace, peers_fsx, preload_library, seeds, skip, text};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Every operation except those that NFSv3 does not have (`posix_fallocate` and punching holes).
const CONFIG: &str = "[weights]\nclose_open = 2\ninvalidate = 2\nmapread = 10\nmapwrite = 10\nread = 20\nwrite = 20\ntruncate = 8\nfsync = 2\n\
                      fdatasync = 2\nsendfile = 5\nposix_fadvise = 3\ncopy_file_range = 5\n";
const OPERATIONS: &str = "20000";

/// Starts fsx on a file with this command.
fn start(mut by: Command, fsx: &Path, scratch: &Scratch, seed: u64, file: &str) -> Child {
    let config = scratch.path().join("fsx.toml");
    std::fs::write(&config, CONFIG).unwrap();
    by.arg(fsx).args(["-N", OPERATIONS, "-S", &seed.to_string(), "-P"]).arg(scratch.path()).arg("-f").arg(&config);
    by.arg(file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finish(name: &str, child: Child) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{name}: {}", text(&output));
}

fn under_exec(server: &AnyServer) -> Command {
    let mut command = server.command(millrace().get_program().to_str().unwrap());
    command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", server.runtime.path()).current_dir("/");
    command.args(["exec", "--mount", &format!("/db={}", server.url), "--"]);
    command
}

/// Runs fsx under `exec` and fsx through FUSE on two files of one mount at the same time.
fn side_by_side(server: &AnyServer, fsx: &Path, seed: u64) {
    let scratch = Scratch::new("fsx-files");
    let directory = scratch.folder("fuse");
    let mut by = server.command(millrace().get_program().to_str().unwrap());
    by.env("MILLRACE_RUNTIME_DIR", server.runtime.path());
    let pid = fuse::mount(by, &[], &server.url, &directory);
    let exec = start(under_exec(server), fsx, &scratch, seed, "/db/by-exec");
    let through = directory.join("by-fuse");
    let fused = start(server.command("env"), fsx, &scratch, seed + 1, through.to_str().unwrap());
    finish("exec", exec);
    finish("FUSE", fused);
    fuse::end(&directory, pid);
}

#[test]
#[ignore = "nightly: 20,000 operations of fsx on each of ten files, some minutes; needs fsx, which make nightly installs"]
fn fsx_finds_what_it_wrote_under_exec_and_through_fuse_at_once() {
    let Some(fsx) = peers_fsx() else { return skip("no fsx: scripts/setup nightly") };
    if !fuse::has_fuse() {
        return;
    }
    for seed in seeds(|_| 5) {
        side_by_side(&AnyServer::filer("fsx"), &fsx, seed * 2);
    }
    if let Some(server) = AnyServer::ganesha("fsx-ganesha") {
        side_by_side(&server, &fsx, 100);
    }
}
