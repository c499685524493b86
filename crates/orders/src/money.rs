//! Money in whole cents, rates in ten-thousandths; no floating point touches an amount.

/// A rate of 1.0 in ten-thousandths: taxes (0 to 0.2000) and discounts (0 to 0.5000).
pub const RATE_ONE: i64 = 10_000;

/// Total amount of an order (clause 2.4.2.2):
/// `sum(OL_AMOUNT) * (1 - C_DISCOUNT) * (1 + W_TAX + D_TAX)`.
///
/// **Units**: `amounts_cents` in cents, the rates in ten-thousandths; the result in cents, rounded
/// half up. Intermediate values of the largest order (15 lines of 10 pieces at 100.00) stay below 2^51.
#[must_use]
pub const fn order_total_cents(amounts_cents: i64, discount_rate: i64, warehouse_tax_rate: i64, district_tax_rate: i64) -> i64 {
    let scaled = amounts_cents * (RATE_ONE - discount_rate) * (RATE_ONE + warehouse_tax_rate + district_tax_rate);
    let unit = RATE_ONE * RATE_ONE;
    (scaled + unit / 2).div_euclid(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_without_rates_is_the_sum() {
        assert_eq!(order_total_cents(12_345, 0, 0, 0), 12_345);
    }

    #[test]
    fn total_takes_the_discount_off_and_adds_both_taxes() {
        // 100.00 * 0.9 * 1.15 = 103.50
        assert_eq!(order_total_cents(10_000, 1_000, 1_000, 500), 10_350);
        // 0.01 * 0.5 = 0.005 rounds up
        assert_eq!(order_total_cents(1, 5_000, 0, 0), 1);
        // 0.01 * 0.4999... rounds down
        assert_eq!(order_total_cents(1, 5_001, 0, 0), 0);
    }

    #[test]
    fn largest_order_does_not_overflow() {
        let most = 15 * 10 * 10_000;
        assert_eq!(order_total_cents(most, 0, 2_000, 2_000), most * 14 / 10);
    }
}
