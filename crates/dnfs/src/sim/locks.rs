//! Locks by leases, and the fences that protect the server from holders of revoked ones, under kills and stops.

use core::time::Duration;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use super::{Faults, Host, World};
use crate::process::this_process;
use crate::slot_limiter::{Fence, Members, Strength};
use crate::sys::clock::{monotonic_ms, sleep};
use crate::sys::random::random;

/// A WRITE travels for up to this time.
const ON_THE_WAY_MS_MAX: u64 = 3_000;

/// A server that executes each WRITE some time after it was sent, unless the sender's number was fenced in between.
#[derive(Debug, Default)]
struct Server {
    fenced: Vec<u64>,
    on_their_way: Vec<Write>,
    /// How often the lock was taken.
    turns: u64,
    last_executed: u64,
    executed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    due_ms: u64,
    sender: u64,
    /// The turn of the lock under which it was sent.
    turn: u64,
}

impl Server {
    /// Executes what has arrived. Panics at a WRITE of a holder after one of its successor.
    fn execute(&mut self) {
        let now = monotonic_ms();
        let (due, waiting): (Vec<_>, Vec<_>) = self.on_their_way.drain(..).partition(|write| write.due_ms <= now);
        self.on_their_way = waiting;
        for write in due.into_iter().filter(|write| !self.fenced.contains(&write.sender)) {
            assert!(write.turn >= self.last_executed, "turn {} writes after turn {}", write.turn, self.last_executed);
            self.last_executed = write.turn;
            self.executed += 1;
        }
    }
}

/// The connection of a process to the server.
#[derive(Clone, Debug)]
struct Wire(Arc<Mutex<Server>>);

impl Wire {
    /// Runs `work`, in which no turn may end.
    fn with<T>(&self, work: impl FnOnce(&mut Server) -> T) -> T {
        let mut server = self.0.lock().unwrap();
        server.execute();
        work(&mut server)
    }
}

impl Fence for Wire {
    fn is_answered(&self) -> bool {
        sleep(Duration::from_millis(1));
        true
    }

    fn fence(&self, number: u64) -> bool {
        sleep(Duration::from_millis(1));
        self.with(|server| server.fenced.push(number));
        true
    }
}

struct Writer {
    members: Members,
    host: Rc<Host>,
    wire: Wire,
}

impl Writer {
    /// Sends a WRITE and waits for its reply. False if the server refuses this process' number.
    fn write(&self, turn: u64) -> bool {
        let sender = this_process().identity.number();
        let due_ms = monotonic_ms() + random() % ON_THE_WAY_MS_MAX;
        if !self.members.may_send() || self.wire.with(|server| server.fenced.contains(&sender)) {
            return false;
        }
        // A process that is stopped between the check and this line sends later, and is fenced by then.
        self.wire.with(|server| server.on_their_way.push(Write { due_ms, sender, turn }));
        while monotonic_ms() <= due_ms {
            sleep(Duration::from_millis(50));
            self.members.renew_leases();
        }
        !self.wire.with(|server| server.fenced.contains(&sender))
    }
}

#[test]
fn no_write_of_a_former_holder_of_a_lock_reaches_the_server_after_one_of_its_successor() {
    let (mut kills, mut stops, mut fences) = (0, 0, 0);
    ::sim::sweep(300, |seed, _| {
        let mut world = World::new(seed);
        let host = world.outside(|| Rc::new(Host::new()));
        let wire = Wire(Arc::default());
        let own = |_| {
            let members = host.members();
            members.fence_by(Box::new(wire.clone()));
            Writer { members, host: Rc::clone(&host), wire: wire.clone() }
        };
        world.run(3, Faults { kill: 2_000, stop: 1_000 }, &own, |me: &Writer| {
            let _call = crate::slot_limiter::begin_call();
            let header = me.host.segment.header();
            for _ in 0..5 {
                let lock = me.members.lock(&header.name_locks[0], &header.unlocked, Strength::Strong).held().unwrap();
                let turn = me.wire.with(|server| {
                    server.turns += 1;
                    server.turns
                });
                if !me.write(turn) {
                    // As after a refused ATTACH: the process draws another number.
                    this_process().identity.renew_number(this_process().identity.number());
                    me.members.publish_fence_number(this_process().identity.number());
                }
                drop(lock);
            }
        });
        kills += world.kills;
        stops += world.stops;
        fences += wire.with(|server| server.fenced.len());
    });
    assert!(kills > 0 && stops > 0 && fences > 0, "{kills} kills, {stops} stops, {fences} fences");
}
