//! Tables, keys and indexes, and their states: created half loaded, completed, dropped.
//!
//! Money is BIGINT cents, rates are INTEGER ten-thousandths. Keys are added after the rows are
//! loaded: sorting once is cheaper than growing a tree row by row.

use crate::database::{Config, SCHEMA, SCHEMA_VERSION, STEP_PART, Schema, Unfinished};
use crate::error::OrdersError;
use crate::random::NuRandConstants;
use crate::tables::Table;

use super::ddl::{TABLES, lock};
use super::dialect::Dialect;
use super::{Postgres, Session, functions, nodes, sql};

/// Stages of [`STEPS`] that run in transactions.
const KEYS: usize = 1;
const INDEXES: usize = 2;

/// A step after the rows: its name, its statement, and the stage it belongs to.
struct Step {
    stage: usize,
    name: &'static str,
    /// `@` follows the name of a table that may be split over servers.
    text: &'static str,
}

const fn step(stage: usize, name: &'static str, text: &'static str) -> Step {
    Step { stage, name, text }
}

/// The large ones first in each stage. VACUUM comes before the indexes: it freezes and marks the
/// pages once while there is no index to process, so that runs do not have to do that work.
const STEPS: [Step; 22] = [
    step(0, "vacuum order_line", "VACUUM (FREEZE, ANALYZE) order_line@"),
    step(0, "vacuum stock", "VACUUM (FREEZE, ANALYZE) stock@"),
    step(0, "vacuum customer", "VACUUM (FREEZE, ANALYZE) customer@"),
    step(0, "vacuum orders", "VACUUM (FREEZE, ANALYZE) orders@"),
    step(0, "vacuum history", "VACUUM (FREEZE, ANALYZE) history@"),
    step(0, "vacuum new_order", "VACUUM (FREEZE, ANALYZE) new_order@"),
    step(0, "vacuum item", "VACUUM (FREEZE, ANALYZE) item"),
    step(0, "vacuum warehouse", "VACUUM (FREEZE, ANALYZE) warehouse@"),
    step(0, "vacuum district", "VACUUM (FREEZE, ANALYZE) district@"),
    step(0, "vacuum delivered", "VACUUM (FREEZE, ANALYZE) delivered@"),
    step(KEYS, "key of order_line", "ALTER TABLE order_line@ ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)"),
    step(KEYS, "key of stock", "ALTER TABLE stock@ ADD PRIMARY KEY (s_w_id, s_i_id)"),
    step(KEYS, "key of customer", "ALTER TABLE customer@ ADD PRIMARY KEY (c_w_id, c_d_id, c_id)"),
    step(KEYS, "key of orders", "ALTER TABLE orders@ ADD PRIMARY KEY (o_w_id, o_d_id, o_id)"),
    step(KEYS, "key of item", "ALTER TABLE item ADD PRIMARY KEY (i_id)"),
    step(KEYS, "key of new_order", "ALTER TABLE new_order@ ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id)"),
    step(KEYS, "key of warehouse", "ALTER TABLE warehouse@ ADD PRIMARY KEY (w_id)"),
    step(KEYS, "key of district", "ALTER TABLE district@ ADD PRIMARY KEY (d_w_id, d_id)"),
    step(KEYS, "key of delivered", "ALTER TABLE delivered@ ADD PRIMARY KEY (dl_w_id, dl_d_id)"),
    step(INDEXES, "customers by name", "CREATE INDEX customer_by_name ON customer@ (c_w_id, c_d_id, c_last, c_first, c_id)"),
    step(INDEXES, "orders by customer", "CREATE UNIQUE INDEX orders_by_customer ON orders@ (o_w_id, o_d_id, o_c_id, o_id)"),
    step(3, "checkpoint", "CHECKPOINT"),
];

/// How many columns a row of the table has.
pub(super) const fn column_count(table: Table) -> i16 {
    match table {
        Table::Item => 5,
        Table::Warehouse => 9,
        Table::District => 11,
        Table::Delivered | Table::NewOrder => 3,
        Table::Stock => 17,
        Table::Customer => 21,
        Table::History | Table::Orders => 8,
        Table::OrderLine => 10,
    }
}

/// The columns of the generated rows, if the table may have a further one on an engine that needs a key in every table.
pub(super) const fn copied_columns(table: Table) -> &'static str {
    match table {
        Table::History => " (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)",
        _ => "",
    }
}

pub(super) fn finishing_steps() -> Vec<Vec<&'static str>> {
    let stages = STEPS.iter().map(|step| step.stage + 1).max().unwrap_or(0);
    (0..stages).map(|stage| STEPS.iter().filter(|step| step.stage == stage).map(|step| step.name).collect()).collect()
}

