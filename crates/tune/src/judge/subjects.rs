//! The subjects of rules: the host, and each database server with the host's facts and its own.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use results::audit::Severity;

use super::platforms_and_roles::{platforms, roles};
use crate::expression::parse;
use crate::facts::{Attributes, Database, Facts, Server, ServerState};
use crate::rule::SettingKind;
use crate::rules::Loaded;

/// The host or a server, with the facts as it sees them.
pub(super) struct Subject<'a> {
    /// The server; `None` for the host.
    pub(super) server: Option<&'a Server>,
    /// The facts as the subject sees them.
    pub(super) facts: Cow<'a, Facts>,
    /// The platforms of these facts.
    pub(super) platforms: BTreeSet<String>,
    /// Roles of the host.
    pub(super) roles: BTreeSet<String>,
    /// Whether it is a server known only by its files while another server was queried.
    pub(super) is_unasked: bool,
}

impl<'a> Subject<'a> {
    /// The server at this place among those of the facts; the host for `None`.
    pub(super) fn of(facts: &'a Facts, place: Option<usize>) -> Self {
        let server = place.and_then(|place| facts.servers.get(place));
        let is_unasked = server.is_some_and(|server| !is_live(server)) && facts.servers.iter().any(is_live);
        let facts = server.map_or(Cow::Borrowed(facts), |server| Cow::Owned(facts.seen_by(server)));
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
        let (platforms, roles) = (owned(platforms(&facts)), owned(roles(&facts)));
        Self { server, facts, platforms, roles, is_unasked }
    }

    /// The things of a kind. If a server has its own, only these.
    pub(super) fn things(&self, kind: &str) -> Option<&BTreeMap<String, Attributes>> {
        let own = self.server.and_then(|server| server.facts.things.get(kind));
        own.or_else(|| self.facts.things.get(kind))
    }
}

/// The subjects of a rule: servers by their places, and `None` for the host.
///
/// A rule about several databases, which share the host, applies to the live servers of the
/// database that has most of them, and each sees the facts of the others. It also applies to each
/// server that was not queried. If a server is live, a stopped server is judged only by critical
/// rules, because it loses no throughput.
pub(super) fn asked(loaded: &Loaded, facts: &Facts) -> Vec<Option<usize>> {
    let is_beside_live = facts.servers.iter().any(is_live);
    let concerns =
        |server: &Server| !is_beside_live || server.state != ServerState::Stopped || loaded.rule.severity == Severity::Critical;
    let places = |keep: &dyn Fn(&Server) -> bool| -> Vec<Option<usize>> {
        let kept = |server: &Server| keep(server) && concerns(server);
        (0..).zip(&facts.servers).filter(|(_, server)| kept(server)).map(|(place, _)| Some(place)).collect()
    };
    let databases = databases(loaded);
    if databases.is_empty() {
        let each = loaded.rule.each.as_deref();
        let mut found = places(&|server| each.is_some_and(|kind| server.facts.things.contains_key(kind)));
        found.push(None);
        return found;
    }
    let live = |database: Database| facts.servers_of(database).filter(|server| is_live(server)).count();
    // If several databases have the same number, PostgreSQL precedes MySQL, and MySQL precedes
    // Oracle.
    let leading = databases.iter().rev().copied().max_by_key(|database| live(*database));
    let found = places(&|server| databases.contains(&server.database) && (!is_live(server) || Some(server.database) == leading));
    // Facts of a server without a name belong to the host.
    let has_servers = databases.iter().any(|database| facts.servers_of(*database).next().is_some());
    if found.is_empty() && !has_servers { vec![None] } else { found }
}

/// Servers to which [`asked`] applies only critical rules: they are stopped while another one is
/// live.
pub(super) fn judged_in_part(facts: &Facts) -> impl Iterator<Item = &Server> {
    let is_beside_live = facts.servers.iter().any(is_live);
    facts.servers.iter().filter(move |server| is_beside_live && server.state == ServerState::Stopped)
}

fn is_live(server: &Server) -> bool {
    server.state == ServerState::Live
}

/// The databases that a rule is about. If the rule names platforms, only those.
fn databases(loaded: &Loaded) -> Vec<Database> {
    let of_platform = |platform: &String| match platform.as_str() {
        "mariadb" => Some(Database::Mysql),
        other => Database::of_fact(&format!("{other}.")),
    };
    let platforms: BTreeSet<Database> = loaded.rule.platforms.iter().filter_map(of_platform).collect();
    let each = loaded.rule.each.as_deref();
    let names = loaded.test.host_names(each).into_iter().chain(loaded.when.iter().flat_map(|when| when.host_names(each)));
    let mut found: BTreeSet<Database> = names.filter_map(Database::of_fact).collect();
    for setting in loaded.rule.fix.iter().flat_map(|fix| &fix.settings) {
        found.extend(match setting.kind {
            SettingKind::Postgres => Some(Database::Postgres),
            SettingKind::Mysql => Some(Database::Mysql),
            SettingKind::Oracle => Some(Database::Oracle),
            _ => None,
        });
        let value = setting.value_of.as_deref().and_then(|text| parse(text).ok());
        found.extend(value.iter().flat_map(|value| value.host_names(each)).filter_map(Database::of_fact));
    }
    found.into_iter().filter(|database| platforms.is_empty() || platforms.contains(database)).collect()
}
