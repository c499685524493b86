//! The slot limiter under kills and stops.

use core::cell::Cell;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;

use super::{Faults, Host, World};
use crate::slot_limiter::SlotLimiter;
use crate::sys::clock::sleep;

const LIMIT: usize = 2;

struct Caller {
    limiter: SlotLimiter,
    /// Calls that are in flight. A killed process takes its own with it.
    in_flight: Rc<Cell<usize>>,
    mine: Cell<usize>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.in_flight.set(self.in_flight.get() - self.mine.get());
    }
}

#[test]
fn no_more_calls_than_slots_are_in_flight_and_killed_processes_take_no_slot_with_them() {
    let mut kills = 0;
    ::sim::sweep(300, |seed, _| {
        let mut world = World::new(seed);
        let host = world.outside(|| Rc::new(Host::new()));
        let in_flight = Rc::new(Cell::new(0));
        let own = |_| Caller {
            limiter: SlotLimiter::new(Arc::new(host.members()), LIMIT),
            in_flight: Rc::clone(&in_flight),
            mine: Cell::new(0),
        };
        world.run(4, Faults { kill: 2_000, stop: 0 }, &own, |me: &Caller| {
            for call in 0..6 {
                let permit = me.limiter.acquire(1 + call % 2);
                me.mine.set(permit.count());
                me.in_flight.set(me.in_flight.get() + permit.count());
                assert!(me.in_flight.get() <= LIMIT, "{} calls in flight", me.in_flight.get());
                sleep(Duration::from_millis(3));
                me.in_flight.set(me.in_flight.get() - permit.count());
                me.mine.set(0);
            }
        });
        kills += world.kills;
        // No slot is lost: two processes hold one each at the same time.
        world.run(2, Faults::default(), &own, |me: &Caller| {
            let permit = me.limiter.acquire(1);
            me.in_flight.set(me.in_flight.get() + 1);
            while me.in_flight.get() < LIMIT {
                sleep(Duration::from_millis(10));
            }
            drop(permit);
        });
        in_flight.set(0);
    });
    assert!(kills > 0);
}
