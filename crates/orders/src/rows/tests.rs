//! Properties of the generated rows.

use super::*;
use crate::random::NuRandConstants;
use crate::tables::{rows_expected, units};

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Int(u32),
    Long(i64),
    Text(Vec<u8>),
    Now,
    Null,
}

#[derive(Default)]
struct Collected(Vec<Vec<Value>>);

impl Collected {
    fn add(&mut self, value: Value) {
        self.0.last_mut().unwrap().push(value);
    }
    fn int(&self, row: usize, column: usize) -> u32 {
        let Value::Int(value) = self.0[row][column] else { panic!("{:?}", self.0[row]) };
        value
    }
}

impl RowSink for Collected {
    fn row(&mut self) {
        self.0.push(Vec::new());
    }
    fn int(&mut self, value: u32) {
        self.add(Value::Int(value));
    }
    fn long(&mut self, value: i64) {
        self.add(Value::Long(value));
    }
    fn text(&mut self, value: &[u8]) {
        self.add(Value::Text(value.to_vec()));
    }
    fn now(&mut self) {
        self.add(Value::Now);
    }
    fn null(&mut self) {
        self.add(Value::Null);
    }
}

fn generate(table: Table, warehouse: u32) -> Vec<Vec<Value>> {
    collect(table, warehouse).0
}

fn collect(table: Table, warehouse: u32) -> Collected {
    let constants = NuRandConstants::draw(&mut stream(9, 0));
    let config = Config { warehouses: 2, seed: 9, constants };
    let mut source = RowSource::new(Unit { table, warehouse }, &config);
    let mut rows = Collected::default();
    while source.push(997, &mut rows) {}
    rows
}

#[test]
fn tables_have_their_rows() {
    for (table, warehouse, rows) in [
        (Table::Warehouse, 0, 2),
        (Table::District, 0, 20),
        (Table::Delivered, 0, 20),
        (Table::Item, 0, 100_000),
        (Table::Stock, 1, 100_000),
        (Table::Customer, 1, 30_000),
        (Table::History, 1, 30_000),
        (Table::Orders, 1, 30_000),
        (Table::NewOrder, 1, 9_000),
    ] {
        assert_eq!(generate(table, warehouse).len(), rows, "{table:?}");
    }
}

#[test]
fn order_lines_are_as_many_as_their_orders_say_and_open_ones_have_amounts() {
    let orders = collect(Table::Orders, 2);
    let lines = collect(Table::OrderLine, 2);
    let promised: u32 = (0..orders.0.len()).map(|row| orders.int(row, 6)).sum();
    assert_eq!(lines.0.len(), promised as usize);
    let mean = f64::from(promised) / 30_000.0;
    assert!((mean - 10.0).abs() < 0.1, "{mean}");
    for line in &lines.0 {
        let Value::Int(order) = line[2] else { panic!("{line:?}") };
        let Value::Long(cents) = line[8] else { panic!("{line:?}") };
        if order <= 2_100 {
            assert_eq!((&line[6], cents), (&Value::Now, 0));
        } else {
            assert!(line[6] == Value::Null && (1..=999_999).contains(&cents));
        }
    }
}

#[test]
fn customers_of_orders_are_a_permutation_in_each_district() {
    let orders = collect(Table::Orders, 1);
    for district in 0..10 {
        let mut customers: Vec<u32> = (district * 3_000..(district + 1) * 3_000).map(|row| orders.int(row, 3)).collect();
        assert_ne!(customers[..10], (1..=10).collect::<Vec<_>>()[..]);
        customers.sort_unstable();
        assert_eq!(customers, (1..=3_000).collect::<Vec<_>>());
    }
}

#[test]
fn first_thousand_customers_take_the_names_in_order_and_a_tenth_has_bad_credit() {
    let customers = generate(Table::Customer, 1);
    for (index, row) in customers.iter().enumerate().take(1_000) {
        let expected = last_name(u32::try_from(index).unwrap());
        assert_eq!(row[5], Value::Text(expected.into_bytes()));
    }
    let bad = customers.iter().filter(|row| row[13] == Value::Text(b"BC".to_vec())).count();
    assert!((2_700..3_300).contains(&bad), "{bad}");
}

#[test]
fn a_tenth_of_items_is_original_and_prices_are_1_to_100() {
    let items = generate(Table::Item, 0);
    let mut original = 0;
    for row in &items {
        let (Value::Long(price), Value::Text(data)) = (&row[3], &row[4]) else { panic!("{row:?}") };
        assert!((100..=10_000).contains(price));
        assert!((26..=50).contains(&data.len()));
        original += usize::from(data.windows(8).any(|window| window == ORIGINAL));
    }
    assert!((9_500..10_500).contains(&original), "{original}");
}

#[test]
fn rows_do_not_depend_on_how_many_are_taken_at_once() {
    let constants = NuRandConstants::draw(&mut stream(9, 0));
    let config = Config { warehouses: 2, seed: 9, constants };
    let mut source = RowSource::new(Unit { table: Table::OrderLine, warehouse: 2 }, &config);
    let mut rows = Collected::default();
    while source.push(1, &mut rows) {}
    assert!(rows.0 == generate(Table::OrderLine, 2));
}

#[test]
fn expected_rows_are_within_one_per_cent() {
    let lines = generate(Table::OrderLine, 1).len() as f64;
    let all = rows_expected(1) as f64;
    let exact = 100_000.0 + 21.0 + 100_000.0 + 90_000.0 + 9_000.0 + lines;
    assert!((all - exact).abs() / exact < 0.01);
    assert_eq!(units(3).len(), 4 + 3 * 6);
}
