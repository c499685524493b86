//! Cancelled threads end in the same way as without the library, in calls on files of a mount and
//! of this host.

use crate::support::succeed;
use crate::support::world::{World, compile};
use std::process::Command;

#[test]
fn a_thread_that_is_cancelled_in_any_call_ends_and_the_process_goes_on() {
    let world = World::new("cancelled");
    let Some(program) = compile(&world.scratch, "cancelled", &["-pthread", "-O1"]) else { return };
    let local = succeed(Command::new(&program).arg(world.scratch.folder("local")));
    assert_eq!(local.lines().filter(|line| line.ends_with(": cancelled")).count(), 16, "{local}");
    // The cancellation comes at another instruction each time.
    for _ in 0..5 {
        assert_eq!(succeed(world.exec(program.to_str().unwrap()).arg("/db")), local);
    }
}
