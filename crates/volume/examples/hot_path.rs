//! Nanoseconds per call of the hot paths on this machine: `cargo run --release -p volume --example hot_path [DIR]`.
//! The file stays in the page cache; no protocol, one thread. Makes and removes a directory in DIR.

use std::path::PathBuf;
use std::time::Instant;

use volume::{Config, CreateHow, Error, Options, Owner, SetAttr, Stability, Volume};

const CALLS: u32 = 200_000;
const BLOCKS: u64 = 1024;
const BLOCK_BYTES: usize = 8192;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let base = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let base = base.join(format!("millrace-hot-path-{}", std::process::id()));
    std::fs::create_dir_all(base.join("dir"))?;
    let outcome = measure(&base);
    std::fs::remove_dir_all(&base)?;
    outcome
}

fn measure(base: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self")?;
    let owner = Owner { uid: own.uid(), gid: own.gid() };
    let volume =
        Volume::open(Config { dir: base.join("dir"), state_dir: base.join("state"), loss: None, options: Options::default() })?;
    let root = volume.root();
    let (node, _) = volume.create(&root, b"file", CreateHow::Guarded(SetAttr::default()), owner)?;
    let mut block = vec![7; BLOCK_BYTES];
    for n in 0..BLOCKS {
        volume.write(&node, n * BLOCK_BYTES as u64, &block, Stability::Unstable)?;
    }
    volume.commit(&node)?;
    let handle = volume.handle(&node);
    let offset = |call: u32| (u64::from(call).wrapping_mul(2_654_435_761) % BLOCKS) * BLOCK_BYTES as u64;
    time("resolve", CALLS, |_| volume.resolve(handle.as_bytes()).map(drop))?;
    time("attr", CALLS, |_| volume.attr(&node).map(drop))?;
    time("lookup", CALLS, |_| volume.lookup(&root, b"file").map(drop))?;
    time("read 8 KiB", CALLS, |call| volume.read(&node, offset(call), &mut block).map(drop))?;
    time("read 8 KiB with attributes", CALLS, |call| volume.read_with_attr(&node, offset(call), &mut block).map(drop))?;
    time("write 8 KiB unstable", CALLS, |call| volume.write(&node, offset(call), &block, Stability::Unstable).map(drop))?;
    time("write 8 KiB data-sync", 2000, |call| volume.write(&node, offset(call), &block, Stability::DataSync).map(drop))?;
    time("create", 500, |call| {
        let name = format!("new{call}");
        volume.create(&root, name.as_bytes(), CreateHow::Guarded(SetAttr::default()), owner).map(drop)
    })?;
    Ok(())
}

fn time(what: &str, calls: u32, mut call: impl FnMut(u32) -> Result<(), Error>) -> Result<(), Error> {
    let start = Instant::now();
    for number in 0..calls {
        call(number)?;
    }
    println!("{what:<30} {:>9.0} ns", start.elapsed().as_nanos() as f64 / f64::from(calls));
    Ok(())
}
