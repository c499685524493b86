//! What rules are asked of: the host, and each database server with the facts of the host and its own.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::{platforms, roles};
use crate::expression::parse;
use crate::facts::{Attributes, Database, Facts, Server, ServerState};
use crate::rules::Loaded;

/// The host or a server, with the facts as it sees them.
pub(super) struct Subject<'a> {
    /// The server; absent for the host.
    pub(super) server: Option<&'a Server>,
    /// Facts as it sees them.
    pub(super) facts: Cow<'a, Facts>,
    /// What these are of.
    pub(super) platforms: BTreeSet<String>,
    /// Roles of the host.
    pub(super) roles: BTreeSet<String>,
}

/// The host and all of its servers.
pub(super) struct Subjects<'a> {
    host: Subject<'a>,
    servers: Vec<Subject<'a>>,
}

impl<'a> Subjects<'a> {
    /// Those that the facts tell of.
    pub(super) fn of(facts: &'a Facts) -> Self {
        let of_server = |server: &'a Server| Subject::new(Some(server), Cow::Owned(facts.seen_by(server)));
        Self { host: Subject::new(None, Cow::Borrowed(facts)), servers: facts.servers.iter().map(of_server).collect() }
    }

    /// What a rule is asked of. One that speaks of several databases, which share the host, is asked of the servers of the one
    /// that most live servers are of, each beside those of the others, and of each server that was not asked itself.
    pub(super) fn of_rule(&self, loaded: &Loaded) -> Vec<&Subject<'a>> {
        let databases = databases(loaded);
        if databases.is_empty() {
            let each = loaded.rule.each.as_deref();
            let with_things = self.servers.iter().filter(|subject| each.is_some_and(|kind| subject.own_things(kind).is_some()));
            return std::iter::once(&self.host).chain(with_things).collect();
        }
        let live = |database: Database| self.servers.iter().filter(|subject| subject.is(database, true)).count();
        // Of equals the last is taken: PostgreSQL before MySQL before Oracle.
        let leading = databases.iter().rev().copied().max_by_key(|database| live(*database));
        let is_asked = |subject: &&Subject<'_>| {
            databases
                .iter()
                .any(|database| subject.is(*database, false) || (Some(*database) == leading && subject.is(*database, true)))
        };
        let asked: Vec<&Subject<'a>> = self.servers.iter().filter(is_asked).collect();
        if asked.is_empty() { vec![&self.host] } else { asked }
    }
}

impl<'a> Subject<'a> {
    fn new(server: Option<&'a Server>, facts: Cow<'a, Facts>) -> Self {
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
        let (platforms, roles) = (owned(platforms(&facts)), owned(roles(&facts)));
        Self { server, facts, platforms, roles }
    }

    /// Whether it is a server of this database that was asked itself, or one that was not.
    fn is(&self, database: Database, live: bool) -> bool {
        self.server.is_some_and(|server| server.database == database && (server.state == ServerState::Live) == live)
    }

    fn own_things(&self, kind: &str) -> Option<&BTreeMap<String, Attributes>> {
        self.server.and_then(|server| server.facts.things.get(kind))
    }

    /// Things of a kind: of a server that has some of its own, these alone.
    pub(super) fn things(&self, kind: &str) -> Option<&BTreeMap<String, Attributes>> {
        self.own_things(kind).or_else(|| self.facts.things.get(kind))
    }
}

/// The databases that a rule speaks of; of a rule for some of them, these alone.
fn databases(loaded: &Loaded) -> Vec<Database> {
    let of_platform = |platform: &String| match platform.as_str() {
        "mariadb" => Some(Database::Mysql),
        other => Database::of_fact(&format!("{other}.")),
    };
    let platforms: BTreeSet<Database> = loaded.rule.platforms.iter().filter_map(of_platform).collect();
    let each = loaded.rule.each.as_deref();
    let names = loaded.test.host_names(each).into_iter().chain(loaded.when.iter().flat_map(|when| when.host_names(each)));
    let mut found: BTreeSet<Database> = names.filter_map(Database::of_fact).collect();
    let values = loaded.rule.fix.iter().flat_map(|fix| &fix.settings).filter_map(|setting| setting.value_of.as_deref());
    for value in values.filter_map(|text| parse(text).ok()) {
        found.extend(value.host_names(each).into_iter().filter_map(Database::of_fact));
    }
    found.into_iter().filter(|database| platforms.is_empty() || platforms.contains(database)).collect()
}
