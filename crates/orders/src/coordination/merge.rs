//! Merges the records of several drivers into one.
//!
//! Counts are added, percentiles come from merged histograms, rates apply to the common interval:
//! the seconds for which every driver's measurements are known.

use results::histogram::{HistogramError, ResponseSummary, ResponseTimes};
use results::orders_run::{Audit, DeferredDeliveries, Offered, OrdersRun, SeriesSecond, TransactionRecord, Transactions};

/// Merges records of drivers over the same interval; `None` if there are no records.
///
/// The description of the run (database, load model, seed, …) comes from the first record.
/// In the series, counts are added and the longest response is kept; a second has no percentiles.
///
/// # Errors
/// [`HistogramError`] if a histogram cannot be decoded.
pub fn merge(records: &[OrdersRun]) -> Result<Option<OrdersRun>, HistogramError> {
    let Some(first) = records.first() else {
        return Ok(None);
    };
    let measured_s = records.iter().map(|record| record.measured_s).fold(f64::INFINITY, f64::min);
    let transactions = Transactions {
        new_order: transaction(records, |all| &all.new_order)?,
        payment: transaction(records, |all| &all.payment)?,
        order_status: transaction(records, |all| &all.order_status)?,
        delivery: transaction(records, |all| &all.delivery)?,
        stock_level: transaction(records, |all| &all.stock_level)?,
    };
    let orders: u64 = records.iter().map(|record| record.orders).sum();
    let mut driver_cpu = first.driver_cpu;
    for record in &records[1..] {
        driver_cpu.user_s += record.driver_cpu.user_s;
        driver_cpu.sys_s += record.driver_cpu.sys_s;
    }
    Ok(Some(OrdersRun {
        users: records.iter().map(|record| record.users).sum(),
        connections: records.iter().map(|record| record.connections).sum(),
        threads: records.iter().map(|record| record.threads).sum(),
        measured_s,
        orders,
        oets_per_minute: if measured_s > 0.0 { orders as f64 * 60.0 / measured_s } else { 0.0 },
        mix_percent: transactions.mix_percent(),
        audit: audit(records, &transactions),
        transactions,
        offered: offered(records),
        deferred: deferred(records)?,
        connection_losses: records.iter().map(|record| record.connection_losses).sum(),
        unfinished: records.iter().map(|record| record.unfinished).sum(),
        driver_cpu,
        per_second: per_second(records),
        series: series(records),
        ..first.clone()
    }))
}

/// A histogram and its summary; empty if no record has one.
fn histogram<'a>(texts: impl Iterator<Item = &'a str>) -> Result<(ResponseSummary, String), HistogramError> {
    let mut all: Option<ResponseTimes> = None;
    for text in texts.filter(|text| !text.is_empty()) {
        let times = ResponseTimes::from_v2_base64(text)?;
        match &mut all {
            Some(all) => all.merge(&times),
            None => all = Some(times),
        }
    }
    Ok(all.map_or_else(Default::default, |all| (all.summary(), all.to_v2_base64())))
}

fn transaction(
    records: &[OrdersRun],
    of: impl Fn(&Transactions) -> &TransactionRecord,
) -> Result<TransactionRecord, HistogramError> {
    let parts: Vec<&TransactionRecord> = records.iter().map(|record| of(&record.transactions)).collect();
    let sum = |field: fn(&TransactionRecord) -> u64| parts.iter().map(|part| field(part)).sum();
    let (response_us, histogram_v2_base64) = histogram(parts.iter().map(|part| part.histogram_v2_base64.as_str()))?;
    let (service_us, service_histogram_v2_base64) =
        histogram(parts.iter().map(|part| part.service_histogram_v2_base64.as_str()))?;
    Ok(TransactionRecord {
        count: sum(|part| part.count),
        rolled_back: sum(|part| part.rolled_back),
        errors: sum(|part| part.errors),
        retries: sum(|part| part.retries),
        response_us,
        histogram_v2_base64,
        service_us,
        service_histogram_v2_base64,
    })
}

