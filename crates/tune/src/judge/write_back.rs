//! Notes whether the database servers start writing their pages themselves or leave this to the
//! kernel.

use std::borrow::Cow;

use crate::facts::{Database, Facts, Server, ServerState, Value};

/// The fact that rules about the page cache use.
const NAME: &str = "database.writes_started_early";

/// The facts with this fact, derived from the settings of all servers. It is unknown if no server's
/// settings show it.
pub(super) fn with_write_back(facts: &Facts) -> Cow<'_, Facts> {
    if facts.host.contains_key(NAME) {
        return Cow::Borrowed(facts);
    }
    let of_servers = || facts.servers.iter().filter_map(|server| starts_writes(&server.facts).or_else(|| by_default(server)));
    let told = || of_servers().chain(starts_writes(facts));
    if told().next().is_none() {
        return Cow::Borrowed(facts);
    }
    let mut with = facts.clone();
    // One server that leaves its pages to the kernel is enough to make them accumulate.
    with.put(NAME, told().all(|starts| starts), "settings of the database servers");
    Cow::Owned(with)
}

/// What the settings of one server show. If InnoDB bypasses the page cache, it leaves no pages
/// there.
fn starts_writes(facts: &Facts) -> Option<bool> {
    let of = |name: &str| facts.host.get(name).map(|fact| &fact.value);
    match of("postgres.checkpoint_flush_after") {
        Some(Value::Int(bytes)) => return Some(*bytes > 0),
        Some(_) => return None,
        None => {}
    }
    if let Some(Value::Bool(buffered)) = of("mysql.innodb_data_file_buffering") {
        return Some(!buffered);
    }
    match of("mysql.innodb_flush_method") {
        Some(Value::Text(method)) => Some(method.to_ascii_lowercase().starts_with("o_direct")),
        _ => None,
    }
}

/// On Linux, PostgreSQL starts the writing by default. A file that does not set it means the
/// default.
fn by_default(server: &Server) -> Option<bool> {
    (server.database == Database::Postgres && server.state != ServerState::Live).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(settings: &[(&str, Value)]) -> Facts {
        let mut facts = Facts::default();
        for (name, value) in settings {
            let mut own = Facts::default();
            own.put(name, value.clone(), "a test");
            let (database, state) = (Database::of_fact(name).unwrap(), ServerState::Live);
            facts.put_server(Server { name: (*name).to_owned(), database, state, config: None, facts: own });
        }
        facts
    }

    #[test]
    fn one_server_that_leaves_its_writes_to_the_kernel_is_enough() {
        let early = ("postgres.checkpoint_flush_after", Value::Int(262_144));
        let direct = ("mysql.innodb_flush_method", Value::from("O_DIRECT"));
        let told = |settings: &[(&str, Value)]| with_write_back(&servers(settings)).value(NAME).cloned();
        assert_eq!(told(&[early.clone(), direct]), Some(true.into()));
        assert_eq!(told(&[early, ("mysql.innodb_flush_method", Value::from("fsync"))]), Some(false.into()));
        assert_eq!(told(&[("postgres.checkpoint_flush_after", Value::Int(0))]), Some(false.into()));
        let port = servers(&[("postgres.port", Value::Int(5432))]);
        assert_eq!(with_write_back(&port).value(NAME), None);
        let mut from_files = port;
        from_files.servers[0].state = ServerState::FromFiles;
        assert_eq!(with_write_back(&from_files).value(NAME), Some(&true.into()));
    }
}
