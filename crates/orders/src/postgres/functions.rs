//! The five transactions as stored functions: one round trip each.
//!
//! A body is the text of the statement mode ([`statements`]) with variables for its row, so both
//! modes do the same work. New-Order is a procedure, because only a procedure can roll back by
//! itself for the unused item (a raised error would fill the server's log).

use crate::database::SCHEMA;
use crate::error::OrdersError;

use super::{Session, ddl, sql, statements};

const ADDRESS: [&str; 6] = ["varchar", "varchar", "varchar", "varchar", "bpchar", "bpchar"];
const CUSTOMER: [&str; 16] = [
    "int4",
    "varchar",
    "bpchar",
    "varchar",
    "varchar",
    "varchar",
    "varchar",
    "bpchar",
    "bpchar",
    "bpchar",
    "timestamptz",
    "bpchar",
    "int8",
    "int4",
    "int8",
    "text",
];
const ORDER: [&str; 7] = ["int4", "int4", "int4", "int4", "varchar", "bpchar", "timestamptz"];
const LINES: [&str; 6] = ["int4[]", "varchar[]", "int4[]", "bool[]", "int8[]", "int8[]"];
const STATUS: [&str; 14] = [
    "int4",
    "varchar",
    "bpchar",
    "varchar",
    "int8",
    "int4",
    "timestamptz",
    "int4",
    "int4",
    "int4[]",
    "int4[]",
    "int4[]",
    "int8[]",
    "timestamptz[]",
];

/// Parameter types of a transaction in both modes: the first ones for the statement, all of
/// them for the routine.
pub(super) const fn takes(name: &str) -> &'static [&'static str] {
    match name.as_bytes() {
        b"new_order" => &[
            "int4", "int4", "int4", "int4[]", "int4[]", "int4[]", "int4[]", "int4", "int4", "int4[]", "int4[]", "int4[]",
            "int4[]",
        ],
        b"payment_by_id" => &["int4", "int4", "int4", "int4", "int4", "int8"],
        b"payment_by_name" => &["int4", "int4", "int4", "int4", "varchar", "int8"],
        b"order_status_by_name" => &["int4", "int4", "varchar"],
        b"delivery" => &["int4", "int4"],
        // Order-Status by id, Stock-Level.
        _ => &["int4", "int4", "int4"],
    }
}

/// A stored function or procedure.
struct Routine {
    /// `FUNCTION` or `PROCEDURE`.
    what: &'static str,
    name: &'static str,
    /// Types of the columns of its result row, named `a1` and so on.
    gives: Vec<&'static str>,
    body: String,
}

impl Routine {
    fn create(&self) -> String {
        let takes = takes(self.name).iter().map(|kind| format!("IN {kind}"));
        let gives = self.gives.iter().enumerate().map(|(index, kind)| format!("OUT a{} {kind}", index + 1));
        let arguments: Vec<String> = takes.chain(gives).collect();
        format!("CREATE {} {}({}) LANGUAGE plpgsql AS $body${}$body$", self.what, self.name, arguments.join(", "), self.body)
    }
}

/// `a1, a2, …`: the variables for the row of a statement with this many columns.
fn into(columns: usize) -> String {
    let names: Vec<String> = (1..=columns).map(|number| format!("a{number}")).collect();
    format!("INTO STRICT {}", names.join(", "))
}

fn function(name: &'static str, gives: &[&'static str], before: &str, text: &str) -> Routine {
    let body = format!("\n#variable_conflict use_column\nBEGIN\n{before}{text}\n{};\nEND", into(gives.len()));
    Routine { what: "FUNCTION", name, gives: gives.to_vec(), body }
}

/// $1 to $9 as in the statement, $10 to $13 the lines whose (warehouse, item) already occurred, NULL
/// in nearly every order. The last column reports whether the order was committed.
fn new_order() -> Routine {
    let first = statements::new_order();
    let again = ["$4", "$5", "$6", "$7"]
        .into_iter()
        .zip(["$10[line:line]", "$11[line:line]", "$12[line:line]", "$13[line:line]"])
        .fold(statements::new_order_again(), |text, (from, to)| text.replace(from, to))
        .replace("$3", "a1");
    let mut gives = [&ORDER[..], &LINES[..]].concat();
    let body = format!(
        "
#variable_conflict use_column
DECLARE more record;
BEGIN
{first} {};
FOR line IN 1 .. coalesce(cardinality($10), 0) LOOP
    {again} INTO STRICT more;
    a8 := a8 || more.numbers; a9 := a9 || more.names; a10 := a10 || more.quantities;
    a11 := a11 || more.brands; a12 := a12 || more.prices; a13 := a13 || more.amounts;
END LOOP;
a14 := coalesce(cardinality(a13), 0) = $9;
IF NOT a14 THEN ROLLBACK; END IF;
END",
        into(gives.len())
    );
    gives.push("bool");
    Routine { what: "PROCEDURE", name: "new_order", gives, body }
}