/// Runs the `index`-th step, counted over all stages, on one server and notes it there. Skips a step
/// that is already noted. `partition` is `_0` if the tables are partitions.
pub(super) async fn finish(session: &Session, index: usize, partition: &str) -> Result<(), OrdersError> {
    let Some(step) = STEPS.get(index) else {
        let detail = format!("there are {} steps, not {index}", STEPS.len());
        return Err(OrdersError::Answer { what: "finishing the load", detail });
    };
    let noted = format!("SELECT count(*) FROM load_progress WHERE part = {STEP_PART} + {index}");
    let row = session.client.query_one(&noted, &[]).await.map_err(sql(step.name))?;
    if row.try_get::<_, i64>(0).map_err(sql(step.name))? > 0 {
        return Ok(());
    }
    let note = format!("INSERT INTO load_progress VALUES ({STEP_PART} + {index}, 0, 0)");
    let Some(text) = session.dialect.step(&step.text.replace('@', partition)) else {
        return session.execute(step.name, &note).await;
    };
    if session.dialect.transactional_ddl && (step.stage == KEYS || step.stage == INDEXES) {
        // Two statements in one text are one transaction, so an existing index is always noted.
        return session.execute(step.name, &format!("{text}; {note}")).await;
    }
    match session.client.batch_execute(&text).await {
        // CHECKPOINT needs a privilege that the load can do without.
        Err(error)
            if step.text == "CHECKPOINT" && error.code() == Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE) => {}
        outcome => outcome.map_err(sql(step.name))?,
    }
    session.execute(step.name, &note).await
}

/// Creates everything in one transaction if the engine supports that: a refusal or an error leaves the database unchanged.
pub(super) async fn create(postgres: &Postgres, session: &Session, config: &Config) -> Result<(), OrdersError> {
    use crate::database::Database as _;
    const WHAT: &str = "creating the tables";
    let together = session.dialect.transactional_ddl;
    if together {
        session.execute(WHAT, "BEGIN").await?;
    }
    lock(session, WHAT).await?;
    let row = session
        .client
        .query_one(
            "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = $1),
                    (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                      WHERE n.nspname = $1),
                    coalesce(to_regclass($1 || '.config') IS NOT NULL, false)",
            &[&SCHEMA],
        )
        .await
        .map_err(sql(WHAT))?;
    let schemas: i64 = row.try_get(0).map_err(sql(WHAT))?;
    let relations: i64 = row.try_get(1).map_err(sql(WHAT))?;
    let has_config: bool = row.try_get(2).map_err(sql(WHAT))?;
    if relations > 0 {
        let server = postgres.description();
        if has_config && let Err(half @ OrdersError::HalfLoaded { .. }) = postgres.stored_config(session).await {
            return Err(half);
        }
        return Err(OrdersError::SchemaNotEmpty { schema: Schema::Postgres, server, relations });
    }
    if schemas == 0 {
        session.execute(WHAT, &format!("CREATE SCHEMA {SCHEMA}")).await?;
    }
    let plain = tables(session.dialect);
    let texts = if postgres.nodes.is_empty() { plain } else { vec![nodes::create(&postgres.nodes, config.warehouses)] };
    for text in texts {
        session.execute(WHAT, &text).await?;
    }
    let constants = config.constants;
    let insert = format!(
        "INSERT INTO config VALUES ({SCHEMA_VERSION}, false, {}, {}, {}, {}, {}, {}, {})",
        schemas == 0,
        config.warehouses,
        config.seed.cast_signed(),
        constants.last_load,
        constants.last_run,
        constants.customer,
        constants.item,
    );
    session.execute(WHAT, &insert).await?;
    if together { session.execute(WHAT, "COMMIT").await } else { Ok(()) }
}

/// The statements that create the tables on this engine.
fn tables(dialect: &Dialect) -> Vec<String> {
    let create = |text: &str| {
        let name = text.strip_prefix("CREATE TABLE ").and_then(|rest| rest.split(' ').next());
        dialect.table(text, name.and_then(key))
    };
    TABLES.split(';').map(str::trim).filter(|text| !text.is_empty()).map(create).collect()
}

/// Columns of a table's key, which is added after the rows.
fn key(table: &str) -> Option<&'static str> {
    let start = format!("ALTER TABLE {table}");
    STEPS.iter().find_map(|step| {
        let (_, key) = step.text.strip_prefix(&start)?.trim_start_matches('@').strip_prefix(" ADD")?.split_once('(')?;
        key.strip_suffix(')')
    })
}

/// The configuration that a load stored for itself.
pub(super) async fn config_while_loading(session: &Session) -> Result<Config, OrdersError> {
    const WHAT: &str = "reading table config";
    let text = "SELECT warehouses, load_seed, c_last_load, c_last_run, c_id, ol_i_id FROM config";
    let row = session.client.query_one(text, &[]).await.map_err(sql(WHAT))?;
    let number = |column: usize| -> Result<u32, OrdersError> {
        let value: i32 = row.try_get(column).map_err(sql(WHAT))?;
        Ok(value.cast_unsigned())
    };
    let seed: i64 = row.try_get(1).map_err(sql(WHAT))?;
    Ok(Config {
        warehouses: number(0)?,
        seed: seed.cast_unsigned(),
        constants: NuRandConstants { last_load: number(2)?, last_run: number(3)?, customer: number(4)?, item: number(5)? },
    })
}

