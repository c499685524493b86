//! The tables of ARCHITECTURE.md, from which the other checks are made.

use std::collections::BTreeSet;

use crate::tree::{crates, read, report, root};

/// The places in a crate where unsafe code is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnsafeCode {
    /// Nowhere.
    None,
    /// In its one `sys` module, in its tests, and in the `sys` module of a bench.
    InSys,
    /// Everywhere, because a library that is loaded into other programs consists of unsafe code.
    Throughout,
}

/// One row of the table of crates.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// 0 touches nothing outside. `None` for a crate that only tests use, which has no layer.
    pub(crate) layer: Option<u32>,
    pub(crate) depends_on: BTreeSet<String>,
    pub(crate) unsafe_code: UnsafeCode,
}

/// The table of crates. Panics, and names the row, if a row cannot be read.
pub(crate) fn rows() -> Vec<Row> {
    let table = table(&["crate", "layer", "touches", "depends on", "unsafe code", "what it is"]);
    table.iter().map(|cells| row(cells)).collect()
}

/// The row of a crate.
pub(crate) fn row_of(name: &str) -> Option<Row> {
    rows().into_iter().find(|row| row.name == name)
}

/// Third-party crates that only some crates may use: their names and users.
pub(crate) fn kept_apart() -> Vec<(String, BTreeSet<String>)> {
    table(&["third-party crate", "only in"]).iter().map(|cells| (plain(&cells[0]), names(&cells[1]))).collect()
}

fn row(cells: &[String]) -> Row {
    let name = plain(&cells[0]);
    let wrong = |what: &str| -> ! { panic!("ARCHITECTURE.md, crate {name}: cannot read {what:?}") };
    Row {
        layer: match cells[1].as_str() {
            "tests" => None,
            layer => Some(layer.parse().unwrap_or_else(|_| wrong(layer))),
        },
        depends_on: names(&cells[3]),
        unsafe_code: match plain(&cells[4]).as_str() {
            "none" => UnsafeCode::None,
            "in sys" => UnsafeCode::InSys,
            "throughout" => UnsafeCode::Throughout,
            other => wrong(other),
        },
        name,
    }
}

/// Names between commas. `nothing` stands for an empty list.
fn names(cell: &str) -> BTreeSet<String> {
    plain(cell).split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty() && name != "nothing").collect()
}

fn plain(cell: &str) -> String {
    cell.replace('`', "")
}

/// The rows below the header with exactly these columns.
fn table(columns: &[&str]) -> Vec<Vec<String>> {
    let page = read(&root().join("ARCHITECTURE.md"));
    let mut lines = page.lines().map(cells).skip_while(|cells| cells != columns);
    assert!(lines.next().is_some(), "ARCHITECTURE.md has no table with the columns {columns:?}");
    let rows: Vec<_> = lines.skip(1).take_while(|cells| !cells.is_empty()).collect();
    assert!(!rows.is_empty(), "ARCHITECTURE.md: the table with the columns {columns:?} is empty");
    for row in &rows {
        assert_eq!(row.len(), columns.len(), "ARCHITECTURE.md: cells of the row {row:?} under {columns:?}");
    }
    rows
}

fn cells(line: &str) -> Vec<String> {
    let inside = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    inside.map_or_else(Vec::new, |inside| inside.split('|').map(|cell| cell.trim().to_owned()).collect())
}

#[test]
fn the_table_of_crates_is_the_list_of_crates() {
    let built: BTreeSet<String> = crates().into_iter().map(|found| found.name).collect();
    let rows = rows();
    let mut faults = Vec::new();
    for name in &built {
        if !rows.iter().any(|row| row.name == *name) {
            faults.push(format!("ARCHITECTURE.md has no row for {name}"));
        }
    }
    for row in &rows {
        if !built.contains(&row.name) {
            faults.push(format!("ARCHITECTURE.md has a row for {}, which does not exist", row.name));
        }
        for name in &row.depends_on {
            if !rows.iter().any(|other| other.name == *name) {
                faults.push(format!("ARCHITECTURE.md: {} depends on {name}, which has no row", row.name));
            }
        }
    }
    report("a table of crates that is not that of crates/", &faults);
}

#[test]
fn each_crate_depends_on_lower_layers_only() {
    let rows = rows();
    let layer = |name: &str| rows.iter().find(|row| row.name == name).and_then(|row| row.layer);
    let mut faults = Vec::new();
    for row in &rows {
        for name in &row.depends_on {
            if layer(name) >= row.layer || layer(name).is_none() {
                faults.push(format!("{} -> {name}", row.name));
            }
        }
    }
    report("dependencies that do not lead to a lower layer", &faults);
}
