//! Programs on a mount: a filer, and commands that run under `millrace exec`.

use super::filer::Filer;
use super::{Scratch, find_program, millrace, preload_library, skip, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds after which a program is ended. A program that waits forever must fail the test, and not
/// stop the run.
pub const LIMIT_S: u32 = 90;

/// A filer, and programs on it.
pub struct World {
    pub filer: Filer,
    pub scratch: Scratch,
    /// [`LIMIT_S`], except in long tests.
    pub limit_s: u32,
}

impl World {
    pub fn new(label: &str) -> Self {
        Self::served(label, &[])
    }

    /// Starts a filer with more options.
    pub fn served(label: &str, options: &[&str]) -> Self {
        let scratch = Scratch::new(label);
        Self { filer: Filer::start(&scratch, options), scratch, limit_s: LIMIT_S }
    }

    /// `millrace exec --mount /db=… -- program`.
    pub fn exec(&self, program: &str) -> Command {
        self.exec_with("", program)
    }

    /// As [`Self::exec`], with more options of the mount.
    pub fn exec_with(&self, options: &str, program: &str) -> Command {
        self.exec_at(Path::new("/db"), options, program)
    }

    /// As [`Self::exec_with`], at another path.
    pub fn exec_at(&self, path: &Path, options: &str, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", &self.limit_s.to_string()]).arg(millrace().get_program());
        command.env("MILLRACE_PRELOAD", preload_library()).env("LC_ALL", "C").current_dir("/");
        command.args(["exec", "--mount", &format!("{}={}{options}", path.display(), self.filer.url), "--", program]);
        command
    }

    pub fn shell(&self, script: &str) -> String {
        succeed(self.exec("/bin/sh").args(["-euc", script]))
    }

    /// Contents of a file of the export, on the server's side.
    pub fn exported(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.filer.export().join(name)).unwrap()
    }

    pub fn nothing_left_behind(&self) {
        let left: Vec<PathBuf> = walk(self.filer.export()).into_iter().filter(|path| name_of(path).starts_with(".nfs")).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

pub fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

/// Compiles a C or C++ program of tests/programs. `None` without a compiler.
pub fn compile(scratch: &Scratch, name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = |extension| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.{extension}"));
    let (compiler, source) = if source("c").exists() { ("cc", source("c")) } else { ("c++", source("cpp")) };
    let Some(compiler) = find_program(compiler) else {
        skip("no C or C++ compiler");
        return None;
    };
    let program = scratch.path().join(name);
    succeed(Command::new(compiler).args(options).arg("-o").arg(&program).arg(source));
    Some(program)
}
