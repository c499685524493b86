//! One user: a terminal in a closed loop, through retries, errors and lost connections.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;

use super::{Schedule, Shared};
use crate::checks::AcknowledgedOrder;
use crate::cuts::keep_time;
use crate::database::{Database, Failure, Terminal};
use crate::error::OrdersError;
use crate::inputs::{DeliveryInput, Inputs, NewOrderInput, OrderStatusInput, PaymentInput, StockLevelInput};
use crate::limits::{BACKOFF_MS_MAX, BACKOFF_MS_MIN, ERRORS_IN_A_ROW_MAX, GRACE_S, RETRIES_MAX, SILENCE_S_MAX};
use crate::measure::{Ended, Measure};
use crate::mix::{Kind, Mix};
use crate::random::stream;

/// Runs these users to their end; `None` when the run never started.
pub(super) async fn run_all<D: Database>(database: &D, shared: &Arc<Shared>, users: &[u32]) -> Option<Measure> {
    let mut sessions = Vec::with_capacity(users.len());
    for user in users {
        if shared.stopped() {
            return None;
        }
        match database.terminal().await {
            Ok(session) => sessions.push((*user, session)),
            Err(error) => {
                shared.fail(error);
                return None;
            }
        }
        shared.connected.fetch_add(1, Ordering::Relaxed);
    }
    let mut start = shared.start.subscribe();
    let schedule = (*start.wait_for(Option::is_some).await.ok()?)??;
    let measure = Measure::new(schedule.measure_from, schedule.measure_upto).with_cuts(shared.cutter.clone());
    let measure = Rc::new(RefCell::new(measure));
    let timekeeper = shared.cutter.as_ref().map(|cutter| {
        let measure = Rc::clone(&measure);
        tokio::task::spawn_local(keep_time(measure, cutter.every_s(), schedule.measure_from, schedule.measure_upto))
    });
    let tasks: Vec<_> = sessions
        .into_iter()
        .map(|(user, session)| {
            let task = User {
                user,
                database: database.clone(),
                shared: Arc::clone(shared),
                schedule,
                session: Some(session),
                measure: Rc::clone(&measure),
                errors_in_a_row: 0,
            };
            tokio::task::spawn_local(task.run())
        })
        .collect();
    for task in tasks {
        if let Err(error) = task.await {
            shared.fail(OrdersError::Thread { what: format!("a user of the driver: {error}") });
        }
    }
    if let Some(timekeeper) = timekeeper {
        timekeeper.abort();
        // Ended or aborted: either way it no longer holds the measurements.
        let _ = timekeeper.await;
    }
    Rc::into_inner(measure).map(RefCell::into_inner)
}

struct User<D: Database> {
    user: u32,
    database: D,
    shared: Arc<Shared>,
    schedule: Schedule,
    session: Option<D::Terminal>,
    measure: Rc<RefCell<Measure>>,
    errors_in_a_row: u32,
}

/// A transaction with its inputs, so that a repeat sends the same ones.
enum Transaction {
    NewOrder(NewOrderInput),
    Payment(PaymentInput),
    OrderStatus(OrderStatusInput),
    Delivery(DeliveryInput),
    StockLevel(StockLevelInput),
}

/// What a transaction came to, beyond having been committed.
enum Done {
    Order(AcknowledgedOrder),
    OrderRolledBack,
    Delivered(u32),
    Nothing,
}

