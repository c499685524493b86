//! Tables and rows on Oracle: the columns and keys of the MariaDB schema in Oracle's types.

use oracle::sql_type::ToSql;
use oracle::{Connection, Error};

use crate::mysql::schema::TABLES;
use crate::rows::{RowSink, RowSource};
use crate::tables::Table;

/// Rows in one batch.
const BATCH_ROWS: usize = 1_000;
/// Entities generated before their rows are sent.
const STEPS_AT_ONCE: u32 = 32;

/// The statements that create every table, `config` first.
pub(super) fn create() -> Vec<String> {
    TABLES.iter().map(|(name, columns)| format!("CREATE TABLE {name} ({})", in_types(columns))).collect()
}

/// The statements that drop every table, `config` last, so that an interrupted drop can be repeated.
pub(super) fn drop_all() -> Vec<String> {
    TABLES.iter().rev().map(|(name, _)| format!("DROP TABLE {name}")).collect()
}

fn in_types(columns: &str) -> String {
    [
        ("BIGINT UNSIGNED", "NUMBER(20)"),
        ("BIGINT", "NUMBER(19)"),
        (" INT", " NUMBER(10)"),
        ("BOOLEAN", "NUMBER(1)"),
        ("DATETIME(6)", "TIMESTAMP(6)"),
        ("VARCHAR(", "VARCHAR2("),
    ]
    .iter()
    .fold(columns.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Time,
}

fn kinds(table: Table) -> Vec<Kind> {
    let columns = TABLES.iter().find(|(name, _)| *name == table.name()).map_or("", |(_, columns)| columns);
    let rows = columns.split("PRIMARY KEY").next().unwrap_or_default();
    let types = rows.split(',').filter_map(|column| column.split_whitespace().nth(1));
    types
        .map(|kind| match kind {
            kind if kind.contains("CHAR") => Kind::Text,
            kind if kind.starts_with("DATETIME") => Kind::Time,
            _ => Kind::Number,
        })
        .collect()
}

/// The statement that inserts one row; times are seconds since 1970.
fn insert(table: Table) -> String {
    let places: Vec<String> = (1..)
        .zip(kinds(table))
        .map(|(number, kind)| match kind {
            Kind::Time => format!("TIMESTAMP '1970-01-01 00:00:00' + NUMTODSINTERVAL(:{number}, 'SECOND')"),
            Kind::Number | Kind::Text => format!(":{number}"),
        })
        .collect();
    format!("INSERT INTO {} VALUES ({})", table.name(), places.join(", "))
}

/// Inserts all rows of a source within the connection's transaction. Returns their number.
pub(super) fn copy(connection: &Connection, table: Table, mut source: RowSource, now_s: i64) -> Result<u64, Error> {
    let text = insert(table);
    let mut batch = connection.batch(&text, BATCH_ROWS).build()?;
    let mut rows = Rows { kinds: kinds(table), cells: Vec::new(), now_s };
    let mut sent = 0;
    let mut more = true;
    while more {
        more = source.push(STEPS_AT_ONCE, &mut rows);
        for row in rows.cells.chunks(rows.kinds.len()) {
            let cells: Vec<&dyn ToSql> = row.iter().map(Cell::as_sql).collect();
            batch.append_row(&cells)?;
            sent += 1;
        }
        rows.cells.clear();
    }
    batch.execute()?;
    Ok(sent)
}

/// One value, NULL in the type of its column.
#[derive(Debug, PartialEq)]
enum Cell {
    Number(Option<i64>),
    Text(Option<String>),
}

impl Cell {
    fn as_sql(&self) -> &dyn ToSql {
        match self {
            Self::Number(value) => value,
            Self::Text(value) => value,
        }
    }
}

/// Generated rows, as a sequence of cells.
struct Rows {
    kinds: Vec<Kind>,
    cells: Vec<Cell>,
    now_s: i64,
}

impl RowSink for Rows {
    fn row(&mut self) {
        debug_assert!(self.cells.len().is_multiple_of(self.kinds.len()), "a row has too many or too few columns");
    }

    fn int(&mut self, value: u32) {
        self.long(value.into());
    }

    fn long(&mut self, value: i64) {
        self.cells.push(Cell::Number(Some(value)));
    }

    fn text(&mut self, value: &[u8]) {
        self.cells.push(Cell::Text(Some(String::from_utf8_lossy(value).into_owned())));
    }

    fn now(&mut self) {
        self.long(self.now_s);
    }

    fn null(&mut self) {
        let column = self.cells.len() % self.kinds.len();
        self.cells.push(if self.kinds[column] == Kind::Text { Cell::Text(None) } else { Cell::Number(None) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Config;
    use crate::random::{NuRandConstants, stream};
    use crate::tables::Unit;

    #[test]
    fn tables_are_in_oracles_types_with_the_keys_that_lead_with_the_warehouse() {
        let all = create().join("\n");
        for word in ["BIGINT", " INT ", "BOOLEAN", "DATETIME", " VARCHAR(", "UNSIGNED"] {
            assert!(!all.contains(word), "{word} in {all}");
        }
        assert!(all.contains("CREATE TABLE district (d_w_id NUMBER(10) NOT NULL, d_id NUMBER(10) NOT NULL, d_name VARCHAR2(10)"));
        assert!(all.contains("PRIMARY KEY (d_w_id, d_id))"), "{all}");
        assert!(drop_all().last().unwrap().ends_with(" config"));
    }

    #[test]
    fn every_generated_row_fills_the_columns_of_its_table_in_their_types() {
        let config = Config { warehouses: 1, seed: 1, constants: NuRandConstants::draw(&mut stream(1, 1)) };
        for table in Table::ALL {
            let kinds = kinds(table);
            assert_eq!(
                insert(table).matches(':').count() - 2 * kinds.iter().filter(|kind| **kind == Kind::Time).count(),
                kinds.len()
            );
            let mut rows = Rows { kinds: kinds.clone(), cells: Vec::new(), now_s: 7 };
            // The number of orders of a district: the first ones are delivered.
            RowSource::new(Unit { table, warehouse: 1 }, &config).push(3_000, &mut rows);
            assert!(!rows.cells.is_empty() && rows.cells.len().is_multiple_of(kinds.len()), "{table:?}");
            for (cell, kind) in rows.cells.iter().zip(kinds.iter().cycle()) {
                assert_eq!(matches!(cell, Cell::Text(_)), *kind == Kind::Text, "{table:?} {cell:?}");
            }
        }
        assert!(insert(Table::History).contains(":5, TIMESTAMP '1970-01-01 00:00:00' + NUMTODSINTERVAL(:6, 'SECOND'), :7"));
    }
}
