//! Running servers as entries of a capture: where their files are, and which settings that rules
//! use their command lines set.

use super::collected::Collected;
use super::database::{mysql, postgres};
use super::running::Running;
use crate::facts::Database;

/// The beginning of the command line of a server's entry. The process ID follows.
const COMMANDS: [(&str, Database); 2] = [("running postgres", Database::Postgres), ("running mysql", Database::Mysql)];

/// The command line and the text of a server's entry.
pub(super) fn written(server: &Running) -> (String, String) {
    let begin = COMMANDS.iter().find(|(_, database)| *database == server.database).map_or("", |(begin, _)| *begin);
    let mut text = format!("uid {}\n", server.uid);
    let mut line = |key: &str, said: &str| text.push_str(&format!("{key} {}\n", said.replace('\n', " ")));
    server.config.iter().for_each(|path| line("config", path));
    server.directory.iter().for_each(|path| line("directory", path));
    if server.database == Database::Postgres {
        let asked = server.options.iter().filter(|(name, said)| postgres::is_typed(name, said));
        asked.for_each(|(name, said)| line("set", &format!("{name}={said}")));
    }
    server.arguments.iter().filter(|word| mysql::is_asked_argument(word)).for_each(|word| line("argument", word));
    (format!("{begin} {}", server.pid), text)
}

/// The servers in the entries of a capture.
pub(super) fn read(collected: &Collected) -> Vec<Running> {
    let of = |(begin, database): &(&str, Database)| {
        let all = collected.outputs(begin).filter_map(|(pid, output)| Some(server(*database, pid.parse().ok()?, &output.text)));
        all.collect::<Vec<Running>>()
    };
    COMMANDS.iter().flat_map(of).collect()
}

/// Why the command line of a server is not known: the capture does not have its entry.
pub(super) fn lost(database: Database, collected: &Collected) -> Option<String> {
    let begin = COMMANDS.iter().find(|(_, of)| *of == database).map_or("", |(begin, _)| *begin);
    let (line, reason) = collected.denied.iter().find(|(line, _)| line.starts_with(begin))?;
    Some(format!("{line}: {reason}"))
}

fn server(database: Database, pid: u32, text: &str) -> Running {
    let mut server = Running::of(database, pid, u32::MAX);
    for (key, said) in text.lines().filter_map(|line| line.split_once(' ')) {
        match key {
            "uid" => server.uid = said.parse().unwrap_or(u32::MAX),
            "config" => server.config = Some(said.to_owned()),
            "directory" => server.directory = Some(said.to_owned()),
            "set" => server.options.extend(said.split_once('=').map(|(name, said)| (name.to_owned(), said.to_owned()))),
            "argument" => server.arguments.push(said.to_owned()),
            _ => {}
        }
    }
    server
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_runs_is_read_back_without_what_no_rule_asks_for() {
        let mut postgres = Running::of(Database::Postgres, 7, 105);
        (postgres.config, postgres.directory) = (Some("/c/x.conf".to_owned()), Some("/d".to_owned()));
        let set = |name: &str, said: &str| (name.to_owned(), said.to_owned());
        postgres.options = vec![set("fsync", "off"), set("primary_conninfo", "password=hunter2")];
        let mut mysql = Running::of(Database::Mysql, 8, 106);
        mysql.arguments =
            ["--defaults-file=/m.cnf", "--skip-innodb-doublewrite", "--wsrep-sst-auth=hunter2"].map(str::to_owned).to_vec();
        let mut collected = Collected::default();
        for server in [&postgres, &mysql] {
            let (line, text) = written(server);
            assert!(!text.contains("hunter2"), "{text}");
            collected.take_command(&line, text.as_bytes(), Some(0));
        }
        postgres.options.pop();
        mysql.arguments.pop();
        assert_eq!(read(&collected), [postgres, mysql]);
    }
}
