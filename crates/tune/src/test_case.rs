//! Turns the cases of a rule into facts.

use crate::facts::{Facts, Value};
use crate::rule::Case;
use crate::rules::Loaded;

const ORIGIN: &str = "a case of the rule";

/// The facts of a case. Of the kinds of things that the rule uses, only those of the case exist. If
/// the case does not name them, the operating system is the rule's first platform and the role is
/// the rule's first role.
#[must_use]
pub fn facts(loaded: &Loaded, case: &Case) -> Facts {
    let mut facts = Facts::default();
    for (name, value) in &case.facts {
        facts.put(name, value.clone(), ORIGIN);
    }
    if let Some(platform) = loaded.rule.platforms.first()
        && !facts.host.contains_key("os.family")
    {
        facts.put("os.family", platform.as_str(), ORIGIN);
    }
    if let Some(role) = loaded.rule.roles.first()
        && !["site.role", "site.rac"].iter().any(|name| facts.host.contains_key(*name))
    {
        facts.put("site.role", role.as_str(), ORIGIN);
    }
    for (kind, things) in &case.things {
        facts.looked_for(kind);
        for thing in things {
            let Some(Value::Text(name)) = thing.get("name") else { continue };
            facts.things.entry(kind.clone()).or_default().entry(name.clone()).or_default();
            for (attribute, value) in thing.iter().filter(|(attribute, _)| *attribute != "name") {
                facts.put_of(kind, name, attribute, value.clone(), ORIGIN);
            }
        }
    }
    let kinds = loaded.test.kinds().into_iter().chain(loaded.when.iter().flat_map(|when| when.kinds()));
    for kind in kinds.chain(loaded.rule.each.as_deref()) {
        facts.things.entry(kind.to_owned()).or_default();
    }
    facts
}
