//! The five transactions as stored procedures: one round trip each, with the same SQL as the statement mode.

use crate::common_sql;

use super::statements as sql;

/// Characters of one line in the text parameter of New-Order: number, item, supplying warehouse,
/// quantity, each padded with zeros. MySQL has no arrays, and parsing JSON costs more.
const LINE_FIELDS: [usize; 4] = [2, 6, 6, 2];

/// Version of the procedures, part of their names: another version of this program creates its own.
const VERSION: u32 = 1;

/// The name of a procedure in the database.
pub(super) fn name(of: &str) -> String {
    format!("{of}_{VERSION}")
}

/// One line of an order in the format of [`LINE_FIELDS`].
pub(super) fn line_text(number: u32, item: u32, supply: u32, quantity: u32) -> String {
    let [a, b, c, d] = LINE_FIELDS;
    format!("{number:0a$}{item:0b$}{supply:0c$}{quantity:0d$}")
}

/// Names of all procedures.
pub(super) fn names() -> Vec<String> {
    routines().iter().map(|(of, _, _)| name(of)).collect()
}

/// The statements that create the procedures.
pub(super) fn create() -> Vec<String> {
    routines()
        .iter()
        .map(|(of, takes, body)| format!("CREATE PROCEDURE {}({takes}) MODIFIES SQL DATA SQL SECURITY INVOKER\n{body}", name(of)))
        .collect()
}

/// The statements that drop the procedures.
pub(super) fn drop_all() -> Vec<String> {
    names().iter().map(|name| format!("DROP PROCEDURE IF EXISTS {name}")).collect()
}

/// Name, parameters, body.
fn routines() -> Vec<(&'static str, &'static str, String)> {
    let payment = |choose: String| {
        let mut parts = vec![sql::BEGIN.to_owned(), choose];
        parts.extend(sql::pay("p_w", "p_d", "p_cw", "p_cd", "p_cents"));
        parts.push("COMMIT".to_owned());
        block("", &parts)
    };
    let status = |choose: String| {
        let mut parts = sql::BEGIN_READING.map(str::to_owned).to_vec();
        parts.push(choose);
        parts.extend(sql::show_status("p_w", "p_d"));
        parts.push("COMMIT".to_owned());
        block("", &parts)
    };
    vec![
        (
            "new_order",
            "p_w INT, p_d INT, p_c INT, p_count INT, p_all_local INT, p_lines VARCHAR(240) CHARACTER SET ascii",
            new_order(),
        ),
        ("payment_by_id", "p_w INT, p_d INT, p_cw INT, p_cd INT, p_c INT, p_cents BIGINT", payment(sql::choose_by_id("p_c"))),
        (
            "payment_by_name",
            "p_w INT, p_d INT, p_cw INT, p_cd INT, p_name VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, p_cents BIGINT",
            payment(sql::choose_by_name("p_cw", "p_cd", "p_name")),
        ),
        ("order_status_by_id", "p_w INT, p_d INT, p_c INT", status(sql::choose_by_id("p_c"))),
        (
            "order_status_by_name",
            "p_w INT, p_d INT, p_name VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin",
            status(sql::choose_by_name("p_w", "p_d", "p_name")),
        ),
        ("delivery", "p_w INT, p_carrier INT", delivery()),
        (
            "stock_level",
            "p_w INT, p_d INT, p_threshold INT",
            block("", &[common_sql::stock_level("p_w", "p_d", "p_threshold", sql::JOIN)]),
        ),
    ]
}

fn block(declare: &str, parts: &[String]) -> String {
    format!("BEGIN\n{declare}{};\nEND", parts.join(";\n"))
}

fn new_order() -> String {
    let line_chars: usize = LINE_FIELDS.iter().sum();
    let mut from = 1;
    let fields = LINE_FIELDS.map(|chars| {
        let field = format!("CAST(SUBSTR(p_lines, (v_line * {line_chars}) + {from}, {chars}) AS UNSIGNED)");
        from += chars;
        field
    });
    let [number, item, supply, quantity] = fields;
    let each = |text: String| {
        format!(
            "SET v_line = 0;\nWHILE v_line < p_count DO\nSET v_item = {item}, v_supply = {supply}, \
             v_quantity = {quantity};\n{text};\nSET v_line = v_line + 1;\nEND WHILE"
        )
    };
    let mut parts = vec![sql::BEGIN.to_owned(), each(common_sql::take_stock("p_w", "v_item", "v_supply", "v_quantity"))];
    parts.extend(sql::enter_order("p_w", "p_d", "p_c", "p_count", "p_all_local"));
    let add = common_sql::add_line(("p_w", "p_d", sql::ORDER), &number, "v_item", "v_supply", "v_quantity", sql::JOIN);
    parts.push(each(format!("{add};\nSET v_taken = v_taken + ROW_COUNT()")));
    parts.extend(sql::show_order("p_w", "p_d", "p_c"));
    parts.push("IF v_taken = p_count THEN COMMIT; ELSE ROLLBACK; END IF".to_owned());
    parts.push("SELECT v_taken = p_count".to_owned());
    block("DECLARE v_line, v_item, v_supply, v_quantity, v_taken INT DEFAULT 0;\n", &parts)
}

fn delivery() -> String {
    let mut parts = vec![sql::BEGIN.to_owned()];
    parts.extend(sql::take_turn("p_w"));
    let district = sql::deliver("p_w", "v_d", "p_carrier").join(";\n");
    parts.push(format!("WHILE v_d <= 10 DO\n{district};\nSET v_d = v_d + 1;\nEND WHILE"));
    parts.push("COMMIT".to_owned());
    parts.push("SELECT @districts".to_owned());
    block("DECLARE v_d INT DEFAULT 1;\n", &parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{ITEM_UNUSED, LINES_MAX};
    use crate::limits::WAREHOUSES_MAX;

    #[test]
    fn the_largest_line_fits_its_fields_and_the_largest_order_its_parameter() {
        let line = line_text(LINES_MAX, ITEM_UNUSED, WAREHOUSES_MAX, 10);
        assert_eq!(line, "1510000110000010");
        let (_, takes, _) = routines().into_iter().find(|(name, ..)| *name == "new_order").unwrap();
        assert!(takes.contains(&format!("VARCHAR({})", line.len() * LINES_MAX as usize)));
    }
}
