//! The rows of a fresh database (clause 4.3.3), generated from a seed.
//!
//! The rows of a unit depend only on seed, table and warehouse, not on the number of jobs that load them.

use rand::Rng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::database::Config;
use crate::random::{CUSTOMERS, DISTRICTS, ITEMS, last_name, push_alphanumeric, push_digits, stream};
use crate::tables::{ORDER_OPEN_FIRST, ORDERS_LOADED, Table, Unit};

/// History amount and first payment of each customer, in cents.
const FIRST_PAYMENT_CENTS: i64 = 1_000;
const ORIGINAL: &[u8] = b"ORIGINAL";

/// Receives the columns of generated rows in order.
pub trait RowSink {
    /// Begins a row.
    fn row(&mut self);
    /// A 32-bit number.
    fn int(&mut self, value: u32);
    /// An amount in cents, or another 64-bit number.
    fn long(&mut self, value: i64);
    /// Text in ASCII.
    fn text(&mut self, value: &[u8]);
    /// The start time of the load.
    fn now(&mut self);
    /// NULL.
    fn null(&mut self);
}

/// Generates the rows of one unit, a few at a time.
#[derive(Debug)]
pub struct RowSource {
    unit: Unit,
    config: Config,
    rng: Xoshiro256PlusPlus,
    next: u32,
    count: u32,
    scratch: Vec<u8>,
    /// O_C_ID of the orders of the current district.
    customers: Vec<u32>,
    /// O_OL_CNT of the orders of the current district; orders and order lines draw the same.
    line_counts: Vec<u32>,
}

impl RowSource {
    /// The rows of `unit` in a database of `config`.
    #[must_use]
    pub fn new(unit: Unit, config: &Config) -> Self {
        let count = match unit.table {
            Table::Item | Table::Stock => ITEMS,
            Table::Warehouse => config.warehouses,
            Table::District | Table::Delivered => config.warehouses * DISTRICTS,
            Table::Customer | Table::History => CUSTOMERS * DISTRICTS,
            Table::Orders | Table::OrderLine | Table::NewOrder => ORDERS_LOADED * DISTRICTS,
        };
        Self {
            unit,
            config: config.clone(),
            rng: stream(config.seed, stream_number(unit.table as u64, unit.warehouse, 0)),
            next: 0,
            count,
            scratch: Vec::with_capacity(512),
            customers: Vec::new(),
            line_counts: Vec::new(),
        }
    }

    /// Generates up to `steps` entities (rows; for order lines, orders). Returns whether there are more.
    pub fn push(&mut self, steps: u32, sink: &mut impl RowSink) -> bool {
        let upto = self.count.min(self.next.saturating_add(steps));
        while self.next < upto {
            let index = self.next;
            match self.unit.table {
                Table::Item => self.item(index + 1, sink),
                Table::Warehouse => self.warehouse(index + 1, sink),
                Table::District => self.district(index, sink),
                Table::Delivered => delivered(index, sink),
                Table::Stock => self.stock(index + 1, sink),
                Table::Customer => self.customer(index, sink),
                Table::History => self.history(index, sink),
                Table::Orders => self.order(index, sink),
                Table::NewOrder => self.new_order(index, sink),
                Table::OrderLine => self.order_lines(index, sink),
            }
            self.next += 1;
        }
        self.next < self.count
    }

    fn item(&mut self, item: u32, sink: &mut impl RowSink) {
        sink.row();
        sink.int(item);
        sink.int(self.rng.random_range(1..=10_000)); // I_IM_ID
        self.text(14, 24, sink); // I_NAME
        sink.long(self.rng.random_range(100..=10_000)); // I_PRICE
        self.data(sink); // I_DATA
    }

    fn warehouse(&mut self, warehouse: u32, sink: &mut impl RowSink) {
        sink.row();
        sink.int(warehouse);
        self.text(6, 10, sink); // W_NAME
        self.address(sink);
        sink.int(self.rng.random_range(0..=2_000)); // W_TAX
        sink.long(30_000_000); // W_YTD
    }

    fn district(&mut self, index: u32, sink: &mut impl RowSink) {
        sink.row();
        sink.int(index / DISTRICTS + 1);
        sink.int(index % DISTRICTS + 1);
        self.text(6, 10, sink); // D_NAME
        self.address(sink);
        sink.int(self.rng.random_range(0..=2_000)); // D_TAX
        sink.long(3_000_000); // D_YTD
        sink.int(ORDERS_LOADED + 1); // D_NEXT_O_ID
    }

    fn stock(&mut self, item: u32, sink: &mut impl RowSink) {
        sink.row();
        sink.int(self.unit.warehouse);
        sink.int(item);
        sink.int(self.rng.random_range(10..=100)); // S_QUANTITY
        for _ in 0..DISTRICTS {
            self.text(24, 24, sink); // S_DIST_xx
        }
        sink.long(0); // S_YTD
        sink.int(0); // S_ORDER_CNT
        sink.int(0); // S_REMOTE_CNT
        self.data(sink); // S_DATA
    }

