//! One state, several at work on it at once: nothing is lost, and whoever dies leaves nothing behind.

use std::sync::atomic::{AtomicU64, Ordering};

use media::{Kind, Medium, Operation, Profile};

#[test]
fn threads_on_one_state_lose_no_operation_and_no_time() {
    const THREADS: u64 = 4;
    const EACH: u64 = 20_000;
    let medium = Medium::new(Profile::parse("service_ms=0.001,nvram=off").unwrap());
    let state: Vec<AtomicU64> = (0..medium.words()).map(|_| AtomicU64::new(0)).collect();
    let last = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (medium, state, last) = (&medium, &state, &last);
            scope.spawn(move || {
                for nth in 0..EACH {
                    let operation = Operation { kind: Kind::Read, file: thread, offset: nth * 8192, bytes: 8192 };
                    let done = medium.submit(state, 0, operation, medium.draw(state));
                    last.fetch_max(done, Ordering::Relaxed);
                }
            });
        }
    });
    let counters = medium.counters(&state);
    assert_eq!(counters.reads, THREADS * EACH);
    // One spindle, a microsecond each, all at time 0: the last is done when all are.
    assert_eq!(last.into_inner(), THREADS * EACH * 1000);
    assert_eq!(counters.busy_ns, THREADS * EACH * 1000);
    assert_eq!(counters.waiting_max, THREADS * EACH - 1);
}
