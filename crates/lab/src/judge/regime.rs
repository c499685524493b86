//! The verdict of a further scenario, with a single round or at a fixed load.

use results::compare::{Comparison, PathResult, PathStatus};

use super::verdict::title;
use crate::summary::grouped;

/// A configuration that completed fewer orders than this share of the offered ones did not sustain the rate.
const HELD_SHARE: f64 = 0.97;

/// The verdict of a scenario, from the conclusions of its runs alone. `offered` are orders per minute of a fixed load.
pub(crate) fn verdict(concluded: &Comparison, look: bool, offered: Option<f64>) -> String {
    if !concluded.valid {
        return concluded.verdict.clone();
    }
    let found = offered.map_or_else(|| concluded.verdict.clone(), |offered| fixed_load(&concluded.paths, offered));
    if look {
        return format!("One round, NOT A RESULT: {}, and nothing is claimed.", concluded.not_a_result.join("; "));
    }
    let not_a_result = &concluded.not_a_result;
    let begins = found.starts_with("NOT A RESULT");
    if not_a_result.is_empty() || begins { found } else { format!("NOT A RESULT: {}. {found}", not_a_result.join("; ")) }
}

/// The cost of the same orders per minute with each configuration.
fn fixed_load(paths: &[PathResult], offered: f64) -> String {
    let ran: Vec<&PathResult> = paths.iter().filter(|path| path.status == PathStatus::Measured).collect();
    let mut text = format!("At {} orders per minute on every path:", grouped(offered));
    let Some((first, others)) = ran.split_first() else { return "No path was measured at the fixed load.".to_owned() };
    let name = title(paths, &first.arm);
    for path in others {
        let cpu = ratio(database_ms(path), database_ms(first));
        let (p50, p99) =
            (ratio(response(path, false), response(first, false)), ratio(response(path, true), response(first, true)));
        text += &format!(
            " {} takes {cpu} the database's CPU per order of {name}, {p50} its New-Order median and {p99} its p99;",
            title(paths, &path.arm)
        );
    }
    if others.is_empty() {
        text += &format!(" {name} takes {:.2} ms of the database's CPU per order;", database_ms(first).unwrap_or_default());
    }
    let mut text = format!("{}.", text.trim_end_matches(';'));
    for path in ran {
        let orders = path.oets_per_minute.as_ref().map_or(0.0, |oets| oets.mean);
        if orders < HELD_SHARE * offered {
            text += &format!(" {} did not hold the rate: {} orders per minute.", title(paths, &path.arm), grouped(orders));
        }
    }
    text
}

/// Processor milliseconds of an order on the host of the database.
fn database_ms(path: &PathResult) -> Option<f64> {
    path.cpu.as_ref().map(results::compare::Cpu::database_host_s_per_1000_orders)
}

fn response(path: &PathResult, tail: bool) -> Option<f64> {
    path.response_ms.get("new_order").map(|response| if tail { response.p99 } else { response.p50 })
}

fn ratio(of: Option<f64>, to: Option<f64>) -> String {
    match of.zip(to.filter(|to| *to > 0.0)) {
        Some((of, to)) => format!("{:.2} x", of / to),
        None => "an unknown multiple of".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{SOUND, Shape, comparison};

    #[test]
    fn a_look_claims_nothing_and_says_why() {
        let mut once = comparison(SOUND);
        once.not_a_result = vec!["each path was run once, so there is no interval".into()];
        let text = verdict(&once, true, None);
        assert_eq!(text, "One round, NOT A RESULT: each path was run once, so there is no interval, and nothing is claimed.");
        assert_eq!(verdict(&comparison(SOUND), false, None), comparison(SOUND).verdict);
        let bad = comparison(Shape { failed_checks: 1, ..SOUND });
        assert!(verdict(&bad, true, None).starts_with("Not valid: dnfs"), "{}", verdict(&bad, true, None));
    }

    #[test]
    fn a_fixed_load_says_what_each_path_takes_and_which_did_not_hold_it() {
        let held = verdict(&comparison(SOUND), false, Some(4_000.0));
        assert!(
            held.starts_with("At 4,000 orders per minute on every path: Direct NFS takes 1.50 x the database's CPU"),
            "{held}"
        );
        assert!(
            held.contains(" of local disk, 1.00 x its New-Order median and 1.00 x its p99.") && !held.contains("hold"),
            "{held}"
        );
        let lost = verdict(&comparison(SOUND), false, Some(5_000.0));
        assert!(lost.ends_with("Direct NFS did not hold the rate: 4,000 orders per minute."), "{lost}");
    }
}
