//! The inputs of each transaction, as a terminal draws them (clauses 2.4.1 to 2.8.1).

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::pacing::TERMINALS_PER_WAREHOUSE;
use crate::random::{DISTRICTS, ITEMS, NuRandConstants};

/// The item number that is not in the catalogue (clause 2.4.1.5: an unused value).
pub const ITEM_UNUSED: u32 = ITEMS + 1;
/// Least and most lines of an order.
pub const LINES_MIN: u32 = 5;
/// See [`LINES_MIN`].
pub const LINES_MAX: u32 = 15;

/// How the terminal identifies a customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustomerKey {
    /// By C_ID.
    Id(u32),
    /// By C_LAST, as the number 0 to 999 that the name is made from.
    LastName(u32),
}

/// One line of a new order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineInput {
    /// OL_NUMBER, from 1: the position the terminal drew it in.
    pub number: u32,
    /// OL_I_ID.
    pub item: u32,
    /// OL_SUPPLY_W_ID.
    pub supply_warehouse: u32,
    /// OL_QUANTITY, 1 to 10.
    pub quantity: u32,
}

/// Input of New-Order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewOrderInput {
    /// W_ID.
    pub warehouse: u32,
    /// D_ID.
    pub district: u32,
    /// C_ID.
    pub customer: u32,
    /// The lines, sorted by supplying warehouse and item, so that two orders lock their stock
    /// rows in the same order.
    pub lines: Vec<LineInput>,
}

impl NewOrderInput {
    /// Whether every line is supplied by the order's own warehouse (O_ALL_LOCAL).
    #[must_use]
    pub fn all_local(&self) -> bool {
        self.lines.iter().all(|line| line.supply_warehouse == self.warehouse)
    }

    /// Whether a line has the unused item, so that the order must be rolled back.
    #[must_use]
    pub fn has_unused_item(&self) -> bool {
        self.lines.iter().any(|line| line.item == ITEM_UNUSED)
    }
}

/// Input of Payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentInput {
    /// W_ID that takes the payment.
    pub warehouse: u32,
    /// D_ID that takes the payment.
    pub district: u32,
    /// C_W_ID.
    pub customer_warehouse: u32,
    /// C_D_ID.
    pub customer_district: u32,
    /// Which customer.
    pub customer: CustomerKey,
    /// H_AMOUNT in cents, 1.00 to 5,000.00.
    pub amount_cents: i64,
}

/// Input of Order-Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderStatusInput {
    /// C_W_ID.
    pub warehouse: u32,
    /// C_D_ID.
    pub district: u32,
    /// Which customer.
    pub customer: CustomerKey,
}

/// Input of Delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryInput {
    /// W_ID.
    pub warehouse: u32,
    /// O_CARRIER_ID, 1 to 10.
    pub carrier: u32,
}

/// Input of Stock-Level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StockLevelInput {
    /// W_ID.
    pub warehouse: u32,
    /// The terminal's own D_ID.
    pub district: u32,
    /// Threshold, 10 to 20 pieces.
    pub threshold: u32,
}

/// Draws the inputs of one terminal, over the active warehouses.
///
/// An *all-warehouses* terminal draws its warehouse uniformly for each transaction, so that a few
/// users touch the complete database. A *home-warehouse* terminal keeps one warehouse, as in the specification
/// (clause 2.4.1.1). In both modes, a terminal keeps its district for Stock-Level.
#[derive(Debug, Clone)]
pub struct Inputs {
    warehouses: u32,
    constants: NuRandConstants,
    home: Option<u32>,
    stock_level_district: u32,
}

impl Inputs {
    /// Inputs over `warehouses` active warehouses (at least 1) for all-warehouses terminal number
    /// `terminal`.
    #[must_use]
    pub fn new(warehouses: u32, constants: NuRandConstants, terminal: u32) -> Self {
        debug_assert!(warehouses > 0);
        Self { warehouses, constants, home: None, stock_level_district: terminal % DISTRICTS + 1 }
    }

    /// Inputs of home-warehouse terminal number `terminal`: ten consecutive terminals share a warehouse, one for
    /// each of its districts; after the last warehouse, the first follows.
    #[must_use]
    pub fn at_home(warehouses: u32, constants: NuRandConstants, terminal: u32) -> Self {
        let home = terminal / TERMINALS_PER_WAREHOUSE % warehouses + 1;
        Self { home: Some(home), ..Self::new(warehouses, constants, terminal) }
    }

    /// Clause 2.4.1: 5 to 15 lines, 1 % of them remote, 1 % of orders with an unused last item.
    pub fn new_order(&self, rng: &mut Xoshiro256PlusPlus) -> NewOrderInput {
        let mut input = NewOrderInput::default();
        self.new_order_into(rng, &mut input);
        input
    }