/// The state of a load that was interrupted.
pub(super) async fn unfinished(session: &Session) -> Result<Unfinished, OrdersError> {
    let mut unfinished = Unfinished::new(config_while_loading(session).await?);
    note_parts(session, &mut unfinished).await?;
    Ok(unfinished)
}

/// Adds the notes of one server.
pub(super) async fn note_parts(session: &Session, unfinished: &mut Unfinished) -> Result<(), OrdersError> {
    const WHAT: &str = "reading how far the load was";
    let text = "SELECT part, warehouse, amount FROM load_progress";
    for row in session.client.query(text, &[]).await.map_err(sql(WHAT))? {
        let (part, warehouse): (i32, i32) = (row.try_get(0).map_err(sql(WHAT))?, row.try_get(1).map_err(sql(WHAT))?);
        let rows: i64 = row.try_get(2).map_err(sql(WHAT))?;
        unfinished.note(part.cast_unsigned(), warehouse.cast_unsigned(), rows.cast_unsigned())?;
    }
    Ok(())
}

/// Marks the schema as loaded and drops the notes of the load.
pub(super) async fn complete(session: &Session) -> Result<u64, OrdersError> {
    const WHAT: &str = "completing the load";
    if session.dialect.transactional_ddl {
        session.execute(WHAT, "UPDATE config SET loaded = true; DROP TABLE load_progress").await?;
    } else {
        // If the load stops between these two statements, the notes stay, which does no harm.
        session.execute(WHAT, "UPDATE config SET loaded = true").await?;
        session.execute(WHAT, "DROP TABLE load_progress").await?;
    }
    bytes(session).await
}

/// Size of the tables and indexes on one server; 0 on an engine that is not a single server.
pub(super) async fn bytes(session: &Session) -> Result<u64, OrdersError> {
    const WHAT: &str = "reading the size of the tables";
    if !session.dialect.single_server {
        return Ok(0);
    }
    let text = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c \
                JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE n.nspname = $1 AND c.relkind = 'r'";
    let row = session.client.query_one(text, &[&SCHEMA]).await.map_err(sql(WHAT))?;
    let bytes: i64 = row.try_get(0).map_err(sql(WHAT))?;
    Ok(bytes.cast_unsigned())
}

/// Drops the schema if the load created it, else the tables in it.
pub(super) async fn drop_all(session: &Session) -> Result<(), OrdersError> {
    const WHAT: &str = "dropping what was made";
    let row = session.client.query_one("SELECT made_schema FROM config", &[]).await.map_err(sql(WHAT))?;
    let made_schema: bool = row.try_get(0).map_err(sql(WHAT))?;
    if made_schema {
        session.execute(WHAT, &format!("DROP SCHEMA {SCHEMA} CASCADE")).await
    } else {
        let tables = "config, load_progress, item, warehouse, district, delivered, stock, customer, history, \
                      orders, new_order, order_line";
        session.execute(WHAT, &format!("DROP TABLE {tables}")).await?;
        functions::drop(session).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialect::POSTGRESQL;
    use super::*;

    #[test]
    fn a_distributed_engine_gets_every_table_with_a_key_that_leads_with_the_warehouse() {
        let engine = Dialect::of("CockroachDB CCL v25.2.0");
        let texts = tables(engine);
        assert_eq!(texts.len(), Table::ALL.len() + 2);
        for table in Table::ALL {
            let start = format!("CREATE TABLE {} (", table.name());
            let text = texts.iter().find(|text| text.starts_with(&start)).unwrap();
            let (_, key) = text.split_once("PRIMARY KEY (").unwrap();
            let leads = nodes::partition_column(table).unwrap_or("i_id");
            assert!(key.split([',', ')']).next() == Some(leads) && key.ends_with("))"), "{text}");
            assert!(!text.contains("fillfactor"), "{text}");
        }
    }

    #[test]
    fn postgresql_gets_the_tables_as_they_are_written() {
        assert_eq!(tables(&POSTGRESQL).join(";\n"), TABLES.trim().trim_end_matches(';'));
    }

    #[test]
    fn steps_are_in_stage_order_so_that_their_index_counts_over_all_stages() {
        assert!(STEPS.is_sorted_by_key(|step| step.stage));
        assert_eq!(finishing_steps().iter().map(Vec::len).sum::<usize>(), STEPS.len());
    }

    #[test]
    fn column_counts_are_those_of_the_tables() {
        for table in Table::ALL {
            let start = format!("CREATE TABLE {} (", table.name());
            let text = TABLES.split_once(&start).unwrap().1.split_once(";").unwrap().0;
            let columns = text.matches(" NOT NULL").count()
                + text.matches("o_carrier_id INTEGER,").count()
                + text.matches("ol_delivery_d TIMESTAMPTZ,").count();
            assert_eq!(columns, usize::try_from(column_count(table)).unwrap(), "{table:?}");
        }
    }
}
