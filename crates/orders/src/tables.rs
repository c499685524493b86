//! The tables, and the units in which they are loaded.

use crate::random::{DISTRICTS, ITEMS};

/// Orders loaded into each district.
pub const ORDERS_LOADED: u32 = 3_000;
/// The first undelivered order of a district: 2,100 orders are delivered, 900 are not.
pub const ORDER_OPEN_FIRST: u32 = 2_101;
/// The tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names of clause 1.3; Delivered counts deliveries committed")]
pub enum Table {
    Item,
    Warehouse,
    District,
    Delivered,
    Stock,
    Customer,
    History,
    Orders,
    NewOrder,
    OrderLine,
}

impl Table {
    /// Every table, at the index of its number.
    pub const ALL: [Self; 10] = [
        Self::Item,
        Self::Warehouse,
        Self::District,
        Self::Delivered,
        Self::Stock,
        Self::Customer,
        Self::History,
        Self::Orders,
        Self::NewOrder,
        Self::OrderLine,
    ];

    /// The table's name in every database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Warehouse => "warehouse",
            Self::District => "district",
            Self::Delivered => "delivered",
            Self::Stock => "stock",
            Self::Customer => "customer",
            Self::History => "history",
            Self::Orders => "orders",
            Self::NewOrder => "new_order",
            Self::OrderLine => "order_line",
        }
    }
}

/// A unit of loading work: the rows of one table, for one warehouse if the table is large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unit {
    /// The table.
    pub table: Table,
    /// The warehouse; 0 for the rows of all warehouses.
    pub warehouse: u32,
}

/// All units of a database, the large ones first so that jobs end at about the same time.
#[must_use]
pub fn units(warehouses: u32) -> Vec<Unit> {
    let large = [Table::OrderLine, Table::Stock, Table::Customer, Table::Orders, Table::History, Table::NewOrder];
    let small = [Table::Item, Table::Warehouse, Table::District, Table::Delivered];
    let of_all = small.into_iter().map(|table| Unit { table, warehouse: 0 });
    let of_each = (1..=warehouses).flat_map(|warehouse| large.into_iter().map(move |table| Unit { table, warehouse }));
    of_all.chain(of_each).collect()
}

/// Approximate number of rows of a database of this size (the number of order lines varies).
#[must_use]
pub fn rows_expected(warehouses: u32) -> u64 {
    let districts = u64::from(DISTRICTS);
    let orders = u64::from(ORDERS_LOADED) * districts;
    let open = u64::from(ORDERS_LOADED - ORDER_OPEN_FIRST + 1) * districts;
    let each = 1 + 2 * districts + u64::from(ITEMS) + 3 * orders + open + 10 * orders;
    u64::from(ITEMS) + u64::from(warehouses) * each
}
