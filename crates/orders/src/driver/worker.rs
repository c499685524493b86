//! One session: takes due work and carries it out, with retries, errors and lost connections.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::queue::{QueuedDelivery, Work};
use super::scheduler::Scheduler;
use super::terminal::{Drawn, Rest};
use crate::ack_log::AcknowledgedOrder;
use crate::database::{Database, Failure, Terminal as Session};
use crate::error::OrdersError;
use crate::limits::{
    BACKOFF_MS_MAX, BACKOFF_MS_MIN, ERRORS_IN_A_ROW_MAX, NO_SUCCESS_S_MAX, RETRIES_AT_ONCE, RETRIES_MAX, RETRY_PAUSE_MS_MAX,
    RETRY_PAUSE_MS_MIN,
};
use crate::measure::{Ended, Moments};
use crate::mix::Kind;
use crate::random;

/// One session of a thread.
pub(super) struct Worker<D: Database> {
    number: u32,
    database: D,
    scheduler: Rc<Scheduler>,
    session: Option<D::Terminal>,
    drawn: Drawn,
    /// Random numbers for pauses, separate from those for inputs, so that conflicts change no input.
    pauses: Xoshiro256PlusPlus,
    errors_in_a_row: u32,
}

/// The result of a transaction beyond its commit.
enum Done {
    Order(AcknowledgedOrder),
    OrderRolledBack,
    Delivered(u32),
    Nothing,
}

/// The current work of a session.
#[derive(Clone, Copy)]
struct Task {
    kind: Kind,
    /// When it was due; when it was queued if it is a deferred delivery.
    due: Instant,
    behind: bool,
}

impl<D: Database> Worker<D> {
    /// Session number `number`.
    pub(super) fn new(number: u32, database: D, scheduler: Rc<Scheduler>, session: D::Terminal) -> Self {
        let pauses = random::stream(u64::MAX, u64::from(number));
        Self { number, database, scheduler, session: Some(session), drawn: Drawn::default(), pauses, errors_in_a_row: 0 }
    }

    /// Works until the run is over. An error ends the run.
    pub(super) async fn run(mut self) {
        loop {
            let now = Instant::now();
            if self.scheduler.is_over(now) {
                return;
            }
            let outcome = match self.scheduler.take(now) {
                Some(work) => self.work(work, now).await,
                None => {
                    self.scheduler.wait().await;
                    Ok(())
                }
            };
            if let Err(error) = outcome {
                return self.scheduler.shared.fail(error);
            }
        }
    }

    async fn work(&mut self, work: Work, now: Instant) -> Result<(), OrdersError> {
        self.scheduler.begin();
        match work {
            Work::Terminal(due) => {
                let kind = self.scheduler.draw(due.terminal, &mut self.drawn);
                let ended = if kind == Kind::Delivery && self.scheduler.shared.options.deferred_deliveries {
                    self.queue_delivery(due.due, now);
                    now
                } else {
                    self.carry_out(Task { kind, due: due.due, behind: false }).await?
                };
                self.scheduler.ended(due, kind, ended);
            }
            Work::Delivery(QueuedDelivery { input, queued }) => {
                self.drawn.rest = Rest::Delivery(input);
                self.carry_out(Task { kind: Kind::Delivery, due: queued, behind: true }).await?;
            }
        }
        self.scheduler.end();
        if self.session.is_none() { self.reconnect().await } else { Ok(()) }
    }

    /// The part of a deferred Delivery for which its terminal waits.
    fn queue_delivery(&self, due: Instant, now: Instant) {
        let Rest::Delivery(input) = self.drawn.rest else { return };
        self.scheduler.measure().record(Kind::Delivery, Moments { due, sent: now, ended: now }, Ended::Committed);
        self.scheduler.succeeded(now - due);
        self.scheduler.queue_delivery(QueuedDelivery { input, queued: now });
    }

    /// Carries out one transaction and returns its end. An error ends the run.
    async fn carry_out(&mut self, task: Task) -> Result<Instant, OrdersError> {
        let sent = Instant::now();
        let mut retries = 0;
        loop {
            let Some(session) = &mut self.session else { return Ok(sent) };
            let outcome = send(session, &self.drawn).await;
            let ended = Instant::now();
            match outcome {
                Ok(done) => self.note(task, &done, Moments { due: task.due, sent, ended })?,
                Err(Failure::Retry(_)) if retries < RETRIES_MAX && !self.scheduler.shared.stopped() => {
                    retries += 1;
                    self.scheduler.measure().retry(task.kind, ended);
                    if let Some(most) = longest_pause_ms(retries) {
                        tokio::time::sleep(Duration::from_millis(self.pauses.random_range(0..=most))).await;
                    }
                    continue;
                }
                Err(Failure::Lost(error)) => self.note_loss(error)?,
                Err(Failure::Retry(error) | Failure::Error(error)) => {
                    self.note_error(task.kind, error, Moments { due: task.due, sent, ended })?;
                }
            }
            return Ok(ended);
        }
    }