    fn customer(&mut self, index: u32, sink: &mut impl RowSink) {
        let customer = index % CUSTOMERS + 1;
        let name = if customer <= 1_000 { customer - 1 } else { self.config.constants.last_name_load(&mut self.rng) };
        sink.row();
        sink.int(self.unit.warehouse);
        sink.int(index / CUSTOMERS + 1);
        sink.int(customer);
        self.text(8, 16, sink); // C_FIRST
        sink.text(b"OE"); // C_MIDDLE
        sink.text(last_name(name).as_bytes()); // C_LAST
        self.address(sink);
        self.digits(16, b"", sink); // C_PHONE
        sink.now(); // C_SINCE
        let bad_credit = self.rng.random_range(1..=10) == 1;
        sink.text(if bad_credit { b"BC" } else { b"GC" }); // C_CREDIT
        sink.long(5_000_000); // C_CREDIT_LIM
        sink.int(self.rng.random_range(0..=5_000)); // C_DISCOUNT
        sink.long(-FIRST_PAYMENT_CENTS); // C_BALANCE
        sink.long(FIRST_PAYMENT_CENTS); // C_YTD_PAYMENT
        sink.int(1); // C_PAYMENT_CNT
        sink.int(0); // C_DELIVERY_CNT
        self.text(300, 500, sink); // C_DATA
    }

    fn history(&mut self, index: u32, sink: &mut impl RowSink) {
        let (warehouse, district) = (self.unit.warehouse, index / CUSTOMERS + 1);
        sink.row();
        sink.int(index % CUSTOMERS + 1);
        sink.int(district);
        sink.int(warehouse);
        sink.int(district);
        sink.int(warehouse);
        sink.now();
        sink.long(FIRST_PAYMENT_CENTS);
        self.text(12, 24, sink);
    }

    fn order(&mut self, index: u32, sink: &mut impl RowSink) {
        self.begin_district(index);
        let order = index % ORDERS_LOADED;
        sink.row();
        sink.int(self.unit.warehouse);
        sink.int(index / ORDERS_LOADED + 1);
        sink.int(order + 1);
        sink.int(self.customers[order as usize]);
        sink.now(); // O_ENTRY_D
        if order + 1 < ORDER_OPEN_FIRST {
            sink.int(self.rng.random_range(1..=10)); // O_CARRIER_ID
        } else {
            sink.null();
        }
        sink.int(self.line_counts[order as usize]);
        sink.int(1); // O_ALL_LOCAL
    }

    fn new_order(&self, index: u32, sink: &mut impl RowSink) {
        let order = index % ORDERS_LOADED + 1;
        if order >= ORDER_OPEN_FIRST {
            sink.row();
            sink.int(self.unit.warehouse);
            sink.int(index / ORDERS_LOADED + 1);
            sink.int(order);
        }
    }

    fn order_lines(&mut self, index: u32, sink: &mut impl RowSink) {
        self.begin_district(index);
        let order = index % ORDERS_LOADED;
        let delivered = order + 1 < ORDER_OPEN_FIRST;
        for number in 1..=self.line_counts[order as usize] {
            sink.row();
            sink.int(self.unit.warehouse);
            sink.int(index / ORDERS_LOADED + 1);
            sink.int(order + 1);
            sink.int(number);
            sink.int(self.rng.random_range(1..=ITEMS)); // OL_I_ID
            sink.int(self.unit.warehouse); // OL_SUPPLY_W_ID
            if delivered {
                sink.now(); // OL_DELIVERY_D = O_ENTRY_D
            } else {
                sink.null();
            }
            sink.int(5); // OL_QUANTITY
            sink.long(if delivered { 0 } else { self.rng.random_range(1..=999_999) });
            self.text(24, 24, sink); // OL_DIST_INFO
        }
    }

    /// Draws the values that the orders and order lines of a district share, if `index` is its first order.
    fn begin_district(&mut self, index: u32) {
        if !index.is_multiple_of(ORDERS_LOADED) {
            return;
        }
        let district = index / ORDERS_LOADED + 1;
        // Both tables use the stream of Orders, so that they agree.
        let number = stream_number(Table::Orders as u64, self.unit.warehouse, district);
        let mut rng = stream(self.config.seed, number);
        self.customers = (1..=CUSTOMERS).collect();
        self.customers.shuffle(&mut rng);
        self.line_counts = (0..ORDERS_LOADED).map(|_| rng.random_range(5..=15)).collect();
    }

    fn text(&mut self, least: usize, most: usize, sink: &mut impl RowSink) {
        let length = if least == most { least } else { self.rng.random_range(least..=most) };
        self.scratch.clear();
        push_alphanumeric(&mut self.rng, length, &mut self.scratch);
        sink.text(&self.scratch);
    }

    /// Writes 26 to 50 characters; 10 % of the texts contain ORIGINAL.
    fn data(&mut self, sink: &mut impl RowSink) {
        let length = self.rng.random_range(26..=50);
        self.scratch.clear();
        push_alphanumeric(&mut self.rng, length, &mut self.scratch);
        if self.rng.random_range(1..=10) == 1 {
            let at = self.rng.random_range(0..=length - ORIGINAL.len());
            self.scratch[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        }
        sink.text(&self.scratch);
    }

    fn digits(&mut self, count: usize, tail: &[u8], sink: &mut impl RowSink) {
        self.scratch.clear();
        push_digits(&mut self.rng, count, &mut self.scratch);
        self.scratch.extend_from_slice(tail);
        sink.text(&self.scratch);
    }

    /// Writes two street lines, city, state and zip.
    fn address(&mut self, sink: &mut impl RowSink) {
        self.text(10, 20, sink);
        self.text(10, 20, sink);
        self.text(10, 20, sink);
        self.text(2, 2, sink);
        self.digits(4, b"11111", sink);
    }
}

fn delivered(index: u32, sink: &mut impl RowSink) {
    sink.row();
    sink.int(index / DISTRICTS + 1);
    sink.int(index % DISTRICTS + 1);
    sink.long(0);
}

/// Stream number of one table, warehouse and district, unique within a load.
const fn stream_number(table: u64, warehouse: u32, district: u32) -> u64 {
    (table << 56) | ((warehouse as u64) << 8) | district as u64
}

#[cfg(test)]
mod tests;