    /// As [`Self::new_order`], reusing the memory of an earlier order.
    pub fn new_order_into(&self, rng: &mut Xoshiro256PlusPlus, input: &mut NewOrderInput) {
        let warehouse = self.warehouse(rng);
        input.warehouse = warehouse;
        input.district = district(rng);
        input.customer = self.constants.customer_id(rng);
        let count = rng.random_range(LINES_MIN..=LINES_MAX);
        let unused = rng.random_range(1..=100) == 1;
        input.lines.clear();
        input.lines.extend((1..=count).map(|number| LineInput {
            number,
            item: self.constants.item_id(rng),
            supply_warehouse: if rng.random_range(1..=100) == 1 { self.warehouse_other_than(warehouse, rng) } else { warehouse },
            quantity: rng.random_range(1..=10),
        }));
        if unused && let Some(last) = input.lines.last_mut() {
            last.item = ITEM_UNUSED;
        }
        input.lines.sort_unstable_by_key(|line| (line.supply_warehouse, line.item, line.number));
    }

    /// Clause 2.5.1: 15 % by a customer of another warehouse, 60 % by name.
    pub fn payment(&self, rng: &mut Xoshiro256PlusPlus) -> PaymentInput {
        let warehouse = self.warehouse(rng);
        let own_district = district(rng);
        let home = rng.random_range(1..=100) <= 85;
        let (customer_warehouse, customer_district) =
            if home { (warehouse, own_district) } else { (self.warehouse_other_than(warehouse, rng), district(rng)) };
        PaymentInput {
            warehouse,
            district: own_district,
            customer_warehouse,
            customer_district,
            customer: self.customer(rng),
            amount_cents: rng.random_range(100..=500_000),
        }
    }

    /// Clause 2.6.1: 60 % by name.
    pub fn order_status(&self, rng: &mut Xoshiro256PlusPlus) -> OrderStatusInput {
        OrderStatusInput { warehouse: self.warehouse(rng), district: district(rng), customer: self.customer(rng) }
    }

    /// Clause 2.7.1.
    pub fn delivery(&self, rng: &mut Xoshiro256PlusPlus) -> DeliveryInput {
        DeliveryInput { warehouse: self.warehouse(rng), carrier: rng.random_range(1..=10) }
    }

    /// Clause 2.8.1.
    pub fn stock_level(&self, rng: &mut Xoshiro256PlusPlus) -> StockLevelInput {
        StockLevelInput {
            warehouse: self.warehouse(rng),
            district: self.stock_level_district,
            threshold: rng.random_range(10..=20),
        }
    }

    fn warehouse(&self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        self.home.unwrap_or_else(|| rng.random_range(1..=self.warehouses))
    }

    /// Another warehouse, drawn uniformly; the same one if there is only one.
    fn warehouse_other_than(&self, warehouse: u32, rng: &mut Xoshiro256PlusPlus) -> u32 {
        if self.warehouses == 1 {
            return warehouse;
        }
        let other = rng.random_range(1..self.warehouses);
        if other < warehouse { other } else { other + 1 }
    }

    fn customer(&self, rng: &mut Xoshiro256PlusPlus) -> CustomerKey {
        if rng.random_range(1..=100) <= 60 {
            CustomerKey::LastName(self.constants.last_name_run(rng))
        } else {
            CustomerKey::Id(self.constants.customer_id(rng))
        }
    }
}

