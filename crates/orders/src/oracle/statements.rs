//! The five transactions as PL/SQL blocks: one round trip each, values bound by name.
//!
//! [`common_sql`] contains the SQL that all of these databases accept. The values that a terminal would show are returned as
//! one line of text each. A block ends its transaction, unless the caller wants it to stop before the end.

use crate::common_sql;

const JOIN: &str = "JOIN";
const COMMIT: &str = "COMMIT;";

/// New-Order with this number of lines: `:n1`, `:i1`, `:s1`, `:q1` and so on are number, item, supplying
/// warehouse and quantity of each.
pub(super) fn new_order(lines: usize, ends: bool) -> String {
    let list = |prefix: &str| {
        let names: Vec<String> = (1..=lines).map(|number| format!(":{prefix}{number}")).collect();
        format!("SYS.ODCINUMBERLIST := SYS.ODCINUMBERLIST({})", names.join(", "))
    };
    let order = (":w", ":d", "v_o");
    let [entered, opened] = common_sql::enter_order(order, ":c", lines, ":all_local");
    format!(
        "DECLARE
    numbers {numbers};
    items {items};
    supplies {supplies};
    quantities {quantities};
    v_o NUMBER; v_taken NUMBER := 0;
BEGIN
    FOR l IN 1 .. items.COUNT LOOP
        {take};
    END LOOP;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w AND d_id = :d
        RETURNING d_next_o_id - 1, d_tax INTO v_o, :district_tax;
    {entered};
    {opened};
    FOR l IN 1 .. items.COUNT LOOP
        {add};
        v_taken := v_taken + SQL%ROWCOUNT;
    END LOOP;
    SELECT w_tax, c_discount, c_last || ' ' || c_credit INTO :warehouse_tax, :discount, :shown
      FROM warehouse, customer WHERE w_id = :w AND c_w_id = :w AND c_d_id = :d AND c_id = :c;
    SELECT COALESCE(SUM(ol_amount), 0),
           LISTAGG(i_name || ' ' || s_quantity || ' ' || i_price || ' ' || ol_amount, ';') WITHIN GROUP (ORDER BY ol_number)
      INTO :amount, :lines
      FROM order_line JOIN item ON i_id = ol_i_id JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id
     WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = v_o;
    :o := v_o; :taken := v_taken;
    {end}
END;",
        numbers = list("n"),
        items = list("i"),
        supplies = list("s"),
        quantities = list("q"),
        take = common_sql::take_stock(":w", "items(l)", "supplies(l)", "quantities(l)"),
        add = common_sql::add_line(order, "numbers(l)", "items(l)", "supplies(l)", "quantities(l)", JOIN),
        end = if ends { "IF v_taken = items.COUNT THEN COMMIT; ELSE ROLLBACK; END IF;" } else { "" },
    )
}

/// Sets `v_c` to the customer of `:c`, a number or a name.
fn choose(by_name: bool, warehouse: &str, district: &str) -> String {
    if by_name { common_sql::choose_by_name("v_c", warehouse, district, ":c") } else { "v_c := :c".to_owned() }
}

pub(super) fn payment(by_name: bool) -> String {
    let choose = choose(by_name, ":cw", ":cd");
    let [district, warehouse] = common_sql::take_in(":w", ":d", ":cents");
    format!(
        "DECLARE
    v_c NUMBER;
BEGIN
    {choose};
    UPDATE customer SET c_balance = c_balance - :cents, c_ytd_payment = c_ytd_payment + :cents,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE WHEN c_credit = 'BC' THEN SUBSTR(c_id || ' ' || c_d_id || ' ' || c_w_id || ' ' || :d || ' ' || :w || ' '
            || TO_CHAR(:cents / 100, 'FM9990.00') || ' ' || c_data, 1, 500) ELSE c_data END
     WHERE c_w_id = :cw AND c_d_id = :cd AND c_id = v_c;
    {district};
    {warehouse};
    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    SELECT v_c, :cd, :cw, :d, :w, CURRENT_TIMESTAMP(6), :cents, w_name || '    ' || d_name
      FROM warehouse, district WHERE w_id = :w AND d_w_id = :w AND d_id = :d;
    SELECT w_name || ' ' || w_street_1 || ' ' || w_street_2 || ' ' || w_city || ' ' || w_state || ' ' || w_zip || ' '
        || d_name || ' ' || d_street_1 || ' ' || d_street_2 || ' ' || d_city || ' ' || d_state || ' ' || d_zip || ' '
        || c_first || ' ' || c_middle || ' ' || c_last || ' ' || c_street_1 || ' ' || c_street_2 || ' ' || c_city || ' '
        || c_state || ' ' || c_zip || ' ' || c_phone || ' ' || c_since || ' ' || c_credit || ' ' || c_credit_lim || ' '
        || c_discount || ' ' || c_balance || ' ' || CASE WHEN c_credit = 'BC' THEN SUBSTR(c_data, 1, 200) END
      INTO :shown FROM warehouse, district, customer
     WHERE w_id = :w AND d_w_id = :w AND d_id = :d AND c_w_id = :cw AND c_d_id = :cd AND c_id = v_c;
    {COMMIT}
END;"
    )
}