fn routines() -> Vec<Routine> {
    let payment = [&ADDRESS[..], &ADDRESS[..], &CUSTOMER[..], &["timestamptz"][..]].concat();
    let turn = format!("{};\n", statements::DELIVERY_TURN.replacen("SELECT", "PERFORM", 1));
    vec![
        new_order(),
        function("payment_by_id", &payment, "", &statements::payment(false)),
        function("payment_by_name", &payment, "", &statements::payment(true)),
        function("order_status_by_id", &STATUS, "", &statements::order_status(false)),
        function("order_status_by_name", &STATUS, "", &statements::order_status(true)),
        function("delivery", &["int8"; 4], &turn, statements::DELIVERY),
        function("stock_level", &["int8"], "", statements::STOCK_LEVEL),
    ]
}

/// The statement that calls a routine; a terminal prepares it.
pub(super) fn call(name: &str) -> Option<String> {
    let routine = routines().into_iter().find(|routine| routine.name == name)?;
    let mut arguments: Vec<String> = (1..=takes(name).len()).map(|number| format!("${number}")).collect();
    Some(if routine.what == "PROCEDURE" {
        arguments.extend(routine.gives.iter().map(|_| "NULL".to_owned()));
        format!("CALL {name}({})", arguments.join(", "))
    } else {
        format!("SELECT * FROM {name}({})", arguments.join(", "))
    })
}

/// Creates the functions that are missing or of another version of this program.
///
/// A function never changes during a transaction: a lock serializes drivers that start at the same
/// time, and functions are replaced only if they differ.
pub(super) async fn ensure(session: &Session) -> Result<(), OrdersError> {
    const WHAT: &str = "making the stored functions";
    const PRESENT: &str = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
                           WHERE n.nspname = $1 AND p.prosrc = ANY($2)";
    let routines = routines();
    let bodies: Vec<&str> = routines.iter().map(|routine| routine.body.as_str()).collect();
    session.execute(WHAT, "BEGIN").await?;
    ddl::lock(session, WHAT).await?;
    let row = session.client.query_one(PRESENT, &[&SCHEMA, &bodies]).await.map_err(sql(WHAT))?;
    let present: i64 = row.try_get(0).map_err(sql(WHAT))?;
    if usize::try_from(present) != Ok(routines.len()) {
        for routine in &routines {
            session.execute(WHAT, &format!("DROP ROUTINE IF EXISTS {}", routine.name)).await?;
            session.execute(WHAT, &routine.create()).await?;
        }
    }
    session.execute(WHAT, "COMMIT").await
}

/// Drops the existing functions.
pub(super) async fn drop(session: &Session) -> Result<(), OrdersError> {
    let names: Vec<&str> = routines().iter().map(|routine| routine.name).collect();
    for name in names {
        session.execute("dropping the stored functions", &format!("DROP ROUTINE IF EXISTS {SCHEMA}.{name}")).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_passes_every_argument_and_leaves_room_for_what_a_procedure_gives() {
        let text = call("new_order").unwrap();
        assert!(text.starts_with("CALL new_order($1, $2, "), "{text}");
        assert_eq!((text.matches('$').count(), text.matches("NULL").count()), (13, 14));
        assert_eq!(call("stock_level").unwrap(), "SELECT * FROM stock_level($1, $2, $3)");
        assert_eq!(call("nothing"), None);
    }

    #[test]
    fn lines_that_occurred_before_name_no_argument_of_the_first_statement() {
        let text = new_order().body;
        let again = text.split_once("LOOP").unwrap().1.split_once("INTO STRICT more").unwrap().0;
        for lost in ["$3", "$4", "$5", "$6", "$7"] {
            assert!(!again.contains(lost), "{lost} in {again}");
        }
        assert!(again.contains("unnest($10[line:line]::int4[], $11[line:line]::int4[]"), "{again}");
    }
}
