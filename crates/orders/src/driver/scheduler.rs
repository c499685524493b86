//! The state that the sessions of one thread share: its terminals, its queue and its measurements.

use std::cell::{Cell, RefCell, RefMut};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::queue::{DueTerminal, Queue, QueuedDelivery, Work};
use super::shared::{Schedule, Shared};
use super::terminal::{Drawn, Terminal};
use crate::inputs::Inputs;
use crate::measure::Measure;
use crate::mix::Kind;
use crate::model::{LoadModel, Terminals};
use crate::pacing::Pacing;

/// Assigns the due transactions of one thread's terminals to its sessions.
pub(super) struct Scheduler {
    pub(super) shared: Arc<Shared>,
    pub(super) schedule: Schedule,
    thread: u32,
    measure: RefCell<Measure>,
    queue: RefCell<Queue>,
    terminals: RefCell<Vec<Terminal>>,
    /// Paced terminals in their keying or think time, sorted by the time at which they are due.
    busy: RefCell<BinaryHeap<Reverse<(Instant, usize)>>>,
    /// Notified if a paced terminal is due earlier than all others.
    earlier: Notify,
    /// Wakes sessions that wait for work.
    free: Notify,
    free_count: Cell<u32>,
    in_flight: Cell<u32>,
}

impl Scheduler {
    /// The scheduler of thread number `thread`, with its share of the terminals.
    pub(super) fn new(shared: &Arc<Shared>, schedule: Schedule, thread: u32) -> Self {
        let measure = Measure::new(schedule.measure_from, schedule.measure_upto)
            .with_snapshots(shared.snapshot_sender.clone())
            .with_series(Arc::clone(&shared.series), thread);
        let terminals = terminals(shared, thread);
        let due_max = match shared.options.model {
            // Each terminal is in the queue at most once.
            LoadModel::Closed | LoadModel::Paced { .. } => terminals.len(),
            LoadModel::Open { queue_limit, .. } => queue_limit.div_ceil(shared.shares.threads) as usize,
        };
        let scheduler = Self {
            shared: Arc::clone(shared),
            schedule,
            thread,
            measure: RefCell::new(measure),
            queue: RefCell::new(Queue::new(due_max)),
            terminals: RefCell::new(terminals),
            busy: RefCell::default(),
            earlier: Notify::new(),
            free: Notify::new(),
            free_count: Cell::new(0),
            in_flight: Cell::new(0),
        };
        scheduler.start_terminals();
        scheduler
    }

    /// Starts the terminals: closed ones are due at once, paced ones at a random point of their first cycle.
    fn start_terminals(&self) {
        let began = self.schedule.began;
        let mut terminals = self.terminals.borrow_mut();
        match self.shared.options.model {
            LoadModel::Closed => {
                let mut queue = self.queue.borrow_mut();
                for terminal in 0..terminals.len() {
                    queue.push(DueTerminal { terminal, due: began });
                }
            }
            LoadModel::Paced { time_scale } => {
                let pacing = Pacing::new(time_scale);
                let mut busy = self.busy.borrow_mut();
                for (index, terminal) in terminals.iter_mut().enumerate() {
                    busy.push(Reverse((pacing.first_due(began, &mut terminal.rng), index)));
                }
            }
            LoadModel::Open { .. } => {}
        }
    }

