//! A schema partitioned over several PostgreSQL servers.
//!
//! The server of the DSN is the coordinator: it stores the first share of the warehouses and accesses
//! the others as foreign partitions (postgres_fdw). Every table except `item` starts with its
//! warehouse and is split by it; `item` is on every server. Loading connects to each server directly;
//! runs and checks need only the coordinator's DSN. The foreign part of a transaction runs at
//! REPEATABLE READ, so two transactions that change the same rows cause serialization failures (40001), which the driver
//! repeats and counts. postgres_fdw commits on one server after the other: a crash between them
//! can leave a transaction half committed, which the checks detect.

use std::fmt::Write as _;

use crate::tables::Table;

use super::conninfo::Server;
use super::ddl;
use super::tls::SslMode;

/// Column that determines the share of a row; `None` for the tables that are complete on each server.
pub(super) const fn partition_column(table: Table) -> Option<&'static str> {
    match table {
        Table::Item => None,
        Table::Warehouse => Some("w_id"),
        Table::District => Some("d_w_id"),
        Table::Delivered => Some("dl_w_id"),
        Table::Stock => Some("s_w_id"),
        Table::Customer => Some("c_w_id"),
        Table::History => Some("h_w_id"),
        Table::Orders => Some("o_w_id"),
        Table::NewOrder => Some("no_w_id"),
        Table::OrderLine => Some("ol_w_id"),
    }
}

/// The first warehouse of a share. For the share after the last one: one more than the last warehouse.
fn first_of(share: usize, shares: usize, warehouses: u32) -> u32 {
    let first = u64::from(warehouses) * share as u64 / shares as u64 + 1;
    u32::try_from(first).unwrap_or(u32::MAX)
}

/// The share of a warehouse; 0 is the coordinator's.
pub(super) fn share_of(warehouse: u32, shares: usize, warehouses: u32) -> usize {
    (1..shares).rev().find(|share| first_of(*share, shares, warehouses) <= warehouse).unwrap_or(0)
}

/// The statements that create, instead of plain tables, servers, parents, the coordinator's own partitions and
/// the foreign ones.
pub(super) fn create(nodes: &[Server], warehouses: u32) -> String {
    let mut out = "CREATE EXTENSION IF NOT EXISTS postgres_fdw;\n".to_owned();
    for (number, node) in (1..).zip(nodes) {
        let (server, user) = (options(server_options(node)), options(user_options(node)));
        let _ = write!(
            out,
            "DROP SERVER IF EXISTS {name} CASCADE;
             CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({server});
             CREATE USER MAPPING FOR CURRENT_USER SERVER {name} OPTIONS ({user});\n",
            name = server_name(number)
        );
    }
    let shares = nodes.len() + 1;
    for statement in ddl::TABLES.split_inclusive(';') {
        let table =
            Table::ALL.into_iter().find(|table| statement.trim_start().starts_with(&format!("CREATE TABLE {} (", table.name())));
        let Some((table, column)) = table.and_then(|table| Some((table, partition_column(table)?))) else {
            out.push_str(statement);
            continue;
        };
        let (name, plain) = (table.name(), statement.trim_end_matches(';'));
        let (columns, settings) = plain.split_once("\n    WITH").map_or((plain, ""), |(columns, with)| (columns, with));
        let with = if settings.is_empty() { String::new() } else { format!(" WITH{settings}") };
        let _ = writeln!(out, "{columns} PARTITION BY RANGE ({column});");
        for share in 0..shares {
            let (from, upto) = (first_of(share, shares, warehouses), first_of(share + 1, shares, warehouses));
            let _ = if share == 0 {
                writeln!(out, "CREATE TABLE {name}_0 PARTITION OF {name} FOR VALUES FROM ({from}) TO ({upto}){with};")
            } else {
                writeln!(
                    out,
                    "CREATE FOREIGN TABLE {name}_{share} PARTITION OF {name} FOR VALUES FROM ({from}) TO ({upto}) \
                     SERVER {} OPTIONS (schema_name '{}', table_name '{name}');",
                    server_name(share),
                    crate::database::SCHEMA
                )
            };
        }
    }
    out
}

/// The foreign server's name on the coordinator.
fn server_name(number: usize) -> String {
    format!("millrace_node_{number}")
}

fn server_options(node: &Server) -> Vec<(&'static str, String)> {
    let first = node.endpoints.first();
    let mut options = vec![
        ("host", first.map_or_else(String::new, |one| one.host.clone())),
        ("port", first.map_or(5432, |one| one.port).to_string()),
        ("dbname", node.database().to_owned()),
        // Without it, the planner never looks up rows by key on the other server.
        ("use_remote_estimate", "true".to_owned()),
        ("fetch_size", "10000".to_owned()),
    ];
    // The coordinator connects with the same sslmode as this program, and reads the file of root certificates on its own host.
    if first.is_some_and(|one| !one.is_socket()) && node.tls.mode != SslMode::Prefer {
        options.push(("sslmode", node.tls.mode.name().to_owned()));
        options.extend(node.tls.root_certificate.clone().map(|file| ("sslrootcert", file)));
    }
    options
}

fn user_options(node: &Server) -> Vec<(&'static str, String)> {
    let password = node.endpoints.first().and_then(|one| one.password.clone()).map(|password| ("password", password));
    std::iter::once(("user", node.user().to_owned())).chain(password).collect()
}

fn options(pairs: Vec<(&'static str, String)>) -> String {
    let quoted: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name} '{}'", value.replace('\'', "''"))).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_warehouse_has_one_share_and_every_share_is_used() {
        for (shares, warehouses) in [(1, 1), (2, 2), (2, 7), (3, 6003), (4, 4)] {
            let found: Vec<usize> = (1..=warehouses).map(|warehouse| share_of(warehouse, shares, warehouses)).collect();
            assert!(found.is_sorted() && found.first() == Some(&0) && found.last() == Some(&(shares - 1)), "{found:?}");
            assert_eq!(first_of(shares, shares, warehouses), warehouses + 1);
        }
    }

    #[test]
    fn all_tables_but_the_catalogue_are_split_by_their_warehouse() {
        let node = "host=db2 user=o'brien password=x dbname=mill sslmode=require";
        let text = create(&[super::super::Postgres::parse(node).unwrap().server], 10);
        assert_eq!((text.matches("PARTITION BY RANGE").count(), text.matches("CREATE FOREIGN TABLE").count()), (9, 9));
        assert!(text.contains("user 'o''brien', password 'x'") && text.contains("sslmode 'require'"), "{text}");
        assert!(
            text.contains("CREATE TABLE district_0 PARTITION OF district FOR VALUES FROM (1) TO (6) WITH (fillfactor = 20);")
        );
        assert!(text.contains("CREATE FOREIGN TABLE stock_1 PARTITION OF stock FOR VALUES FROM (6) TO (11) SERVER"), "{text}");
        assert!(text.contains("CREATE TABLE item (\n"), "{text}");
    }
}
