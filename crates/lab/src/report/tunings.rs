//! Settings of the tunings side by side.

use std::collections::{BTreeMap, BTreeSet};

use results::compare::Comparison;

use super::section::{Section, Table};
use super::view::View;
use super::words::escape;

const LEAD: &str = "Every setting that differs between the tunings. What no tuning sets is under full disclosure.";

/// Settings by tuning: `database.work_mem` to its value.
type Knobs<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a str>>;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let knobs = knobs(view.comparison);
    let names = differing(&knobs);
    if names.is_empty() {
        return None;
    }
    let order = order(view, &knobs);
    let mut heads = vec!["setting".to_owned()];
    heads.extend(order.iter().map(|tuning| format!("<{tuning}")));
    let mut table = Table::new("Settings by tuning", &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for name in &names {
        let mut cells = vec![format!("<code>{}</code>", escape(name))];
        cells.extend(order.iter().map(|tuning| {
            let value = knobs.get(tuning).and_then(|set| set.get(name));
            value.map_or_else(|| unset(view.comparison, name), |value| format!("<b>{}</b>", escape(value)))
        }));
        table.row(&cells);
    }
    Section::new("tunings", "What the tunings change", LEAD, table.html())
}

/// Tunings in the order in which they ran, then the others.
fn order<'a>(view: &View<'a>, knobs: &Knobs<'a>) -> Vec<&'a str> {
    let mut order: Vec<&str> = view.tunings.iter().copied().filter(|tuning| knobs.contains_key(tuning)).collect();
    let others: Vec<&str> = knobs.keys().copied().filter(|tuning| !order.contains(tuning)).collect();
    order.extend(others);
    order
}

fn knobs(comparison: &Comparison) -> Knobs<'_> {
    let mut all = Knobs::new();
    for (tuning, knobs) in &comparison.tunings {
        all.insert(tuning, knobs.iter().map(|(knob, value)| (knob.as_str(), value.as_str())).collect());
    }
    all
}

fn differing<'a>(knobs: &Knobs<'a>) -> BTreeSet<&'a str> {
    let all: BTreeSet<&str> = knobs.values().flat_map(BTreeMap::keys).copied().collect();
    let values = |name: &str| knobs.values().map(|set| set.get(name).copied()).collect::<BTreeSet<_>>().len();
    all.into_iter().filter(|name| values(name) > 1).collect()
}

/// Value of a setting that a tuning does not set: the comparison's own setting, else the default.
fn unset(comparison: &Comparison, name: &str) -> String {
    let own = name.strip_prefix("database.").and_then(|setting| comparison.environment.database_settings.get(setting));
    own.map_or_else(|| "<span class=\"faint\">default</span>".to_owned(), |value| escape(value))
}
