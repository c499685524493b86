//! Times of block reads, as measured by the database or Millrace's NFS client.

use results::compare::PathResult;
use results::judgement::ReadLatency;

use super::plot::{self, Axis};
use super::rows::{self, Row};
use super::scale::Scale;
use super::section::{Section, Table, arm_cell, facet_heading};
use super::svg::{Svg, both};
use super::view::{Arm, View, read_source};
use super::words::{escape, figure, grouped, micros};

const LEAD: &str = "Time of one block read. A curve shows how the read times of a path are distributed (the time axis is \
    logarithmic, so equal areas are equal numbers of reads); a vertical line is a mean. Where only the database's sums are \
    known, there is a mean and no curve.";

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let mut body = String::new();
    for facet in view.facets() {
        let arms: Vec<&Arm<'_>> = facet.arms.iter().copied().filter(|arm| mean(arm).is_some()).collect();
        if arms.is_empty() {
            continue;
        }
        body += &facet_heading(facet.title);
        if arms.iter().any(|arm| spread(arm).is_some()) {
            body += &both("Distribution of block read times by path", |width| overlay(width, &arms));
            body += &plot::legend(&arms);
        } else {
            let bars: Vec<Row> = arms.iter().filter_map(|arm| bar(view, arm)).collect();
            body += &rows::chart("Mean block read time by path", "microseconds, mean", &bars);
        }
    }
    body += &table(view).html();
    Section::new("reads", "Block read latency", LEAD, body)
}

/// One step of a histogram: from, to (microseconds), share of all reads per doubling of time.
type Step = (f64, f64, f64);

/// The histogram of a configuration, if it has one with values.
fn spread<'a>(arm: &Arm<'a>) -> Option<&'a ReadLatency> {
    let spread = arm.result.read_latency.as_ref()?;
    let sound = spread.counts.len() == spread.bounds_us.len() + 1 && spread.counts.iter().any(|count| *count > 0);
    sound.then_some(spread)
}

fn mean(arm: &Arm<'_>) -> Option<f64> {
    let of_client = spread(arm).and_then(ReadLatency::mean_us);
    arm.result.block_read_us.as_ref().map(|read| read.mean).or(of_client).filter(|mean| *mean > 0.0)
}

fn bar(view: &View<'_>, arm: &Arm<'_>) -> Option<Row> {
    let mean = mean(arm)?;
    let text = micros(mean) + read_source(view.comparison, arm.result);
    let class = format!("fill {}", arm.class());
    Some(Row { label: arm.name.to_owned(), parts: vec![(class, mean, format!("{}: {text}", arm.name))], text, ..Row::default() })
}

/// Steps of a histogram, from the first to the last that contains a read.
fn steps(spread: &ReadLatency) -> Vec<Step> {
    let all = spread.counts.iter().sum::<u64>().max(1) as f64;
    let first = spread.bounds_us.first().copied().unwrap_or(1.0);
    let mut steps = Vec::new();
    let mut from = first / 2.0;
    for (place, count) in spread.counts.iter().enumerate() {
        // The last bucket is open: it is drawn with the width of one doubling.
        let to = spread.bounds_us.get(place).copied().unwrap_or(from * 2.0);
        if to > from && from > 0.0 {
            steps.push((from, to, *count as f64 / all / (to / from).log2()));
            from = to;
        }
    }
    let used = |step: &Step| step.2 > 0.0;
    let (begin, end) = (steps.iter().position(used).unwrap_or(0), steps.iter().rposition(used).map_or(0, |last| last + 1));
    steps.drain(end..);
    steps.drain(..begin);
    steps
}

