//! The facts that a check lacks: what they belong to, and what makes them known.

use std::collections::BTreeMap;

use crate::fact_name::plain_name;
use crate::rules::KINDS;

/// Number of facts that are listed for one remedy.
const NAMED: usize = 3;
/// Number of remedies that are listed.
const CURES: usize = 5;

/// A fact that a check lacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// The fact in words: `fsync of PostgreSQL`.
    pub(super) object: String,
    /// Why it is not known; empty if there is no reason.
    pub(super) reason: String,
    /// What makes it known; empty if nothing is known to do so.
    pub(super) cure: String,
}

impl Missing {
    /// Reads a missing fact of a judgement: `NAME`, `NAME: REASON`, or a sentence.
    pub(super) fn of(said: &str) -> Self {
        let (name, reason) = said.split_once(": ").unwrap_or((said, ""));
        if name.contains(' ') {
            return Self { object: said.to_owned(), reason: String::new(), cure: String::new() };
        }
        Self { object: object(name), reason: reason.to_owned(), cure: cure(name, reason) }
    }

    /// The fact with its reason.
    pub(super) fn words(&self) -> String {
        if self.reason.is_empty() { self.object.clone() } else { format!("{}: {}", self.object, self.reason) }
    }
}

/// Prefixes of the settings of a database, with the name of the database.
const DATABASES: [(&str, &str); 3] = [("postgres.", "PostgreSQL"), ("mysql.", "MySQL or MariaDB"), ("oracle.", "Oracle")];

fn object(name: &str) -> String {
    if let Some((setting, database)) = DATABASES.iter().find_map(|(prefix, of)| Some((name.strip_prefix(prefix)?, of))) {
        return format!("{setting} of {database}");
    }
    let spaced = |kind: &str| kind.replace('_', " ");
    match name.split_once('.') {
        Some((kind, attribute)) if KINDS.contains(&kind) => format!("{attribute} of the {}", spaced(kind)),
        None if KINDS.contains(&name) => format!("the list of {}s", spaced(name)),
        Some(("site", _)) => name.to_owned(),
        _ => plain_name(name),
    }
}

fn cure(name: &str, reason: &str) -> String {
    let is_of = |prefix: &str| name.starts_with(prefix);
    let can_be_asked = is_of("postgres.") || is_of("mysql.");
    let is_denied = ["permission denied", "may not", "not permitted"].iter().any(|word| reason.to_lowercase().contains(word));
    let is_absent =
        ["was not collected", "is not in the capture", "left out of what is read"].iter().any(|word| reason.contains(word));
    let command = reason.split_once(": ").map(|(command, _)| command).filter(|command| !command.starts_with('/'));
    match (name, reason) {
        _ if is_of("site.") => "write it into a site file and name the file with --site".to_owned(),
        _ if is_denied && can_be_asked => "run the audit as root, or name the server with --db".to_owned(),
        _ if is_denied => "run the audit as root".to_owned(),
        _ if can_be_asked => "name the server with --db".to_owned(),
        _ if is_of("oracle.") => "put V$PARAMETER into a capture (the end of dist/collect/collect.sh)".to_owned(),
        _ if is_absent => "collect the host again with `millrace collect`".to_owned(),
        _ => command.map(|command| format!("run `{command}` to see why it fails")).unwrap_or_default(),
    }
}

/// One line for each remedy with the facts that it makes known. The facts that most checks lack
/// come first.
pub(super) fn summary<'a>(missing: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    missing.for_each(|said| *times.entry(said).or_default() += 1);
    let mut facts: Vec<(&str, usize)> = times.into_iter().collect();
    facts.sort_by_key(|(said, times)| (std::cmp::Reverse(*times), *said));
    let mut groups: Vec<(String, Vec<Missing>)> = Vec::new();
    for fact in facts.into_iter().map(|(said, _)| Missing::of(said)) {
        match groups.iter_mut().find(|(cure, _)| *cure == fact.cure) {
            Some((_, facts)) => facts.push(fact),
            None => groups.push((fact.cure.clone(), vec![fact])),
        }
    }
    let more = groups.len().saturating_sub(CURES);
    let mut lines: Vec<String> = groups.iter().take(CURES).map(|(cure, facts)| line(cure, facts)).collect();
    if more > 0 {
        lines.push(format!("and facts of {more} more kinds"));
    }
    lines
}

fn line(cure: &str, facts: &[Missing]) -> String {
    let only = if let [only] = facts { Some(only.words()) } else { None };
    let named: Vec<&str> = facts.iter().take(NAMED).map(|fact| fact.object.as_str()).collect();
    let rest = facts.len().saturating_sub(NAMED);
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let facts = only.unwrap_or_else(|| named.join(", ") + &rest);
    if cure.is_empty() { facts } else { format!("{facts}: {cure}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_fact_names_its_object_its_reason_and_what_makes_it_known() {
        for (said, words, cure) in [
            ("mysql.sync_binlog", "sync_binlog of MySQL or MariaDB", "name the server with --db"),
            (
                "postgres.fsync: /data/postgresql.auto.conf: permission denied, and the server reads it",
                "fsync of PostgreSQL: /data/postgresql.auto.conf: permission denied, and the server reads it",
                "run the audit as root, or name the server with --db",
            ),
            (
                "multipath_map: multipath -l: cannot get kernel dm version",
                "the list of multipath maps: multipath -l: cannot get kernel dm version",
                "run `multipath -l` to see why it fails",
            ),
            (
                "multipath_map: multipath -l: couldn't open configuration dir '/etc/multipath/conf.d': Permission denied",
                "the list of multipath maps: multipath -l: couldn't open configuration dir '/etc/multipath/conf.d': Permission denied",
                "run the audit as root",
            ),
            ("mount.proto", "proto of the mount", ""),
            ("site.direct_nfs", "site.direct_nfs", "write it into a site file and name the file with --site"),
            (
                "setting.running is AUTO, which cannot be compared with 1",
                "setting.running is AUTO, which cannot be compared with 1",
                "",
            ),
        ] {
            let missing = Missing::of(said);
            assert_eq!((missing.words().as_str(), missing.cure.as_str()), (words, cure));
        }
    }

    #[test]
    fn the_summary_has_a_line_for_each_cure() {
        let said = ["mysql.a", "mysql.b", "mysql.c", "mysql.d", "mysql.d", "thp.enabled"].map(str::to_owned);
        assert_eq!(
            summary(said.iter()),
            [
                "d of MySQL or MariaDB, a of MySQL or MariaDB, b of MySQL or MariaDB and 1 more: name the server with --db",
                "transparent_hugepage/enabled"
            ]
        );
    }
}