    pub(super) fn measure(&self) -> RefMut<'_, Measure> {
        let mut measure = self.measure.borrow_mut();
        if let Some(at) = self.shared.interrupted_at() {
            measure.end_at(at);
        }
        measure
    }

    /// When the measured interval ends.
    pub(super) fn end_of_interval(&self) -> Instant {
        self.shared.interrupted_at().unwrap_or(self.schedule.measure_upto)
    }

    /// Counts a successful transaction for the progress reports.
    pub(super) fn succeeded(&self, latency: Duration) {
        self.shared.progress.succeeded(self.thread, latency);
    }

    /// Counts a failed transaction for the progress reports.
    pub(super) fn failed(&self) {
        self.shared.progress.failed(self.thread);
    }

    /// Whether no more transactions are started.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.end_of_interval() || self.shared.stopped()
    }

    /// The next work for a session that is free at `now`.
    pub(super) fn take(&self, now: Instant) -> Option<Work> {
        self.queue.borrow_mut().take(now)
    }

    /// Waits until there may be work.
    pub(super) async fn wait(&self) {
        self.free_count.update(|count| count + 1);
        self.free.notified().await;
        self.free_count.update(|count| count.saturating_sub(1));
    }

    /// Wakes one waiting session: the one that has waited for the shortest time, because its database process is warmest.
    fn wake(&self) {
        if self.free_count.get() > 0 {
            self.free.notify_last();
        }
    }

    /// Wakes every waiting session, so that it notices the end of the run.
    pub(super) fn wake_all(&self) {
        self.free.notify_waiters();
    }

    /// Adds a due transaction to the queue. Returns false if the queue is full.
    fn push(&self, due: DueTerminal) -> bool {
        let taken = self.queue.borrow_mut().push(due);
        if taken {
            self.wake();
        }
        taken
    }

    /// Handles the arrival of a transaction of an open load: it waits or is refused, and is counted in both cases.
    pub(super) fn arrive(&self, terminal: usize, due: Instant, now: Instant) {
        let taken = self.push(DueTerminal { terminal, due });
        let mut measure = self.measure();
        measure.became_due(due);
        if !taken {
            measure.refused(due);
        }
        measure.waiting(self.queue.borrow().due().len(), now);
    }

    /// Puts the paced terminals that are due at `now` into the queue.
    pub(super) fn enqueue_due(&self, now: Instant) {
        let mut busy = self.busy.borrow_mut();
        while let Some(Reverse((due, terminal))) = busy.peek().copied().filter(|Reverse((due, _))| *due <= now) {
            busy.pop();
            self.measure().became_due(due);
            // The queue has a place for each terminal.
            self.push(DueTerminal { terminal, due });
        }
        self.measure().waiting(self.queue.borrow().due().len(), now);
    }

    /// When the next paced terminal is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.busy.borrow().peek().map(|Reverse((due, _))| *due)
    }

    /// Waits until a paced terminal becomes due before the previous [`Self::next_due`].
    pub(super) async fn earlier(&self) {
        self.earlier.notified().await;
    }

    /// How many terminals this thread has.
    pub(super) fn terminal_count(&self) -> usize {
        self.terminals.borrow().len()
    }

    /// Draws a terminal's transaction.
    pub(super) fn draw(&self, terminal: usize, drawn: &mut Drawn) -> Kind {
        self.terminals.borrow_mut()[terminal].draw(drawn)
    }

    /// Adds a deferred delivery to the queue.
    pub(super) fn queue_delivery(&self, delivery: QueuedDelivery) {
        let mut queue = self.queue.borrow_mut();
        queue.push_delivery(delivery);
        self.measure().delivery_queued(delivery.queued, queue.deliveries().len());
        drop(queue);
        self.wake();
    }

    /// Notes that a session starts a transaction.
    pub(super) fn begin(&self) {
        self.in_flight.update(|count| count + 1);
    }

    /// Notes that a session has ended a transaction, with any result.
    pub(super) fn end(&self) {
        self.in_flight.update(|count| count - 1);
    }

    /// Transactions that sessions are working on.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// Schedules the next transaction of a terminal whose transaction `kind`, due at `work.due`, ended at `now` with any
    /// result: at once, after think and keying time, or when the rate requires it.
    pub(super) fn ended(&self, work: DueTerminal, kind: Kind, now: Instant) {
        match self.shared.options.model {
            LoadModel::Closed => {
                self.push(DueTerminal { terminal: work.terminal, due: now });
                return;
            }
            LoadModel::Paced { time_scale } => {
                let mut terminals = self.terminals.borrow_mut();
                let terminal = &mut terminals[work.terminal];
                let due = Pacing::new(time_scale).next_due(now, kind, terminal.next, &mut terminal.rng);
                let mut busy = self.busy.borrow_mut();
                let first = busy.peek().is_none_or(|Reverse((next, _))| due < *next);
                busy.push(Reverse((due, work.terminal)));
                if first {
                    self.earlier.notify_one();
                }
            }
            LoadModel::Open { .. } => {}
        }
        self.measure().finished(work.due);
    }

    /// Counts due transactions that never started, after all sessions have ended. Returns the measurements.
    pub(super) fn close(self) -> Measure {
        if matches!(self.shared.options.model, LoadModel::Paced { .. }) {
            self.enqueue_due(self.end_of_interval());
        }
        // `measure` applies an early end of the interval.
        drop(self.measure());
        let Self { measure, queue, shared, .. } = self;
        let mut measure = measure.into_inner();
        measure.close(Instant::now());
        let queue = queue.into_inner();
        if !matches!(shared.options.model, LoadModel::Closed) {
            queue.due().for_each(|work| measure.left(work.due));
        }
        queue.deliveries().for_each(|delivery| measure.delivery_left(delivery.queued));
        measure
    }
}

fn terminals(shared: &Shared, thread: u32) -> Vec<Terminal> {
    let (options, shares) = (&shared.options, shared.shares);
    (thread..options.users)
        .step_by(shares.threads as usize)
        .map(|user| {
            // Numbers are unique over all drivers of a run, so that no two terminals draw the same inputs.
            let number = options.first_user + user;
            let inputs = match options.terminals {
                Terminals::AllWarehouses => Inputs::new(shares.active_warehouses, shares.constants, number),
                Terminals::HomeWarehouse => Inputs::at_home(shares.active_warehouses, shares.constants, number),
            };
            Terminal::new(options.seed, number, options.mix, inputs)
        })
        .collect()
}
