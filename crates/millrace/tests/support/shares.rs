//! Checks that many busy connections, each with one call at a time, get equal shares.

use std::time::{Duration, Instant};

/// Longest time of a call that does not wait for the disk.
pub const BRIEF: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 100 });

/// Makes calls on all connections for five seconds from one thread, so that the shares depend only
/// on the filer. `has_answer` receives the reply on a connection if it has arrived. No call may
/// take longer than `limit`.
pub fn assert_equal<C>(
    limit: Duration,
    connections: &mut [C],
    mut call: impl FnMut(&mut C),
    mut has_answer: impl FnMut(&mut C) -> bool,
) {
    connections.iter_mut().for_each(&mut call);
    let begun = Instant::now();
    let mut shares = vec![(0_u64, Duration::ZERO, begun); connections.len()];
    while begun.elapsed() < Duration::from_secs(5) {
        for (connection, (calls, slowest, called)) in connections.iter_mut().zip(&mut shares) {
            if has_answer(connection) {
                // The filer's threads start in the first second, so that does not count.
                if begun.elapsed() > Duration::from_secs(1) {
                    *slowest = called.elapsed().max(*slowest);
                    *calls += 1;
                }
                *called = Instant::now();
                call(connection);
            }
        }
    }
    let (least, most) = (shares.iter().map(|share| share.0).min().unwrap(), shares.iter().map(|share| share.0).max().unwrap());
    let slowest = shares.iter().map(|share| share.1).max().unwrap();
    println!("{} busy connections: {least} to {most} calls each, slowest call {slowest:?}", connections.len());
    assert!(3 * least >= most, "{least} to {most} calls");
    assert!(slowest <= limit, "{slowest:?}");
}