fn overlay(width: f64, arms: &[&Arm<'_>]) -> Svg {
    let height = if width < 600.0 { 250.0 } else { 300.0 };
    let curves: Vec<(&Arm<'_>, Vec<Step>)> = arms.iter().filter_map(|arm| Some((*arm, steps(spread(arm)?)))).collect();
    let means = arms.iter().filter_map(|arm| mean(arm));
    let (mut least, mut most, mut highest) = (f64::MAX, 0.0f64, 0.0f64);
    for (from, to, share) in curves.iter().flat_map(|(_, steps)| steps) {
        (least, most, highest) = (least.min(*from), most.max(*to), highest.max(*share));
    }
    for mean in means {
        (least, most) = (least.min(mean), most.max(mean));
    }
    let (left, right, bottom, top) = plot::field(width, height);
    let x = Axis { scale: Scale::log(least, most, left, right), name: "time of one block read", words: micros };
    let y = Axis::new(Scale::linear(highest * 100.0, bottom, top), "% of reads per doubling of time");
    let mut svg = plot::paper(width, height, &x, &y);
    for (arm, steps) in &curves {
        let mut points = vec![(x.scale.at(steps.first().map_or(least, |step| step.0)), bottom)];
        for (from, to, share) in steps {
            let level = y.scale.at(share * 100.0);
            points.extend([(x.scale.at(*from), level), (x.scale.at(*to), level)]);
        }
        points.push((points.last().map_or(left, |point| point.0), bottom));
        let class = arm.class();
        svg.polyline(&format!("area {class}"), &points, arm.name);
        svg.polyline(&format!("stroke {class}"), &points, arm.name);
    }
    for (place, arm) in arms.iter().enumerate() {
        let Some(mean) = mean(arm) else { continue };
        let (at, class) = (x.scale.at(mean), arm.class());
        svg.line(&format!("stroke mean {class}"), (at, bottom), (at, top + 6.0));
        svg.mark(&format!("fill {class}"), place, (at, top + 6.0), &format!("{}: mean {}", arm.name, micros(mean)));
    }
    svg
}

/// Latency that the storage itself reports, beside the database's measurement, as plain text; `None` if it was not requested.
pub(crate) fn array_words(result: &PathResult) -> Option<String> {
    let array = result.array_latency.as_ref()?;
    let ours =
        result.block_read_us.as_ref().map_or_else(String::new, |read| format!("{} by the database and ", micros(read.mean)));
    Some(format!("a block read takes {ours}{} by the storage's own figure ({})", micros(array.mean_us), array.source))
}

/// Latency that the storage itself reports, and the result of a paced probe before the runs.
fn besides(arm: &Arm<'_>) -> String {
    let mut words = Vec::new();
    if let Some(array) = &arm.result.array_latency {
        words.push(format!("{}: {}", escape(&array.source), micros(array.mean_us)));
    }
    if let Some(probe) = arm.result.read_probe.as_ref().filter(|probe| probe.reads > 0) {
        let medium = probe.medium_read_us.map_or_else(String::new, |us| format!(", of it the medium {}", micros(us)));
        words.push(format!("paced probe {} ± {}{medium}", micros(probe.read_us), micros(1.96 * probe.error_us)));
    }
    words.join("; ")
}

fn table(view: &View<'_>) -> Table {
    let heads =
        ["path", "mean", "p50", "p90", "p99", "p99.9", "reads timed", "in flight, mean", "<timed by", "<other measurements"];
    let mut table = Table::new("Block reads", &heads);
    for arm in &view.arms {
        let Some(mean) = mean(arm) else { continue };
        let read = arm.result.block_read_us.as_ref();
        let spread = spread(arm);
        let percentile = |share: f64, known: Option<f64>| {
            spread.and_then(|spread| spread.quantile_us(share)).or(known).map_or_else(|| "–".to_owned(), micros)
        };
        let timed_by = match (spread, read) {
            (Some(_), Some(_)) => "mean: database; distribution: client",
            (Some(_), None) => "client",
            _ => "database",
        };
        table.row(&[
            arm_cell(arm),
            micros(mean) + read_source(view.comparison, arm.result),
            percentile(0.5, read.and_then(|read| read.p50)),
            percentile(0.9, None),
            percentile(0.99, read.and_then(|read| read.p99)),
            percentile(0.999, None),
            spread.map_or_else(|| "–".to_owned(), |spread| grouped(spread.count as f64)),
            arm.result.io.as_ref().map_or_else(|| "–".to_owned(), |io| figure(io.in_flight_mean)),
            timed_by.to_owned(),
            besides(arm),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_of_reads_take_equal_areas() {
        let spread = ReadLatency { count: 20, sum_us: 1.0, bounds_us: vec![1.0, 2.0, 8.0, 16.0], counts: vec![0, 10, 10, 0, 0] };
        let steps = steps(&spread);
        assert_eq!(steps.len(), 2);
        let area = |(from, to, share): Step| (to / from).log2() * share;
        assert!((area(steps[0]) - 0.5).abs() < 1e-9 && (area(steps[1]) - 0.5).abs() < 1e-9, "{steps:?}");
    }
}