/// Shares of the drawn inputs, weighted by their totals.
fn audit(records: &[OrdersRun], all: &Transactions) -> Audit {
    let mean = |share: fn(&Audit) -> f64, whole: &dyn Fn(&OrdersRun) -> f64| {
        let weight: f64 = records.iter().map(whole).sum();
        let sum: f64 = records.iter().map(|record| share(&record.audit) * whole(record)).sum();
        if weight > 0.0 { sum / weight } else { 0.0 }
    };
    let orders = |record: &OrdersRun| record.transactions.new_order.finished() as f64;
    let payments = |record: &OrdersRun| record.transactions.payment.finished() as f64;
    let statuses = |record: &OrdersRun| record.transactions.order_status.finished() as f64;
    let deliveries = |record: &OrdersRun| {
        record.deferred.as_ref().map_or_else(|| record.transactions.delivery.finished(), |deferred| deferred.completed) as f64
    };
    let new_orders = all.new_order.finished();
    let rolled_back = all.new_order.rolled_back as f64 * 100.0;
    Audit {
        rollback_percent: if new_orders == 0 { 0.0 } else { rolled_back / new_orders as f64 },
        lines_per_order: mean(|audit| audit.lines_per_order, &orders),
        remote_lines_percent: mean(|audit| audit.remote_lines_percent, &|record| orders(record) * record.audit.lines_per_order),
        remote_payments_percent: mean(|audit| audit.remote_payments_percent, &payments),
        by_name_percent: mean(|audit| audit.by_name_percent, &|record| payments(record) + statuses(record)),
        skipped_deliveries_percent: mean(|audit| audit.skipped_deliveries_percent, &deliveries),
    }
}

fn offered(records: &[OrdersRun]) -> Option<Offered> {
    let mut parts = records.iter().filter_map(|record| record.offered.as_ref());
    let mut all = parts.next()?.clone();
    for part in parts {
        all.rate_per_s += part.rate_per_s;
        all.due += part.due;
        all.finished += part.finished;
        all.refused += part.refused;
        all.left += part.left;
        all.queued_max += part.queued_max;
        all.queue_limit += part.queue_limit;
    }
    Some(all)
}

fn deferred(records: &[OrdersRun]) -> Result<Option<DeferredDeliveries>, HistogramError> {
    let parts: Vec<&DeferredDeliveries> = records.iter().filter_map(|record| record.deferred.as_ref()).collect();
    if parts.is_empty() {
        return Ok(None);
    }
    let sum = |field: fn(&DeferredDeliveries) -> u64| parts.iter().map(|part| field(part)).sum::<u64>();
    let completed = sum(|part| part.completed);
    let within: f64 = parts.iter().map(|part| part.within_80_s_percent * part.completed as f64).sum();
    let (completion_us, histogram_v2_base64) = histogram(parts.iter().map(|part| part.histogram_v2_base64.as_str()))?;
    Ok(Some(DeferredDeliveries {
        queued: sum(|part| part.queued),
        completed,
        within_80_s_percent: if completed == 0 { 0.0 } else { within / completed as f64 },
        queued_max: sum(|part| part.queued_max),
        left: sum(|part| part.left),
        completion_us,
        histogram_v2_base64,
    }))
}

/// Sums for each second, up to the length of the shortest record.
fn per_second(records: &[OrdersRun]) -> Vec<u64> {
    let seconds = records.iter().map(|record| record.per_second.len()).min().unwrap_or(0);
    (0..seconds).map(|second| records.iter().filter_map(|record| record.per_second.get(second)).sum()).collect()
}

fn series(records: &[OrdersRun]) -> Vec<SeriesSecond> {
    let [one] = records else {
        let seconds = records.iter().map(|record| record.series.len()).min().unwrap_or(0);
        let together = |second: usize| {
            let parts: Vec<&SeriesSecond> = records.iter().filter_map(|record| record.series.get(second)).collect();
            SeriesSecond {
                second: u32::try_from(second).unwrap_or(u32::MAX),
                orders: parts.iter().map(|part| part.orders).sum(),
                transactions: parts.iter().map(|part| part.transactions).sum(),
                errors: parts.iter().map(|part| part.errors).sum(),
                response_max_us: parts.iter().map(|part| part.response_max_us).max().unwrap_or(0),
                ..SeriesSecond::default()
            }
        };
        return (0..seconds).map(together).collect();
    };
    one.series.clone()
}

