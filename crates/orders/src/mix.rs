//! Selection of the next transaction (clauses 5.2.3, 5.2.4).

use rand::Rng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The five transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Enters an order of 5 to 15 lines.
    NewOrder,
    /// Takes a customer's payment.
    Payment,
    /// Reads a customer's last order.
    OrderStatus,
    /// Delivers the oldest undelivered order of each district of a warehouse.
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

    /// Name in the specification.
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
    /// A weighted draw for each transaction.
    Weights(Weights),
}

impl MixRule {
    /// Name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deck => "deck",
            Self::Weights(_) => "weights",
        }
    }
}

/// Shares of the five transactions, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights {
    parts: [u32; 5],
}

/// A little above the minima of clause 5.2.3, so that a run does not miss them by chance.
pub const WEIGHTS_DEFAULT: Weights = Weights { parts: [446_000, 431_000, 41_000, 41_000, 41_000] };
const MILLION: u32 = 1_000_000;

/// The text does not consist of five weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "weights are five numbers, 0 or more and not all 0, of New-Order, Payment, Order-Status, Delivery, Stock-Level, as in 44.6,43.1,4.1,4.1,4.1"
)]
pub struct WeightsError;

impl std::str::FromStr for Weights {
    type Err = WeightsError;

    /// Parses five numbers between commas; their sum is 100 %.
    fn from_str(text: &str) -> Result<Self, WeightsError> {
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|number| number.trim().parse::<f64>()).collect();
        let numbers: [f64; 5] = numbers.map_err(|_| WeightsError)?.try_into().map_err(|_| WeightsError)?;
        let sum: f64 = numbers.iter().sum();
        let sound = numbers.iter().all(|number| *number >= 0.0) && sum > 0.0 && sum.is_finite();
        if !sound {
            return Err(WeightsError);
        }
        let mut parts = numbers.map(|number| (number / sum * f64::from(MILLION)).round() as u32);
        // The remainder of rounding goes to the largest share.
        let largest = (0..5).max_by_key(|index| parts[*index]).unwrap_or(0);
        let others: u32 = (0..5).filter(|index| *index != largest).map(|index| parts[index]).sum();
        parts[largest] = MILLION - others;
        Ok(Self { parts })
    }
}

impl Weights {
    /// Shares in per cent, in the order of [`Kind::ALL`].
    #[must_use]
    pub fn percent(self) -> [f64; 5] {
        self.parts.map(|part| f64::from(part) * 100.0 / f64::from(MILLION))
    }

    fn draw(self, rng: &mut Xoshiro256PlusPlus) -> Kind {
        let mut left = rng.random_range(0..MILLION);
        for kind in Kind::ALL {
            let part = self.parts[kind.index()];
            if left < part {
                return kind;
            }
            left -= part;
        }
        unreachable!("the parts make a million: {self:?}")
    }
}

const DECK: usize = 23;
const CARDS: [usize; 5] = [10, 10, 1, 1, 1];

/// The sequence of transactions of one terminal.
#[derive(Debug)]
pub struct Mix {
    rule: MixRule,
    deck: [Kind; DECK],
    next: usize,
}

impl Mix {
    /// A new sequence.
    #[must_use]
    pub fn new(rule: MixRule) -> Self {
        let mut deck = [Kind::NewOrder; DECK];
        let cards = Kind::ALL.into_iter().flat_map(|kind| std::iter::repeat_n(kind, CARDS[kind.index()]));
        deck.iter_mut().zip(cards).for_each(|(place, card)| *place = card);
        Self { rule, deck, next: DECK }
    }

    /// The next transaction.
    pub fn draw(&mut self, rng: &mut Xoshiro256PlusPlus) -> Kind {
        match self.rule {
            MixRule::Deck => {
                if self.next == DECK {
                    self.deck.shuffle(rng);
                    self.next = 0;
                }
                self.next += 1;
                self.deck[self.next - 1]
            }
            MixRule::Weights(weights) => weights.draw(rng),
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
        for rule in [MixRule::Deck, MixRule::Weights(WEIGHTS_DEFAULT)] {
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

    #[test]
    fn weights_are_five_numbers_of_any_sum() {
        let weights: Weights = "1, 2,0,1,0".parse().unwrap();
        assert_eq!(weights.percent(), [25.0, 50.0, 0.0, 25.0, 0.0]);
        let thirds: Weights = "1,1,1,0,0".parse().unwrap();
        assert!((thirds.percent().iter().sum::<f64>() - 100.0).abs() < 1e-9);
        let drawn = counts(MixRule::Weights(weights), 100_000);
        assert_eq!((drawn[2], drawn[4]), (0, 0));
        assert!((49_000..51_000).contains(&drawn[1]), "{drawn:?}");
        for text in ["1,2,3,4", "1,2,3,4,5,6", "0,0,0,0,0", "-1,1,1,1,1", "a,1,1,1,1", "NaN,1,1,1,1", "inf,1,1,1,1", ""] {
            assert!(text.parse::<Weights>().is_err(), "{text}");
        }
    }
}
