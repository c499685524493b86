//! Finds changes that are made only if their rule is named, and changes that contradict a chosen
//! one.

use super::planned::Change;
use super::target::Part;

/// Why a change is left out. If it is not, its settings are added to `taken`.
pub(super) fn why_apart(change: &Change, named: bool, taken: &mut Vec<Taken>) -> Option<String> {
    if change.loses_durability && !named {
        return Some("may lose acknowledged data".to_owned());
    }
    if !change.contested.is_empty() && !named {
        return Some(format!("contested: {}", change.contested.join("; ")));
    }
    for part in &change.parts {
        let Some(place) = place(part) else { continue };
        let is_other = |one: &&Taken| one.rule != change.rule || one.server != change.server;
        let other = taken.iter().filter(is_other).find(|one| one.place == place && !agree(&one.part, part));
        match other {
            Some(Taken { rule, server: Some(server), .. }) if *rule == change.rule => {
                return Some(format!("the same rule says otherwise of the same setting for {server}"));
            }
            Some(other) => return Some(format!("{} says otherwise of the same setting, and is worse to leave", other.rule)),
            None => {}
        }
    }
    for part in &change.parts {
        if let Some(place) = place(part) {
            taken.push(Taken { place, part: part.clone(), rule: change.rule.clone(), server: change.server.clone() });
        }
    }
    None
}

/// A setting of a chosen change.
pub(super) struct Taken {
    place: String,
    part: Part,
    rule: String,
    server: Option<String>,
}

/// What a part sets, as a key for finding contradictions.
fn place(part: &Part) -> Option<String> {
    match part {
        Part::File { path, edit } => Some(format!("{path} {}", edit.place())),
        Part::Running { path, .. } => Some(path.clone()),
        Part::Run(run) => {
            let line = run.lines.first()?;
            // A RESET statement has no value after the name.
            let setting = if line.contains(" RESET ") { line } else { line.rsplit_once(['=', ' '])?.0 };
            Some(format!("{}: {setting}", run.place))
        }
        Part::ByHand { .. } => None,
    }
}

fn agree(one: &Part, two: &Part) -> bool {
    match (one, two) {
        (Part::File { edit, .. }, Part::File { edit: other, .. }) => edit.agrees_with(other),
        (Part::Running { value, .. }, Part::Running { value: other, .. }) => value == other,
        (Part::Run(run), Part::Run(other)) => run.lines == other.lines,
        _ => true,
    }
}
