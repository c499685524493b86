//! The series of a history: records that may be compared.

use results::history::{History, HistorySeries, LeftOut, PointBy, SCHEMA};

use super::conditions::Conditions;
use super::entry::Entry;
use super::find::Found;
use super::points::{self, Held};
use crate::error::LabError;

/// Selection of the records to show.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Meaning of a point.
    pub by: PointBy,
    /// Only records that started on this day or later: `2026-11-01`, or a time in the form of the records.
    pub since: Option<String>,
    /// Only this path or configuration.
    pub path: Option<String>,
    /// Only records of this plan, by its name or by the report that it reproduces.
    pub plan: Option<String>,
}

impl Default for Choice {
    /// All records, by commit.
    fn default() -> Self {
        Self { by: PointBy::Commit, since: None, path: None, plan: None }
    }
}

impl Choice {
    /// Refuses an invalid date.
    ///
    /// # Errors
    /// [`LabError::Plan`].
    pub fn check(&self) -> Result<(), LabError> {
        let Some(since) = &self.since else { return Ok(()) };
        let parts: Vec<&str> = since.split('T').next().unwrap_or_default().split('-').collect();
        let number =
            |place: usize, digits: usize| -> Option<u16> { parts.get(place).filter(|part| part.len() == digits)?.parse().ok() };
        let day = number(0, 4).zip(number(1, 2)).zip(number(2, 2));
        let is_day = day.is_some_and(|((year, month), day)| {
            let month = u8::try_from(month).ok().and_then(|month| time::Month::try_from(month).ok());
            let day = u8::try_from(day).ok();
            month.zip(day).is_some_and(|(month, day)| time::Date::from_calendar_date(i32::from(year), month, day).is_ok())
        });
        if parts.len() == 3 && is_day {
            return Ok(());
        }
        Err(LabError::plan(
            format!("show records since \"{since}\": it is not a date"),
            "write it as 2026-11-01 or 2026-11-01T04:00:00Z",
        ))
    }

    fn takes(&self, entry: &Entry) -> bool {
        // All records use the same form of UTC, so the order of the texts is that of the times.
        self.since.as_ref().is_none_or(|since| entry.started_utc.as_str() >= since.as_str())
            && self.plan.as_ref().is_none_or(|plan| entry.plans.iter().any(|name| name.eq_ignore_ascii_case(plan)))
    }
}

/// Sorts the records into series.
///
/// # Errors
/// There are no records, or none was selected.
pub fn history(found: &Found, choice: &Choice) -> Result<History, LabError> {
    choice.check()?;
    let entries: Vec<&Entry> = found.entries.iter().filter(|entry| choice.takes(entry)).collect();
    let mut left_out = found.left_out.clone();
    left_out.extend(entries.iter().flat_map(|entry| {
        let of = |(arm, reason): &(String, String)| LeftOut {
            record: entry.record.clone(),
            reason: format!("{arm} is not valid: {reason}"),
        };
        entry.not_valid.iter().map(of)
    }));
    let mut kept: Vec<(&Conditions, Vec<Held<'_>>)> = Vec::new();
    for entry in &entries {
        for arm in &entry.arms {
            if choice.path.as_ref().is_some_and(|path| arm.path != *path && arm.arm != *path) {
                continue;
            }
            match kept.iter_mut().find(|(conditions, _)| conditions.is_same(&arm.conditions)) {
                Some((_, held)) => held.push((entry, arm)),
                None => kept.push((&arm.conditions, vec![(entry, arm)])),
            }
        }
    }
    if kept.is_empty() {
        return Err(nothing(found, &entries, choice));
    }
    let mut series: Vec<HistorySeries> = Vec::new();
    for (place, (conditions, held)) in kept.iter().enumerate() {
        let path = held.last().map(|(_, arm)| arm.path.clone()).unwrap_or_default();
        let first = kept.iter().take(place).find(|(_, other)| other.last().is_some_and(|(_, arm)| arm.path == path));
        series.push(HistorySeries {
            arm: held.last().map(|(_, arm)| arm.arm.clone()).unwrap_or_default(),
            path,
            conditions: conditions.all(),
            differs: first.map_or_else(Vec::new, |(first, _)| conditions.differs_from(first)),
            points: points::points(&grouped(held, &choice.by)),
        });
    }
    let span = entries.first().zip(entries.last()).map(|(first, last)| (first.started_utc.clone(), last.started_utc.clone()));
    Ok(History {
        schema: SCHEMA,
        kind: "history".to_owned(),
        by: choice.by.clone(),
        records: entries.len(),
        span_utc: span,
        series,
        left_out,
    })
}

/// Groups records of one commit, at the position of the first one. Records without a commit, and all records by date, stay alone.
fn grouped<'a>(held: &[Held<'a>], by: &PointBy) -> Vec<Vec<Held<'a>>> {
    let mut groups: Vec<Vec<Held<'a>>> = Vec::new();
    for (entry, arm) in held {
        let of_commit = |group: &&mut Vec<Held<'a>>| {
            *by == PointBy::Commit && entry.commit.is_some() && group.iter().any(|(other, _)| other.commit == entry.commit)
        };
        match groups.iter_mut().find(of_commit) {
            Some(group) => group.push((entry, arm)),
            None => groups.push(vec![(entry, arm)]),
        }
    }
    groups
}

