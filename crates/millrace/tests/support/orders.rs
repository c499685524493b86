//! The order-entry load without its clock: the same generated transactions on any database.

use orders::database::{Database, Terminal};
use orders::inputs::Inputs;
use orders::mix::{Kind, Mix, MixRule};
use orders::random::stream;

/// Sends `count` transactions generated from `seed`. Returns the result of each as text.
pub fn carry_out(database: &impl Database, seed: u64, count: u32) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = database.config().await.unwrap();
        database.prepare().await.unwrap();
        let mut terminal = database.terminal().await.unwrap();
        let inputs = Inputs::new(config.warehouses, config.constants, 0);
        let (mut rng, mut mix) = (stream(seed, 0), Mix::new(MixRule::Deck));
        let mut answers = Vec::new();
        for _ in 0..count {
            answers.push(match mix.draw(&mut rng) {
                Kind::NewOrder => format!("{:?}", terminal.new_order(&inputs.new_order(&mut rng)).await.unwrap()),
                Kind::Payment => format!("{:?}", terminal.payment(&inputs.payment(&mut rng)).await.unwrap()),
                Kind::OrderStatus => format!("{:?}", terminal.order_status(&inputs.order_status(&mut rng)).await.unwrap()),
                Kind::Delivery => format!("{:?}", terminal.delivery(&inputs.delivery(&mut rng)).await.unwrap()),
                Kind::StockLevel => format!("{:?}", terminal.stock_level(&inputs.stock_level(&mut rng)).await.unwrap()),
            });
        }
        answers
    })
}

/// Sums over every table, in SQL that every database here supports. Equal rows give equal sums.
pub const SUMS: &str = "SELECT * FROM
    (SELECT SUM(w_ytd) AS a, SUM(w_tax * w_id) AS b FROM warehouse) AS w,
    (SELECT SUM(d_ytd * d_id) AS c, SUM(d_next_o_id * d_id * d_w_id) AS d FROM district) AS d,
    (SELECT SUM(dl_count * dl_d_id) AS e FROM delivered) AS dl,
    (SELECT SUM(s_quantity * s_i_id) AS f, SUM(s_ytd * s_i_id) AS g, SUM(s_order_cnt) AS h, SUM(s_remote_cnt) AS i,
            SUM(CHAR_LENGTH(s_data) * s_i_id) AS j FROM stock) AS s,
    (SELECT SUM(c_balance * c_id) AS k, SUM(c_ytd_payment * c_id) AS l, SUM(c_payment_cnt * c_id) AS m,
            SUM(c_delivery_cnt * c_id) AS n, SUM(CHAR_LENGTH(c_data) * c_id) AS o, SUM(c_discount * c_id) AS p FROM customer) AS c,
    (SELECT COUNT(*) AS q, SUM(h_amount * h_c_id) AS r, SUM(CHAR_LENGTH(h_data) * h_d_id) AS s FROM history) AS h,
    (SELECT COUNT(*) AS t, SUM(o_id * o_c_id) AS u, SUM(o_carrier_id * o_id) AS v, SUM(o_ol_cnt * o_id) AS w,
            SUM(o_all_local) AS x FROM orders) AS o,
    (SELECT SUM(no_o_id * no_d_id) AS y FROM new_order) AS n,
    (SELECT COUNT(*) AS z, SUM(ol_i_id * ol_number) AS aa, SUM(ol_amount * ol_number) AS ab, COUNT(ol_delivery_d) AS ac,
            SUM(ol_supply_w_id * ol_o_id) AS ad, SUM(ol_quantity * ol_i_id) AS ae FROM order_line) AS l";

/// The fields of a result, with any separator.
pub fn fields(said: &str) -> Vec<String> {
    said.trim().split(['|', '\t']).map(str::to_owned).collect()
}
