//! Which of the five transactions comes next (clause 5.2.3, 5.2.4).

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// The five transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Enters an order of 5 to 15 lines.
    NewOrder,
    /// Takes a customer's payment.
    Payment,
    /// Reads a customer's last order.
    OrderStatus,
    /// Delivers the oldest open order of each district of a warehouse.
    Delivery,
    /// Counts recently sold items that are low in stock.
    StockLevel,
}

impl Kind {
    /// All five, in the order of records.
    pub const ALL: [Self; 5] = [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// Position in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name as the specification writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "New-Order",
            Self::Payment => "Payment",
            Self::OrderStatus => "Order-Status",
            Self::Delivery => "Delivery",
            Self::StockLevel => "Stock-Level",
        }
    }
}

/// How the next transaction is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MixRule {
    /// A shuffled deck of 23 cards per terminal: 10, 10, 1, 1, 1.
    Deck,
    /// A weighted draw a little above the minima: 44.6, 43.1, 4.1, 4.1, 4.1 per cent.
    Weighted,
}

impl MixRule {
    /// Name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deck => "deck",
            Self::Weighted => "weighted",
        }
    }
}

const CARDS: [usize; 5] = [10, 10, 1, 1, 1];
/// Upper bounds of the weighted draw in tenths of a per cent.
const WEIGHTS_UPTO: [u32; 5] = [446, 877, 918, 959, 1_000];

/// The sequence of transactions of one terminal.
#[derive(Debug)]
pub struct Mix {
    rule: MixRule,
    deck: Vec<Kind>,
    next: usize,
}

impl Mix {
    /// A fresh sequence.
    #[must_use]
    pub fn new(rule: MixRule) -> Self {
        let deck: Vec<Kind> = Kind::ALL.into_iter().flat_map(|kind| std::iter::repeat_n(kind, CARDS[kind.index()])).collect();
        let next = deck.len();
        Self { rule, deck, next }
    }

    /// The next transaction.
    pub fn draw(&mut self, rng: &mut SmallRng) -> Kind {
        match self.rule {
            MixRule::Deck => {
                if self.next == self.deck.len() {
                    self.deck.shuffle(rng);
                    self.next = 0;
                }
                self.next += 1;
                self.deck[self.next - 1]
            }
            MixRule::Weighted => {
                let draw = rng.random_range(0..1_000);
                let index = WEIGHTS_UPTO.iter().position(|upto| draw < *upto);
                Kind::ALL[index.unwrap_or(Kind::ALL.len() - 1)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    fn counts(rule: MixRule, draws: usize) -> [usize; 5] {
        let (mut mix, mut rng) = (Mix::new(rule), stream(5, 0));
        let mut counts = [0; 5];
        for _ in 0..draws {
            counts[mix.draw(&mut rng).index()] += 1;
        }
        counts
    }

    #[test]
    fn every_deck_of_23_holds_10_10_1_1_1() {
        let (mut mix, mut rng) = (Mix::new(MixRule::Deck), stream(4, 0));
        let mut orders = Vec::new();
        for _ in 0..100 {
            let deck: Vec<Kind> = (0..23).map(|_| mix.draw(&mut rng)).collect();
            for kind in Kind::ALL {
                let count = deck.iter().filter(|card| **card == kind).count();
                assert_eq!(count, CARDS[kind.index()], "{kind:?}");
            }
            orders.push(deck);
        }
        assert!(orders.windows(2).any(|pair| pair[0] != pair[1]), "never shuffled");
    }

    #[test]
    fn both_rules_stay_above_the_minima() {
        for rule in [MixRule::Deck, MixRule::Weighted] {
            let draws = 230_000;
            let counts = counts(rule, draws);
            let percent = |kind: Kind| counts[kind.index()] as f64 * 100.0 / draws as f64;
            assert!(percent(Kind::Payment) > 42.9, "{rule:?} {counts:?}");
            for kind in [Kind::OrderStatus, Kind::Delivery, Kind::StockLevel] {
                assert!(percent(kind) > 3.95, "{rule:?} {counts:?}");
            }
            assert!(percent(Kind::NewOrder) < 45.1, "{rule:?} {counts:?}");
        }
    }
}