#[cfg(test)]
/// A record of `orders` new orders in `seconds` seconds, each answered after `response_us`.
pub(super) fn example_record(users: u32, seconds: u64, orders: u64, response_us: u64) -> OrdersRun {
    let mut times = ResponseTimes::new();
    for _ in 0..orders {
        times.record(response_us);
    }
    let new_order = TransactionRecord {
        count: orders,
        response_us: times.summary(),
        histogram_v2_base64: times.to_v2_base64(),
        ..TransactionRecord::default()
    };
    OrdersRun {
        users,
        measured_s: seconds as f64,
        orders,
        oets_per_minute: orders as f64 * 60.0 / seconds as f64,
        per_second: vec![orders / seconds; seconds as usize],
        transactions: Transactions { new_order, ..Transactions::default() },
        ..OrdersRun::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_values_and_not_means_of_percentiles() {
        let merged = merge(&[example_record(2, 10, 900, 1_000), example_record(3, 10, 100, 50_000)]).unwrap().unwrap();
        assert_eq!((merged.users, merged.orders), (5, 1_000));
        assert!((merged.oets_per_minute - 6_000.0).abs() < 1e-9);
        let response = merged.transactions.new_order.response_us;
        assert!(response.p90 < 1_010 && response.p95 > 49_000, "{response:?}");
        let stored = ResponseTimes::from_v2_base64(&merged.transactions.new_order.histogram_v2_base64).unwrap();
        assert_eq!((stored.count(), stored.summary()), (1_000, response));
        assert_eq!(merged.per_second, vec![100; 10]);
    }

    #[test]
    fn a_second_of_several_drivers_has_sums_and_the_longest_response_and_no_percentiles() {
        let [mut few, mut many] = [example_record(1, 10, 100, 1), example_record(1, 10, 300, 1)];
        let second = |orders, most| SeriesSecond {
            orders,
            response_p50_us: Some(most),
            response_p90_us: Some(most),
            response_max_us: most,
            ..SeriesSecond::default()
        };
        few.series = vec![second(10, 900)];
        many.series = vec![second(30, 700)];
        let merged = merge(&[few, many]).unwrap().unwrap();
        assert_eq!(merged.series, [SeriesSecond { orders: 40, response_max_us: 900, ..SeriesSecond::default() }]);
        let text = serde_json::to_string(&merged.series).unwrap();
        assert!(!text.contains("p50") && !text.contains("p90"), "what is not known is left out: {text}");
        assert_eq!(serde_json::from_str::<Vec<SeriesSecond>>(&text).unwrap(), merged.series);
    }

    #[test]
    fn shares_are_weighted_by_what_they_are_shares_of() {
        let (mut few, mut many) = (example_record(1, 10, 100, 1), example_record(1, 10, 300, 1));
        few.transactions.new_order.rolled_back = 10;
        few.audit.lines_per_order = 8.0;
        many.audit.lines_per_order = 10.0;
        few.audit.remote_lines_percent = 4.0;
        let merged = merge(&[few, many]).unwrap().unwrap();
        assert!((merged.audit.rollback_percent - 1_000.0 / 410.0).abs() < 1e-9);
        assert!((merged.audit.lines_per_order - (110.0 * 8.0 + 300.0 * 10.0) / 410.0).abs() < 1e-9);
        assert!((merged.audit.remote_lines_percent - 4.0 * 880.0 / 3_880.0).abs() < 1e-9);
        assert!((merged.mix_percent.new_order - 100.0).abs() < 1e-9);
    }

    #[test]
    fn one_record_merges_to_itself_and_rubbish_is_an_error() {
        let mut one = example_record(1, 10, 50, 7);
        one.mix_percent.new_order = 100.0;
        assert_eq!(merge(std::slice::from_ref(&one)).unwrap().unwrap(), one);
        assert_eq!(merge(&[]).unwrap(), None);
        one.transactions.payment.histogram_v2_base64 = "***".to_owned();
        assert!(merge(&[one]).is_err());
    }
}
