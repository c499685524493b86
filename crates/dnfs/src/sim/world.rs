//! The scheduler of simulated processes.

use std::rc::Rc;

use crate::sys::simulated::{Common, Pause, Simulated, outside};

pub(crate) use crate::sys::simulated::Faults;

/// Turns after which a simulation counts as hung.
const TURNS_MAX: u64 = 20_000_000;
/// Virtual time of one turn, in ns.
const TURN_NS: u64 = 1_000;
/// How long a stopped process is stopped at most, in ns.
const STOP_NS_MAX: u64 = 5_000_000_000;

/// What a process does, given its own state and what all share.
type Work<T> = Rc<dyn Fn(&T)>;

/// A process in its place.
struct Place<T> {
    /// Dropped before `_owned`, which its code uses.
    process: Simulated,
    _owned: Box<T>,
    pause: Pause,
    number: usize,
}

/// Processes and their time.
pub(crate) struct World<T: 'static> {
    common: Rc<Common>,
    places: Vec<Place<T>>,
    pub(crate) kills: u64,
    pub(crate) stops: u64,
    pub(crate) turns: u64,
}

impl<T: 'static> World<T> {
    pub(crate) fn new(seed: u64) -> Self {
        Self { common: Common::new(seed), places: Vec::new(), kills: 0, stops: 0, turns: 0 }
    }

    /// Runs what prepares or checks the simulation, with its clock and random numbers.
    pub(crate) fn outside<R>(&self, work: impl FnOnce() -> R) -> R {
        outside(&self.common, work)
    }

    /// Runs `count` processes, each with the state that `own` makes for it, until all have ended. A killed one is replaced, so that
    /// `count` times `work` ends by itself.
    ///
    /// # Panics
    /// A panic of a process, and if they do not end.
    pub(crate) fn run(&mut self, count: usize, faults: Faults, own: &dyn Fn(usize) -> T, work: impl Fn(&T) + 'static) {
        let work: Work<T> = Rc::new(work);
        self.common.faults.set(faults);
        for number in 0..count {
            let place = self.place(number, own, &work);
            self.places.push(place);
        }
        while !self.places.is_empty() {
            self.turns += 1;
            assert!(self.turns < TURNS_MAX, "the processes do not end: they wait for each other");
            let (at, is_timed_out) = self.next();
            match self.places[at].process.resume(is_timed_out) {
                Some(Pause::Killed) => {
                    self.kills += 1;
                    let number = self.places.swap_remove(at).number;
                    let place = self.place(number, own, &work);
                    self.places.push(place);
                }
                Some(Pause::Stopped) => {
                    self.stops += 1;
                    let until = self.common.now_ns.get() + self.common.rng.borrow_mut().below(STOP_NS_MAX);
                    self.places[at].pause = Pause::Sleep(until);
                }
                Some(pause) => self.places[at].pause = pause,
                None => drop(self.places.swap_remove(at)),
            }
            self.common.now_ns.set(self.common.now_ns.get() + TURN_NS);
            self.wake();
        }
    }

    fn place(&self, number: usize, own: &dyn Fn(usize) -> T, work: &Work<T>) -> Place<T> {
        let owned = Box::new(self.outside(|| own(number)));
        let process = Simulated::start::<T>(&self.common, &owned, Rc::clone(work));
        Place { process, _owned: owned, pause: Pause::Turn, number }
    }

    /// A process that can run, and whether its wait for a futex ended by time. If none can, time passes until one can.
    fn next(&self) -> (usize, bool) {
        let due = |place: &Place<T>| match place.pause {
            Pause::Turn | Pause::Killed | Pause::Stopped => 0,
            Pause::Sleep(until) | Pause::Futex(_, until) => until,
        };
        let first = self.places.iter().map(due).min().unwrap_or(0);
        self.common.now_ns.set(self.common.now_ns.get().max(first));
        let now = self.common.now_ns.get();
        let ready: Vec<usize> = (0..self.places.len()).filter(|at| due(&self.places[*at]) <= now).collect();
        let at = *self.common.rng.borrow_mut().pick(&ready).expect("one is due");
        (at, matches!(self.places[at].pause, Pause::Futex(..)))
    }

    /// Lets waiters of woken futexes run.
    fn wake(&mut self) {
        for (word, count) in self.common.woken.take() {
            let waiters = self.places.iter_mut().filter(|place| matches!(place.pause, Pause::Futex(at, _) if at == word));
            waiters.take(count as usize).for_each(|place| place.pause = Pause::Turn);
        }
    }
}
