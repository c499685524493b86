//! Forks of every kind under the preload library, including those that `pthread_atfork` does not
//! see. A kernel mount supports all of them.

use crate::support::filer::Filer;
use crate::support::{Scratch, find_program, millrace, preload_library, skip, succeed, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Children with a copy of their parent's memory.
const COPIES: [&str; 6] = ["fork", "_Fork", "clone", "clone_files", "SYS_clone", "SYS_clone3"];
/// The same by system call numbers and instructions of x86-64 only.
const COPIES_X86: [&str; 4] = ["SYS_fork", "bare_fork", "bare_clone3", "bare_clone_files"];

/// Children that share the memory, on a stack of their own.
const SHARERS: [&str; 2] = ["clone_vm_vfork", "clone_vm_files"];
/// Children that would run on their parent's stack: the library gives them a copy of the memory.
const ON_ONE_STACK: [&str; 2] = ["SYS_clone_vfork", "SYS_clone3_vfork"];

/// Compiles the program. `None`, with a message, without a compiler.
fn compiled(scratch: &Scratch) -> Option<PathBuf> {
    let Some(compiler) = find_program("cc") else {
        skip("no C compiler");
        return None;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/forks.c");
    let program = scratch.path().join("forks");
    succeed(Command::new(compiler).args(["-O1", "-pthread", "-o"]).arg(&program).arg(source));
    Some(program)
}

/// Runs the program on a mount with each kind of fork. It must find no fault.
fn every_block_is_right(label: &str, options: &str, kinds: &[&str], rounds: &str) {
    let scratch = Scratch::new(label);
    let Some(program) = compiled(&scratch) else { return };
    let filer = Filer::start(&scratch, &[]);
    for kind in kinds {
        // If a program waits for ever, the test fails and does not hang.
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "90"]).arg(millrace().get_program());
        command.env("MILLRACE_PRELOAD", preload_library()).current_dir("/");
        command.args(["exec", "--mount", &format!("/db={}{options}", filer.url), "--"]).arg(&program);
        let output = command.args([format!("/db/{kind}").as_str(), kind, rounds]).output().unwrap();
        assert!(output.status.success(), "{kind}{options}: {}\n{}", output.status, text(&output));
    }
}

#[test]
#[ignore = "nightly: thousands of blocks, twenty seconds"]
fn children_that_no_handler_saw_and_their_parent_read_and_write_at_once_and_every_block_is_right() {
    every_block_is_right("forks", "", &COPIES, "300");
    if cfg!(target_arch = "x86_64") {
        every_block_is_right("forks", "", &COPIES_X86, "300");
    }
}

#[test]
fn children_that_share_the_memory_read_and_write_and_neither_they_nor_their_parent_meet_the_others_connections() {
    every_block_is_right("forks-vm", "", &SHARERS, "100");
}

#[test]
fn children_on_the_stack_of_their_parent_have_a_copy_of_the_memory() {
    every_block_is_right("forks-stack", "", &ON_ONE_STACK, "100");
    if cfg!(target_arch = "x86_64") {
        every_block_is_right("forks-stack", "", &["SYS_vfork"], "100");
    }
}

#[test]
fn forks_with_one_call_outstanding_and_one_writer_at_a_time_wait_for_nobody_who_is_not_there() {
    let kinds = if cfg!(target_arch = "x86_64") { &["_Fork", "bare_fork"][..] } else { &["_Fork", "clone"] };
    every_block_is_right("forks-old", "&slots=1&writers=one&channels=1&split=8k", kinds, "30");
}