impl<D: Database> User<D> {
    async fn run(mut self) {
        let options = &self.shared.options;
        // Numbered through all drivers of a run: no two of them draw the same.
        let number = options.first_user + self.user;
        let mut rng = stream(options.seed, u64::from(number));
        let mut mix = Mix::new(options.mix);
        let inputs = Inputs::new(self.shared.config.warehouses, self.shared.config.constants, number);
        let grace_ends = self.schedule.measure_upto + Duration::from_secs(GRACE_S);
        while !self.shared.stopped() && Instant::now() < self.schedule.measure_upto {
            let kind = mix.draw(&mut rng);
            let transaction = draw(kind, &inputs, &mut rng);
            let attempt = self.carry_out(kind, &transaction);
            match tokio::time::timeout_at(grace_ends.into(), attempt).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return self.shared.fail(error),
                Err(_) => {
                    // The statement hangs in the database: closing the session gives it up.
                    self.shared.unfinished.fetch_add(1, Ordering::Relaxed);
                    self.session = None;
                    return;
                }
            }
        }
    }

    /// One transaction to its end; an error ends the run.
    async fn carry_out(&mut self, kind: Kind, transaction: &Transaction) -> Result<(), OrdersError> {
        let began = Instant::now();
        let mut retries = 0;
        loop {
            let Some(session) = &mut self.session else {
                return self.reconnect().await;
            };
            let outcome = send(session, transaction).await;
            let ended = Instant::now();
            match outcome {
                Ok(done) => return self.note(kind, transaction, &done, began, ended),
                Err(Failure::Retry(_)) if retries < RETRIES_MAX && !self.shared.stopped() => {
                    retries += 1;
                    self.measure.borrow_mut().retry(kind, ended);
                }
                Err(Failure::Lost(error)) => {
                    self.session = None;
                    if !self.shared.options.reconnect {
                        let source = Box::new(error);
                        return Err(OrdersError::ConnectionLost { user: self.user, source });
                    }
                    self.shared.connection_losses.fetch_add(1, Ordering::Relaxed);
                    let user = self.user;
                    self.shared.trouble(|| format!("user {user} lost its connection: {}", chain(&error)));
                    return self.reconnect().await;
                }
                Err(Failure::Retry(error) | Failure::Error(error)) => {
                    return self.note_error(kind, error, began, ended);
                }
            }
        }
    }

    fn note(
        &mut self,
        kind: Kind,
        transaction: &Transaction,
        done: &Done,
        began: Instant,
        ended: Instant,
    ) -> Result<(), OrdersError> {
        self.errors_in_a_row = 0;
        self.shared.succeeded();
        let how = if matches!(done, Done::OrderRolledBack) { Ended::RolledBack } else { Ended::Committed };
        if let Done::Order(order) = done {
            self.shared.orders.fetch_add(1, Ordering::Relaxed);
            if let Some(log) = &self.shared.ack_log {
                log.append(*order)?;
            }
        }
        let mut measure = self.measure.borrow_mut();
        if !measure.record(kind, began, ended, how) {
            return Ok(());
        }
        match transaction {
            Transaction::NewOrder(input) => measure.drew_order(input),
            Transaction::Payment(input) => {
                measure.drew_payment(input.customer_warehouse != input.warehouse);
                measure.drew_customer(input.customer);
            }
            Transaction::OrderStatus(input) => measure.drew_customer(input.customer),
            Transaction::Delivery(_) | Transaction::StockLevel(_) => {}
        }
        if let Done::Delivered(districts) = done {
            measure.delivered(*districts);
        }
        Ok(())
    }

    fn note_error(&mut self, kind: Kind, error: OrdersError, began: Instant, ended: Instant) -> Result<(), OrdersError> {
        self.measure.borrow_mut().record(kind, began, ended, Ended::Error);
        self.errors_in_a_row += 1;
        let user = self.user;
        if self.errors_in_a_row >= ERRORS_IN_A_ROW_MAX {
            let (count, source) = (self.errors_in_a_row, Box::new(error));
            return Err(OrdersError::ErrorsInARow { user, count, source });
        }
        self.shared.trouble(|| format!("{} of user {user}: {}", kind.name(), chain(&error)));
        Ok(())
    }

    /// Opens the session again with growing pauses, until the run ends or silence lasts too long.
    async fn reconnect(&mut self) -> Result<(), OrdersError> {
        let mut pause_ms = BACKOFF_MS_MIN;
        loop {
            if self.shared.stopped() || Instant::now() >= self.schedule.measure_upto {
                return Ok(());
            }
            match self.database.terminal().await {
                Ok(session) => {
                    self.session = Some(session);
                    return Ok(());
                }
                Err(source) => {
                    let silence = self.shared.silence();
                    if silence >= Duration::from_secs(SILENCE_S_MAX) {
                        let (seconds, source) = (silence.as_secs(), Box::new(source));
                        return Err(OrdersError::Silence { seconds, source });
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(BACKOFF_MS_MAX);
        }
    }
}

fn draw(kind: Kind, inputs: &Inputs, rng: &mut SmallRng) -> Transaction {
    match kind {
        Kind::NewOrder => Transaction::NewOrder(inputs.new_order(rng)),
        Kind::Payment => Transaction::Payment(inputs.payment(rng)),
        Kind::OrderStatus => Transaction::OrderStatus(inputs.order_status(rng)),
        Kind::Delivery => Transaction::Delivery(inputs.delivery(rng)),
        Kind::StockLevel => Transaction::StockLevel(inputs.stock_level(rng)),
    }
}

async fn send<T: Terminal>(session: &mut T, transaction: &Transaction) -> Result<Done, Failure> {
    Ok(match transaction {
        Transaction::NewOrder(input) => {
            let answer = session.new_order(input).await?;
            if answer.committed {
                Done::Order(AcknowledgedOrder { warehouse: input.warehouse, district: input.district, order: answer.order })
            } else {
                Done::OrderRolledBack
            }
        }
        Transaction::Payment(input) => {
            session.payment(input).await?;
            Done::Nothing
        }
        Transaction::OrderStatus(input) => {
            session.order_status(input).await?;
            Done::Nothing
        }
        Transaction::Delivery(input) => Done::Delivered(session.delivery(input).await?.delivered),
        Transaction::StockLevel(input) => {
            session.stock_level(input).await?;
            Done::Nothing
        }
    })
}

/// An error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
