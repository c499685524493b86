//! What a store must have to be served, and that it is said how its files are told apart.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Scratch, content, make_dir, make_file, owner, retry_busy};
use volume::{Config, Error, Handle, Identity, OpenError, Options, Volume};

fn config(dir: &Path, base: &Path) -> Config {
    Config { dir: dir.to_path_buf(), state_dir: base.join("state"), loss: None, options: Options::default() }
}

#[test]
fn a_store_with_neither_handles_nor_birth_times_is_refused() {
    let scratch = Scratch::new();
    let opened = Volume::open(config(Path::new("/proc/self/task"), scratch.base.path()));
    let error = opened.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::NoIdentity { .. }), "{error}");
    assert!(error.to_string().contains("neither file handles nor birth times"), "{error}");
}

#[test]
fn a_store_with_handles_is_labelled_by_what_the_process_may() {
    let scratch = Scratch::new();
    let wanted = if owner().uid == 0 { [Identity::Handles, Identity::HandlesByName] } else { [Identity::HandlesByName; 2] };
    assert!(wanted.contains(&scratch.open().identity()));
}

/// An overlay for one test: a file system without handles.
struct Overlay(PathBuf);

impl Overlay {
    fn new(base: &Path) -> Result<Self, String> {
        let path = |name: &str| base.join(name);
        for name in ["lower", "upper", "work", "merged"] {
            std::fs::create_dir(path(name)).map_err(|error| error.to_string())?;
        }
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            path("lower").display(),
            path("upper").display(),
            path("work").display()
        );
        let merged = path("merged");
        run("mount", &["-t", "overlay", "-o", &options, "overlay", &merged.display().to_string()]).map(|()| Self(merged))
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = run("umount", &[&self.0.display().to_string()]);
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn a_store_with_birth_times_only_is_labelled_and_its_handles_outlive_restart_and_renames() {
    let scratch = Scratch::in_memory();
    let overlay = match Overlay::new(scratch.base.path()) {
        Ok(overlay) => overlay,
        Err(reason) => {
            return sim::skip_unsupported(&format!("no overlay can be mounted here: {reason}"));
        }
    };
    let config = config(&overlay.0, scratch.base.path());
    let volume = Volume::open(config.clone()).unwrap();
    assert_eq!(volume.identity(), Identity::BirthTimes);
    let sub = make_dir(&volume, &volume.root(), "sub");
    let [kept, moved, linked, gone] =
        ["kept", "moved", "linked", "gone"].map(|name| volume.handle(&make_file(&volume, &sub, name, name.as_bytes())));
    drop((sub, volume));
    // Behind the volume's back, and while nobody serves it.
    let host = |name: &str| overlay.0.join(name);
    std::fs::rename(host("sub/moved"), host("elsewhere")).unwrap();
    std::fs::hard_link(host("sub/linked"), host("second")).unwrap();
    std::fs::remove_file(host("sub/linked")).unwrap();
    std::fs::remove_file(host("sub/gone")).unwrap();
    std::fs::write(host("sub/gone"), "a stranger").unwrap();
    let volume = Volume::open(config).unwrap();
    let read = |handle: &Handle| retry_busy(|| volume.resolve(handle.as_bytes()).and_then(|node| content(&volume, &node)));
    assert_eq!(read(&kept).unwrap(), b"kept");
    assert_eq!(read(&moved).unwrap(), b"moved");
    assert_eq!(read(&linked).unwrap(), b"linked");
    assert_eq!(read(&gone), Err(Error::Stale));
}
