//! Where the values of a finding were read.

use results::audit::Finding;

use crate::facts::Facts;

/// A place that a value was read from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// A file, with the line if it is known.
    File(String, Option<u32>),
    /// A command, or any other origin that is not a file.
    Command(String),
}

/// Ends of names that are files even without a directory.
const FILE_ENDINGS: [&str; 6] = [".toml", ".conf", ".cnf", ".ora", ".txt", ".sql"];

impl Origin {
    /// Reads an origin: `/etc/fstab:12` is a file with a line, `sysctl -a` is a command.
    pub(super) fn parse(text: &str) -> Self {
        let (name, line) = match text.rsplit_once(':') {
            Some((name, line)) => match line.parse::<u32>() {
                Ok(number) if number > 0 => (name, Some(number)),
                _ => (text, None),
            },
            None => (text, None),
        };
        let is_file = !name.contains(char::is_whitespace)
            && !name.contains("://")
            && (name.contains('/') || FILE_ENDINGS.iter().any(|ending| name.ends_with(ending)));
        if is_file { Self::File(name.to_owned(), line) } else { Self::Command(text.to_owned()) }
    }
}

/// The origins of the values that a finding used, each once, in the order of the values.
pub(super) fn origins(finding: &Finding, facts: Option<&Facts>) -> Vec<Origin> {
    let Some(facts) = facts else { return Vec::new() };
    let mut found = Vec::new();
    for origin in finding.found.iter().filter_map(|line| origin_of_line(line, finding, facts)) {
        let origin = Origin::parse(origin);
        if !found.contains(&origin) {
            found.push(origin);
        }
    }
    found
}

/// The found values, one line for each, with the origin: `postgres.fsync is false
/// (/etc/postgresql.conf:207)`.
pub(super) fn found_with_origins(finding: &Finding, facts: Option<&Facts>) -> Vec<String> {
    let with_origin = |line: &String| match facts.and_then(|facts| origin_of_line(line, finding, facts)) {
        Some(origin) => format!("{line} ({origin})"),
        None => line.clone(),
    };
    finding.found.iter().map(with_origin).collect()
}

/// The origin of the value in a line `NAME is VALUE`.
fn origin_of_line<'a>(line: &str, finding: &Finding, facts: &'a Facts) -> Option<&'a str> {
    let name = line.split_once(" is ").map_or(line, |(name, _)| name);
    let server = finding.server.as_ref().and_then(|name| facts.server(name));
    let others = facts.servers.iter().filter(|_| server.is_some());
    let mut places = server.map(|server| &server.facts).into_iter().chain([facts]).chain(others.map(|other| &other.facts));
    places.find_map(|facts| origin_of(name, finding.thing(), facts))
}

/// The origin of a fact of the host, of an attribute of the judged thing (`mount.rsize`), or of
/// another thing (`lun /vol/a: size`).
fn origin_of<'a>(name: &str, judged: Option<&str>, facts: &'a Facts) -> Option<&'a str> {
    if let Some(fact) = facts.host.get(name) {
        return Some(&fact.origin);
    }
    let (thing, attribute) = match name.rsplit_once(": ") {
        Some(other) => other,
        None => {
            let (kind, attribute) = name.split_once('.')?;
            (judged.filter(|thing| thing.starts_with(kind))?, attribute)
        }
    };
    let (kind, thing) = thing.split_once(' ')?;
    let fact = facts.things.get(kind)?.get(thing)?.get(attribute)?;
    Some(&fact.origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Database, Server, ServerState};
    use crate::report::sample;

    #[test]
    fn a_file_has_a_line_and_a_command_has_none() {
        assert_eq!(Origin::parse("/etc/fstab:12"), Origin::File("/etc/fstab".into(), Some(12)));
        assert_eq!(Origin::parse("/proc/mounts"), Origin::File("/proc/mounts".into(), None));
        assert_eq!(Origin::parse("site.toml:3"), Origin::File("site.toml".into(), Some(3)));
        assert_eq!(Origin::parse("sysctl -a"), Origin::Command("sysctl -a".into()));
        assert_eq!(Origin::parse("/usr/sbin/lsattr -El hdisk0"), Origin::Command("/usr/sbin/lsattr -El hdisk0".into()));
        assert_eq!(Origin::parse("postgresql://db1/mill"), Origin::Command("postgresql://db1/mill".into()));
        assert_eq!(Origin::parse("/etc/fstab:0"), Origin::File("/etc/fstab:0".into(), None));
    }

    #[test]
    fn values_of_the_host_and_of_the_thing_judged_are_traced() {
        let mut facts = Facts::default();
        facts.put("sysctl.vm.swappiness", 60_i64, "sysctl -a");
        facts.put_of("mount", "/redo", "hard", false, "/etc/fstab:4");
        let mut finding = sample::finding("linux-redo-hard", "nfs-mount");
        finding.subject = Some("mount /redo".into());
        finding.found = vec![
            "mount.hard is false".into(),
            "sysctl.vm.swappiness is 60".into(),
            "mount.hard is false".into(),
            "mount.rsize is 32768".into(),
            "lun /vol/a: size is 7".into(),
        ];
        facts.put_of("lun", "/vol/a", "size", 7_i64, "lun show");
        let places = origins(&finding, Some(&facts));
        let commands = ["sysctl -a", "lun show"].map(|command| Origin::Command(command.into()));
        assert_eq!(places[0], Origin::File("/etc/fstab".into(), Some(4)));
        assert_eq!(places[1..], commands);
        assert!(origins(&finding, None).is_empty());
        assert_eq!(found_with_origins(&finding, None), finding.found);
        let lines = found_with_origins(&finding, Some(&facts));
        assert!(lines[0].starts_with(finding.found[0].as_str()) && lines[0].ends_with(')'), "{lines:?}");
    }

    #[test]
    fn a_value_of_a_server_is_traced_among_its_own_facts() {
        let mut facts = Facts::default();
        facts.put("hw.memory_bytes", 1_i64, "/proc/meminfo");
        for (name, file) in [("a", "/a.conf:1"), ("b", "/b.conf:2")] {
            let mut own = Facts::default();
            own.put("postgres.fsync", false, file);
            own.put_of("setting", "postgres fsync", "running", false, file);
            let (database, state) = (Database::Postgres, ServerState::Live);
            facts.put_server(Server { name: name.into(), database, state, config: None, facts: own });
        }
        let mut finding = sample::finding("postgres-fsync-on", "db");
        finding.server = Some("b".into());
        finding.subject = Finding::subject_of(Some("setting postgres fsync"), Some("b"));
        let file = |path: &str, line| Origin::File(path.into(), line);
        finding.found = vec!["postgres.fsync is false".into(), "hw.memory_bytes is 1".into()];
        assert_eq!(origins(&finding, Some(&facts)), [file("/b.conf", Some(2)), file("/proc/meminfo", None)]);
        finding.found = vec!["setting.running is false".into()];
        assert_eq!(origins(&finding, Some(&facts)), [file("/b.conf", Some(2))]);
    }
}
