//! A terminal: it selects the next transaction and draws its inputs.

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::inputs::{DeliveryInput, Inputs, NewOrderInput, OrderStatusInput, PaymentInput, StockLevelInput};
use crate::mix::{Kind, Mix, MixRule};
use crate::random::stream;

/// One terminal of a thread. It is data, not a task, so that there can be very many.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) rng: Xoshiro256PlusPlus,
    mix: Mix,
    inputs: Inputs,
    /// The transaction it sends next: a paced terminal keys for it before it is due.
    pub(super) next: Kind,
}

impl Terminal {
    /// Terminal number `number` over all terminals of a run.
    pub(super) fn new(seed: u64, number: u32, rule: MixRule, inputs: Inputs) -> Self {
        let mut rng = stream(seed, u64::from(number));
        let mut mix = Mix::new(rule);
        let next = mix.draw(&mut rng);
        Self { rng, mix, inputs, next }
    }

    /// Draws the inputs of its next transaction into `drawn`, and selects the transaction after it.
    pub(super) fn draw(&mut self, drawn: &mut Drawn) -> Kind {
        let (kind, inputs, rng) = (self.next, &self.inputs, &mut self.rng);
        drawn.rest = match kind {
            Kind::NewOrder => {
                inputs.new_order_into(rng, &mut drawn.order);
                Rest::NewOrder
            }
            Kind::Payment => Rest::Payment(inputs.payment(rng)),
            Kind::OrderStatus => Rest::OrderStatus(inputs.order_status(rng)),
            Kind::Delivery => Rest::Delivery(inputs.delivery(rng)),
            Kind::StockLevel => Rest::StockLevel(inputs.stock_level(rng)),
        };
        self.next = self.mix.draw(rng);
        kind
    }
}

/// The current transaction of a session with its inputs, so that a repeat sends the same ones.
#[derive(Debug)]
pub(super) struct Drawn {
    /// Input of a New-Order; kept to reuse the memory of its lines.
    pub(super) order: NewOrderInput,
    pub(super) rest: Rest,
}

/// The kind of transaction, with the inputs of all except New-Order.
#[derive(Debug)]
pub(super) enum Rest {
    NewOrder,
    Payment(PaymentInput),
    OrderStatus(OrderStatusInput),
    Delivery(DeliveryInput),
    StockLevel(StockLevelInput),
}

impl Default for Drawn {
    fn default() -> Self {
        Self { order: NewOrderInput::default(), rest: Rest::NewOrder }
    }
}
