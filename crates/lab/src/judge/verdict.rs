//! The verdict: the sentence at the top of a report.

use results::compare::{Against, PathResult, PathStatus};
use results::judgement::RelativeDifference;
use results::statistics::Difference;

use crate::paths;
use crate::summary::interval_words;

/// The verdict.
pub(super) fn verdict(results: &[PathResult], against: &[Against]) -> String {
    let bad: Vec<&str> =
        results.iter().filter(|path| path.status == PathStatus::NotValid).map(|path| path.arm.as_str()).collect();
    if !bad.is_empty() {
        return format!(
            "Not valid: {} failed a proof of path or a consistency check, so nothing may be concluded.",
            bad.join(" and ")
        );
    }
    let title = |arm: &str| title(results, arm);
    let figure = |name: &str| {
        let path = results.iter().find(|path| path.arm == name);
        path.and_then(|path| path.oets_per_minute.as_ref()).map_or_else(String::new, interval_words)
    };
    let mut sentences: Vec<String> = against
        .iter()
        .map(|line| {
            let (path, first) = (title(&line.path), title(&line.first));
            let uncounted = [&line.path, &line.first]
                .iter()
                .any(|arm| results.iter().any(|result| result.arm == **arm && is_without_filer(result)));
            let without = if uncounted { " without the filer's own CPU" } else { "" };
            let cpu = format!("{:.2} x the CPU per order{without}", line.cpu_ratio);
            let percent = line.oets_ratio * 100.0;
            let interval = line.orders_difference.as_ref().map_or_else(String::new, interval);
            match line.difference {
                Difference::Shown => format!("{path}: {percent:.0} % of the orders per minute of {first}{interval}, {cpu}."),
                Difference::NotShown => {
                    format!("{path}: no difference shown to the orders per minute of {first} at {percent:.0} %{interval}, {cpu}.")
                }
                Difference::Unknown => {
                    format!("{path}: {percent:.0} % of the orders per minute of {first}, {cpu}.")
                }
            }
        })
        .collect();
    let first = results.iter().find(|path| path.oets_per_minute.is_some());
    let unranked: Vec<String> = first.into_iter().flat_map(|first| unranked(results, first)).collect();
    if !sentences.is_empty() {
        sentences.extend(unranked);
        return sentences.join(" ");
    }
    if let Some(path) = first.filter(|_| !unranked.is_empty()) {
        let alone = format!("{} did {} orders per minute.", title(&path.arm), figure(&path.arm));
        return [vec![alone], unranked].concat().join(" ");
    }
    match first {
        Some(path) => format!("{} did {} orders per minute; no other path was measured.", title(&path.arm), figure(&path.arm)),
        None => "No path was measured.".to_owned(),
    }
}

/// Why measured configurations are not compared with the first, each reason once.
fn unranked(results: &[PathResult], first: &PathResult) -> Vec<String> {
    let ran = results.iter().filter(|path| path.oets_per_minute.is_some());
    let mut reasons: Vec<String> = ran.filter_map(|path| Some(format!("{}.", paths::never_ranked(first, path)?))).collect();
    reasons.dedup();
    reasons
}

/// A configuration's name in a sentence: it starts with its path, and the rest distinguishes it from the others.
pub(super) fn title(results: &[PathResult], arm: &str) -> String {
    let result = results.iter().find(|result| result.arm == arm);
    let found = result.and_then(|result| Some((paths::of(result)?, arm.strip_prefix(&result.name)?)));
    // Existing storage has the name that the user gave it.
    if let Some((label, rest)) = result.filter(|result| result.target.is_some()).and_then(|result| {
        let label = result.label.as_deref()?;
        Some((label, arm.strip_prefix(&result.name)?.strip_prefix(':')?.strip_prefix(label)?))
    }) {
        return format!("{label}{rest}");
    }
    let striped = result.and_then(paths::striped).map_or_else(String::new, |words| format!(" ({words})"));
    found.map_or_else(|| arm.to_owned(), |(path, rest)| path.title().to_owned() + rest) + &striped
}

/// Whether a filer served it whose processor time is not included in the figures: a filer on another host, in the kernel, or one
/// whose process could not be found; also one that serves a directory or a device that the user named.
fn is_without_filer(result: &PathResult) -> bool {
    let has_filer = paths::of(result).is_some_and(|path| path.layers().server.is_some());
    let is_found = result.cpu.as_ref().is_none_or(|cpu| cpu.by_owner.contains_key("filer"));
    let is_served_elsewhere = result.runs.iter().any(|run| run.served.as_ref().is_some_and(|served| !served.is_counted));
    is_served_elsewhere || (has_filer && !is_found)
}

/// The interval of the difference as shares of the first configuration's orders.
fn interval(difference: &RelativeDifference) -> String {
    let ends = difference.low_percent.zip(difference.high_percent);
    ends.map_or_else(String::new, |(low, high)| format!(" (95 % interval {:.0} to {:.0} %)", 100.0 + low, 100.0 + high))
}
