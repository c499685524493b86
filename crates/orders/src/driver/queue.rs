//! The work that waits for a session: due transactions of terminals, and deferred deliveries.
//!
//! First in, first out. The terminals' transactions take precedence over deferred deliveries, up to a limit.
//! This module reads no clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::inputs::DeliveryInput;
use crate::limits::{DELIVERIES_QUEUED_MAX, DELIVERY_WAIT_S_MAX};

/// A terminal whose transaction is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueTerminal {
    /// Index of the terminal in its thread.
    pub(super) terminal: usize,
    /// When it became due.
    pub(super) due: Instant,
}

/// A deferred delivery: no terminal waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueuedDelivery {
    pub(super) input: DeliveryInput,
    pub(super) queued: Instant,
}

/// The next work of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Terminal(DueTerminal),
    Delivery(QueuedDelivery),
}

/// The queue of one thread.
#[derive(Debug)]
pub(super) struct Queue {
    due: VecDeque<DueTerminal>,
    deliveries: VecDeque<QueuedDelivery>,
    due_max: usize,
}

impl Queue {
    /// Holds up to `due_max` due transactions.
    pub(super) const fn new(due_max: usize) -> Self {
        Self { due: VecDeque::new(), deliveries: VecDeque::new(), due_max }
    }

    /// Adds a due transaction. Returns `false` if the queue is full.
    pub(super) fn push(&mut self, due: DueTerminal) -> bool {
        let free = self.due.len() < self.due_max;
        if free {
            self.due.push_back(due);
        }
        free
    }

    /// Adds a delivery. [`Self::take`] limits their number: above the limit, sessions carry out only
    /// deliveries, and only terminals' transactions add more.
    pub(super) fn push_delivery(&mut self, delivery: QueuedDelivery) {
        self.deliveries.push_back(delivery);
    }

    /// The next work for a session that is free at `now`.
    pub(super) fn take(&mut self, now: Instant) -> Option<Work> {
        let wait_max = Duration::from_secs(DELIVERY_WAIT_S_MAX);
        let deliver = self.deliveries.front().is_some_and(|oldest| {
            self.due.is_empty()
                || self.deliveries.len() >= DELIVERIES_QUEUED_MAX
                || now.saturating_duration_since(oldest.queued) >= wait_max
        });
        if deliver {
            return self.deliveries.pop_front().map(Work::Delivery);
        }
        self.due.pop_front().map(Work::Terminal)
    }

    /// Due transactions that wait.
    pub(super) fn due(&self) -> impl ExactSizeIterator<Item = &DueTerminal> {
        self.due.iter()
    }

    /// Deliveries that wait.
    pub(super) fn deliveries(&self) -> impl ExactSizeIterator<Item = &QueuedDelivery> {
        self.deliveries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn due(terminal: usize, at: Instant) -> DueTerminal {
        DueTerminal { terminal, due: at }
    }

    fn delivery(warehouse: u32, queued: Instant) -> QueuedDelivery {
        QueuedDelivery { input: DeliveryInput { warehouse, carrier: 1 }, queued }
    }

    #[test]
    fn due_transactions_leave_in_their_order_and_a_full_queue_takes_no_more() {
        let now = Instant::now();
        let mut queue = Queue::new(2);
        assert!(queue.push(due(1, now)) && queue.push(due(2, now)));
        assert!(!queue.push(due(3, now)));
        assert_eq!(queue.take(now), Some(Work::Terminal(due(1, now))));
        assert!(queue.push(due(4, now)));
        let rest = [queue.take(now), queue.take(now), queue.take(now)];
        assert_eq!(rest, [Some(Work::Terminal(due(2, now))), Some(Work::Terminal(due(4, now))), None]);
    }

    #[test]
    fn deliveries_wait_for_idle_sessions_or_for_a_second() {
        let now = Instant::now();
        let mut queue = Queue::new(10);
        queue.push_delivery(delivery(1, now));
        queue.push_delivery(delivery(2, now + 600 * MS));
        queue.push(due(1, now));
        queue.push(due(2, now));
        assert_eq!(queue.take(now + 999 * MS), Some(Work::Terminal(due(1, now))));
        assert_eq!(queue.take(now + 1_000 * MS), Some(Work::Delivery(delivery(1, now))));
        assert_eq!(queue.take(now + 1_000 * MS), Some(Work::Terminal(due(2, now))));
        assert_eq!(queue.take(now + 1_000 * MS), Some(Work::Delivery(delivery(2, now + 600 * MS))));
    }

    #[test]
    fn over_their_limit_deliveries_go_before_everything() {
        let now = Instant::now();
        let mut queue = Queue::new(10);
        queue.push(due(1, now));
        for _ in 0..DELIVERIES_QUEUED_MAX {
            queue.push_delivery(delivery(1, now));
        }
        assert!(matches!(queue.take(now), Some(Work::Delivery(_))));
        assert!(matches!(queue.take(now), Some(Work::Terminal(_))));
    }
}