pub(super) fn order_status(by_name: bool) -> String {
    let choose = choose(by_name, ":w", ":d");
    format!(
        "DECLARE
    v_c NUMBER; v_o NUMBER;
BEGIN
    {READ_ONLY};
    {choose};
    SELECT MAX(o_id) INTO v_o FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = v_c;
    SELECT c_first || ' ' || c_middle || ' ' || c_last || ' ' || c_balance || ' ' || o_id || ' ' || o_entry_d || ' '
        || o_carrier_id, o_ol_cnt INTO :shown, :promised FROM customer, orders
     WHERE c_w_id = :w AND c_d_id = :d AND c_id = v_c AND o_w_id = :w AND o_d_id = :d AND o_id = v_o;
    SELECT COUNT(*), LISTAGG(ol_i_id || ' ' || ol_supply_w_id || ' ' || ol_quantity || ' ' || ol_amount || ' '
            || ol_delivery_d, ';') WITHIN GROUP (ORDER BY ol_number)
      INTO :found, :lines FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = v_o;
    {COMMIT}
END;"
    )
}

/// Opens a transaction that reads one snapshot.
pub(super) const READ_ONLY: &str = "SET TRANSACTION READ ONLY";

pub(super) fn delivery(ends: bool) -> String {
    let order = (":w", "d", "v_o");
    let [closed, carried, lined] = common_sql::close_order(order, ":carrier");
    let [owed, counted] = common_sql::charge(order, "v_c", "v_due");
    format!(
        "DECLARE
    v_turn NUMBER; v_o NUMBER; v_c NUMBER; v_due NUMBER; v_districts NUMBER := 0;
BEGIN
    {turn};
    FOR d IN 1 .. 10 LOOP
        SELECT MIN(no_o_id) INTO v_o FROM new_order WHERE no_w_id = :w AND no_d_id = d;
        {closed};
        {carried};
        SELECT MIN(o_c_id) INTO v_c FROM orders WHERE o_w_id = :w AND o_d_id = d AND o_id = v_o;
        {lined};
        SELECT SUM(ol_amount) INTO v_due FROM order_line WHERE ol_w_id = :w AND ol_d_id = d AND ol_o_id = v_o;
        {owed};
        {counted};
        v_districts := v_districts + SQL%ROWCOUNT;
    END LOOP;
    :districts := v_districts;
    {end}
END;",
        turn = common_sql::take_turn("v_turn", ":w"),
        end = if ends { COMMIT } else { "" },
    )
}

pub(super) fn stock_level() -> String {
    common_sql::stock_level(":w", ":d", ":threshold", JOIN)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Names of the variables that a text binds.
    fn binds(text: &str) -> BTreeSet<&str> {
        let name = |rest: &'_ str| rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let starts = text.match_indices(':').filter(|(at, _)| !text[at + 1..].starts_with('='));
        starts.map(|(at, _)| &text[at + 1..at + 1 + name(&text[at + 1..])]).collect()
    }

    fn set(names: &str) -> BTreeSet<&str> {
        names.split(' ').collect()
    }

    #[test]
    fn each_block_binds_what_its_terminal_gives_and_takes() {
        let order = "all_local amount c d discount district_tax lines o shown taken w warehouse_tax";
        assert_eq!(binds(&new_order(2, true)), set(&format!("{order} n1 n2 i1 i2 s1 s2 q1 q2")));
        assert_eq!(binds(&payment(true)), set("c cd cents cw d shown w"));
        assert_eq!(binds(&order_status(false)), set("c d found lines promised shown w"));
        assert_eq!(binds(&delivery(true)), set("carrier districts w"));
        assert_eq!(binds(&stock_level()), set("d threshold w"));
    }

    #[test]
    fn blocks_hold_none_of_the_other_databases_words_and_end_their_transactions() {
        for text in [new_order(5, true), payment(false), payment(true), order_status(true), delivery(true)] {
            for word in ["STRAIGHT_JOIN", "LIMIT", "@", "IF(", "CONCAT", "NOW(", " AS named"] {
                assert!(!text.contains(word), "{word} in {text}");
            }
            assert!(text.contains("COMMIT;"), "{text}");
            // Unbalanced parentheses or loops would reveal a missing comma or an unclosed loop.
            assert_eq!(text.matches('(').count(), text.matches(')').count(), "{text}");
            assert_eq!(text.matches(" LOOP\n").count(), text.matches("END LOOP;").count(), "{text}");
        }
        assert!(!new_order(5, false).contains("COMMIT") && !delivery(false).contains("COMMIT"));
    }
}