fn nothing(found: &Found, chosen: &[&Entry], choice: &Choice) -> LabError {
    let asked: Vec<String> = [("--since", &choice.since), ("--path", &choice.path), ("--plan", &choice.plan)]
        .into_iter()
        .filter_map(|(option, value)| value.as_ref().map(|value| format!("{option} {value}")))
        .collect();
    let first = found.left_out.first().map(|left| format!(" ({}: {})", left.record, left.reason)).unwrap_or_default();
    if found.entries.is_empty() {
        let others = match found.left_out.len() {
            0 => String::new(),
            count => format!("; {count} files are not records{first}"),
        };
        let hint = "`millrace compare` makes a record in millrace-results, or in the directory of --out; `millrace history add DIR --db \
                    DSN` puts records into a database";
        return LabError::plan(format!("show a history: it is empty, there is no record of a comparison{others}"), hint);
    }
    let why = if chosen.is_empty() || !asked.is_empty() {
        format!("no record of {} is of {}", found.entries.len(), asked.join(" and "))
    } else {
        format!("no path of {} records is valid", found.entries.len())
    };
    LabError::plan(format!("show a history: {why}"), "leave out a condition, or name a directory with more records")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::seeded::{Level, record};
    use results::compare::Comparison;
    use results::history::HistoryFigure;

    fn found(records: &[Comparison]) -> Found {
        let entries = records.iter().enumerate().map(|(place, record)| Entry::of(record, format!("{place:02}/results.json")));
        Found::of(entries.collect(), Vec::new())
    }

    fn of(records: &[Comparison]) -> History {
        history(&found(records), &Choice::default()).unwrap()
    }

    #[test]
    fn a_step_is_marked_once_where_the_level_changes_and_nowhere_else() {
        let level = |number| Level { factor: if number < 25 { 1.0 } else { 0.9 }, ..Level::default() };
        let records: Vec<Comparison> = (0..50).map(|number| record(number, &level(number))).collect();
        let found = of(&records);
        assert_eq!((found.series.len(), found.records), (2, 50));
        for series in &found.series {
            assert_eq!(series.points.len(), 50);
            let at: Vec<(usize, &HistoryFigure, bool)> = series
                .points
                .iter()
                .enumerate()
                .flat_map(|(place, point)| point.steps.iter().map(move |step| (place, &step.figure, step.better)))
                .collect();
            let orders: Vec<_> = at.iter().filter(|(_, figure, _)| **figure == HistoryFigure::Oets).collect();
            assert_eq!(orders, [&(25, &HistoryFigure::Oets, false)], "{}", series.arm);
        }
    }

    #[test]
    fn twenty_histories_of_fifty_records_without_a_change_have_two_steps_at_most() {
        let steps = (0..20).map(|history| {
            let records: Vec<Comparison> = (0..50).map(|number| record(history * 50 + number, &Level::default())).collect();
            of(&records).series.iter().flat_map(|series| &series.points).map(|point| point.steps.len()).sum::<usize>()
        });
        let steps: Vec<usize> = steps.collect();
        assert!(steps.iter().sum::<usize>() <= 2, "steps of each history: {steps:?}");
    }

    #[test]
    fn two_records_of_a_commit_are_one_point_with_their_spread_and_by_date_two() {
        let mut records: Vec<Comparison> = (0..3).map(|number| record(number, &Level::default())).collect();
        records[2].environment.millrace_commit = records[1].environment.millrace_commit.clone();
        let by_commit = of(&records);
        assert_eq!(by_commit.series[0].points.len(), 2);
        let point = &by_commit.series[0].points[1];
        assert_eq!((point.records.len(), point.oets_of_records.len()), (2, 2));
        assert_eq!(point.oets_per_minute.as_ref().unwrap().runs, 6);
        let by_date = history(&found(&records), &Choice { by: PointBy::Date, ..Choice::default() }).unwrap();
        assert_eq!(by_date.series[0].points.len(), 3);
    }

    #[test]
    fn another_host_or_load_makes_a_series_that_says_what_differs_and_a_new_kernel_a_remark() {
        let mut records: Vec<Comparison> = (0..4).map(|number| record(number, &Level::default())).collect();
        records[1].environment.kernel = "7.1".into();
        records[2].environment.cpu_count = 16;
        records[3].environment.cpu_count = 16;
        records[3].plan.warehouses = 80;
        let found = of(&records);
        assert_eq!(found.series.len(), 6);
        assert_eq!(found.series[0].points[1].changed, ["kernel: 6.1.0 -> 7.1"]);
        assert!(
            found.series[2].differs.len() == 1 && found.series[2].differs[0].starts_with("host: "),
            "{:?}",
            found.series[2].differs
        );
        assert_eq!(found.series[4].differs.len(), 2);
    }

    #[test]
    fn what_was_not_chosen_is_not_shown_and_nothing_at_all_is_an_error() {
        let records: Vec<Comparison> = (0..3).map(|number| record(number, &Level::default())).collect();
        let all = found(&records);
        let choose = |choice: Choice| history(&all, &choice);
        let since = choose(Choice { since: Some(records[1].started_utc[..10].to_owned()), ..Choice::default() }).unwrap();
        assert_eq!(since.records, 2);
        let path = choose(Choice { path: Some("dnfs".into()), ..Choice::default() }).unwrap();
        assert_eq!(path.series.len(), 1);
        assert!(choose(Choice { plan: Some("seeded".into()), ..Choice::default() }).is_ok());
        for choice in [
            Choice { since: Some("yesterday".into()), ..Choice::default() },
            Choice { since: Some("2026-02-30".into()), ..Choice::default() },
            Choice { since: Some("2031-01-01".into()), ..Choice::default() },
            Choice { path: Some("fc".into()), ..Choice::default() },
            Choice { plan: Some("other".into()), ..Choice::default() },
        ] {
            let error = choose(choice).unwrap_err();
            assert!(error.hint().is_some(), "{error}");
        }
        assert!(history(&Found::default(), &Choice::default()).is_err());
        assert_eq!(of(&records[..1]).series[0].points.len(), 1);
    }
}