    fn note(&mut self, task: Task, done: &Done, at: Moments) -> Result<(), OrdersError> {
        self.errors_in_a_row = 0;
        let shared = &self.scheduler.shared;
        shared.succeeded(at.ended);
        if !task.behind {
            self.scheduler.succeeded(at.ended - at.due);
        }
        let how = if matches!(done, Done::OrderRolledBack) { Ended::RolledBack } else { Ended::Committed };
        if let Done::Order(order) = done {
            shared.orders.fetch_add(1, Ordering::Relaxed);
            if let Some(log) = &shared.ack_log {
                log.append(*order)?;
            }
        }
        let mut measure = self.scheduler.measure();
        let counts =
            if task.behind { measure.delivery_completed(task.due, at.ended) } else { measure.record(task.kind, at, how) };
        if !counts {
            return Ok(());
        }
        match &self.drawn.rest {
            Rest::NewOrder => measure.drew_order(&self.drawn.order),
            Rest::Payment(input) => {
                measure.drew_payment(input.customer_warehouse != input.warehouse);
                measure.drew_customer(input.customer);
            }
            Rest::OrderStatus(input) => measure.drew_customer(input.customer),
            Rest::Delivery(_) | Rest::StockLevel(_) => {}
        }
        if let Done::Delivered(districts) = done {
            measure.delivered(*districts);
        }
        Ok(())
    }

    fn note_error(&mut self, kind: Kind, error: OrdersError, at: Moments) -> Result<(), OrdersError> {
        self.scheduler.measure().record(kind, at, Ended::Error);
        self.scheduler.failed();
        self.errors_in_a_row += 1;
        let session = self.number;
        if self.errors_in_a_row >= ERRORS_IN_A_ROW_MAX {
            let (count, source) = (self.errors_in_a_row, Box::new(error));
            return Err(OrdersError::ErrorsInARow { session, count, source });
        }
        self.scheduler.shared.warning(|| format!("{} of session {session}: {}", kind.name(), crate::error::chain(&error)));
        Ok(())
    }

    /// Notes that the connection is gone; whether its transaction was committed is unknown.
    fn note_loss(&mut self, error: OrdersError) -> Result<(), OrdersError> {
        self.session = None;
        let (shared, session) = (&self.scheduler.shared, self.number);
        if !shared.options.reconnect {
            return Err(OrdersError::ConnectionLost { session, source: Box::new(error) });
        }
        shared.connection_losses.fetch_add(1, Ordering::Relaxed);
        shared.warning(|| format!("session {session} lost its connection: {}", crate::error::chain(&error)));
        Ok(())
    }

    /// Reconnects with growing pauses, until the run ends or no transaction has succeeded for too long.
    async fn reconnect(&mut self) -> Result<(), OrdersError> {
        let mut pause_ms = BACKOFF_MS_MIN;
        loop {
            if self.scheduler.is_over(Instant::now()) {
                return Ok(());
            }
            match self.database.terminal().await {
                Ok(session) => {
                    self.session = Some(session);
                    return Ok(());
                }
                Err(source) => {
                    let idle = self.scheduler.shared.since_success();
                    if idle >= Duration::from_secs(NO_SUCCESS_S_MAX) {
                        let (seconds, source) = (idle.as_secs(), Box::new(source));
                        return Err(OrdersError::Unresponsive { seconds, source });
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(BACKOFF_MS_MAX);
        }
    }
}

/// Upper limit of the pause before this repeat of a transaction, in milliseconds; `None` for no pause.
fn longest_pause_ms(repeat: u32) -> Option<u64> {
    let doublings = repeat.checked_sub(RETRIES_AT_ONCE + 1)?;
    Some((RETRY_PAUSE_MS_MIN << doublings.min(16)).min(RETRY_PAUSE_MS_MAX))
}

async fn send<S: Session>(session: &mut S, drawn: &Drawn) -> Result<Done, Failure> {
    Ok(match &drawn.rest {
        Rest::NewOrder => {
            let input = &drawn.order;
            let answer = session.new_order(input).await?;
            if answer.committed {
                Done::Order(AcknowledgedOrder { warehouse: input.warehouse, district: input.district, order: answer.order })
            } else {
                Done::OrderRolledBack
            }
        }
        Rest::Payment(input) => {
            session.payment(input).await?;
            Done::Nothing
        }
        Rest::OrderStatus(input) => {
            session.order_status(input).await?;
            Done::Nothing
        }
        Rest::Delivery(input) => Done::Delivered(session.delivery(input).await?.delivered),
        Rest::StockLevel(input) => {
            session.stock_level(input).await?;
            Done::Nothing
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_follow_at_once_and_then_after_pauses_that_grow_to_a_limit() {
        let pauses: Vec<Option<u64>> = (1..=10).map(longest_pause_ms).collect();
        assert_eq!(pauses[..3], [None; 3]);
        assert_eq!(pauses[3..], [2, 4, 8, 16, 32, 64, 64].map(Some));
        assert_eq!(longest_pause_ms(RETRIES_MAX), Some(RETRY_PAUSE_MS_MAX));
    }
}
