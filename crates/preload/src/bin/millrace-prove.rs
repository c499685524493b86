//! Proves that the preload library beside it is active in a process of the library's C library.
//! `millrace exec` starts it before the program, and reads what it prints: what it sees through the
//! library.
//!
//! `millrace` proves this itself if it can load the library. It cannot if it is statically linked,
//! or if the program uses another C library; then it starts this program. It also starts it to
//! execute a program on a mount, which only the library can do.
#![forbid(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

#[path = "../../../millrace/src/cmd/exec/proof.rs"]
mod proof;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if let [option, end, program, rest @ ..] = words.as_slice()
        && option == "--become"
        && end == "--"
    {
        let error = Command::new(program).args(rest).exec();
        eprintln!("millrace: cannot run {}: {error}", program.display());
        return ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 });
    }
    let (mut paths, mut states) = (Vec::new(), Vec::new());
    while let (Some(option), Some(path)) = (arguments.next(), arguments.next()) {
        match option.to_str() {
            Some("--prove") => paths.push(path),
            Some("--prove-medium") => states.push(path.into()),
            _ => {
                eprintln!("cannot prove {}: not --prove or --prove-medium; `millrace exec` runs this program", option.display());
                return ExitCode::from(2);
            }
        }
    }
    match proof::print(&paths, &states) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cannot {why}");
            ExitCode::FAILURE
        }
    }
}