fn district(rng: &mut Xoshiro256PlusPlus) -> u32 {
    rng.random_range(1..=DISTRICTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    const DRAWS: u32 = 10_0000;

    fn inputs(warehouses: u32) -> (Inputs, Xoshiro256PlusPlus) {
        let mut rng = stream(11, 0);
        let constants = NuRandConstants::draw(&mut rng);
        (Inputs::new(warehouses, constants, 3), rng)
    }

    fn percent(part: u32, whole: u32) -> f64 {
        f64::from(part) * 100.0 / f64::from(whole)
    }

    #[test]
    fn new_orders_have_5_to_15_sorted_lines_1_percent_remote_and_1_percent_unused() {
        let (inputs, mut rng) = inputs(7);
        let (mut lines, mut remote, mut unused) = (0, 0, 0);
        for _ in 0..DRAWS {
            let order = inputs.new_order(&mut rng);
            let count = u32::try_from(order.lines.len()).unwrap();
            assert!((LINES_MIN..=LINES_MAX).contains(&count));
            assert!(order.lines.is_sorted_by_key(|line| (line.supply_warehouse, line.item)));
            let mut numbers: Vec<u32> = order.lines.iter().map(|line| line.number).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
            for line in &order.lines {
                assert!((1..=10).contains(&line.quantity));
                assert!((1..=7).contains(&line.supply_warehouse));
                if line.item == ITEM_UNUSED {
                    assert_eq!(line.number, count, "the unused item is the last line");
                }
            }
            assert_eq!(order.all_local(), order.lines.iter().all(|l| l.supply_warehouse == order.warehouse));
            lines += count;
            remote += u32::from(!order.all_local());
            unused += u32::from(order.has_unused_item());
        }
        assert!((f64::from(lines) / f64::from(DRAWS) - 10.0).abs() < 0.1);
        assert!((percent(unused, DRAWS) - 1.0).abs() < 0.15);
        // 1 - mean of 0.99^n over n = 5..=15 is 9.5 %.
        assert!((percent(remote, DRAWS) - 9.5).abs() < 0.5);
    }

    #[test]
    fn payments_are_15_percent_remote_and_60_percent_by_name() {
        let (inputs, mut rng) = inputs(7);
        let (mut remote, mut by_name) = (0, 0);
        for _ in 0..DRAWS {
            let payment = inputs.payment(&mut rng);
            assert!((100..=500_000).contains(&payment.amount_cents));
            if payment.customer_warehouse == payment.warehouse {
                assert_eq!(payment.customer_district, payment.district);
            } else {
                remote += 1;
            }
            by_name += u32::from(matches!(payment.customer, CustomerKey::LastName(_)));
        }
        assert!((percent(remote, DRAWS) - 15.0).abs() < 0.5);
        assert!((percent(by_name, DRAWS) - 60.0).abs() < 0.6);
    }

    #[test]
    fn one_warehouse_has_no_remote_lines_or_payments() {
        let (inputs, mut rng) = inputs(1);
        for _ in 0..5_000 {
            assert!(inputs.new_order(&mut rng).all_local());
            assert_eq!(inputs.payment(&mut rng).customer_warehouse, 1);
        }
    }

    #[test]
    fn warehouses_are_drawn_uniformly_and_others_never_equal_home() {
        let (inputs, mut rng) = inputs(4);
        let mut homes = [0_u32; 4];
        let mut others = [0_u32; 4];
        for _ in 0..DRAWS {
            let home = inputs.warehouse(&mut rng);
            homes[home as usize - 1] += 1;
            let other = inputs.warehouse_other_than(2, &mut rng);
            assert_ne!(other, 2);
            others[other as usize - 1] += 1;
        }
        assert!(homes.iter().all(|count| (percent(*count, DRAWS) - 25.0).abs() < 0.7), "{homes:?}");
        for index in [0, 2, 3] {
            assert!((percent(others[index], DRAWS) - 33.33).abs() < 0.8, "{others:?}");
        }
    }

    #[test]
    fn a_terminal_keeps_its_stock_level_district() {
        let (inputs, mut rng) = inputs(4);
        for _ in 0..1_000 {
            let input = inputs.stock_level(&mut rng);
            assert_eq!(input.district, 4);
            assert!((10..=20).contains(&input.threshold));
        }
    }

    #[test]
    fn ten_terminals_in_a_row_share_a_home_and_stay_there() {
        let mut rng = stream(12, 0);
        let constants = NuRandConstants::draw(&mut rng);
        for (terminal, home, district) in [(0, 1, 1), (9, 1, 10), (10, 2, 1), (39, 4, 10), (40, 1, 1)] {
            let inputs = Inputs::at_home(4, constants, terminal);
            for _ in 0..200 {
                assert_eq!(inputs.new_order(&mut rng).warehouse, home);
                assert_eq!(inputs.payment(&mut rng).warehouse, home);
                assert_eq!(inputs.order_status(&mut rng).warehouse, home);
                assert_eq!(inputs.delivery(&mut rng).warehouse, home);
                let stock_level = inputs.stock_level(&mut rng);
                assert_eq!((stock_level.warehouse, stock_level.district), (home, district));
            }
        }
    }

    #[test]
    fn home_terminals_still_pay_and_order_remotely() {
        let mut rng = stream(13, 0);
        let inputs = Inputs::at_home(5, NuRandConstants::draw(&mut rng), 20);
        let payments = (0..DRAWS).filter(|_| inputs.payment(&mut rng).customer_warehouse != 3).count();
        assert!((percent(u32::try_from(payments).unwrap(), DRAWS) - 15.0).abs() < 0.5, "{payments}");
        assert!((0..1_000).any(|_| !inputs.new_order(&mut rng).all_local()));
    }
}
