//! Decides which groups of option files a server reads.

use super::options::Flavor;

/// The server that reads the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::collect) struct Identity {
    /// MySQL or MariaDB.
    pub(in crate::collect) flavor: Option<Flavor>,
    /// The first two numbers of its version.
    pub(in crate::collect) version: Option<(u32, u32)>,
    /// The value of `--defaults-group-suffix`.
    pub(in crate::collect) suffix: String,
}

/// Whether a server reads a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Membership {
    /// The server reads it.
    Read,
    /// Another program or another version reads it.
    Other,
    /// This depends on a property of the server that is not known.
    Unknown,
}

/// Groups that both servers read. [`MARIADB`]: groups that only MariaDB reads.
const BOTH: &[&str] = &["mysqld", "server"];
const MARIADB: &[&str] = &["mariadb", "mariadbd", "client-server", "galera"];

impl Identity {
    /// Whether the server reads a group. Case and blanks at the end are ignored.
    pub(super) fn reads(&self, group: &str) -> Membership {
        let group = group.trim_end_matches(' ').to_ascii_lowercase();
        let suffix = self.suffix.to_ascii_lowercase();
        let plain = group.strip_suffix(suffix.as_str()).filter(|_| !suffix.is_empty());
        let found = [Some(group.as_str()), plain].into_iter().flatten().map(|group| self.of_plain(group));
        found
            .min_by_key(|membership| match membership {
                Membership::Read => 0,
                Membership::Unknown => 1,
                Membership::Other => 2,
            })
            .unwrap_or(Membership::Other)
    }

    fn of_plain(&self, group: &str) -> Membership {
        let of_mariadb = match self.flavor {
            Some(Flavor::MariaDb) => Membership::Read,
            Some(Flavor::MySql) => Membership::Other,
            None => Membership::Unknown,
        };
        if BOTH.contains(&group) {
            return Membership::Read;
        }
        if MARIADB.contains(&group) {
            return of_mariadb;
        }
        let Some((name, version)) = group.split_once('-') else { return Membership::Other };
        let numbers = version.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse::<u32>().ok()?)));
        let (Some(numbers), true) = (numbers, ["mysqld", "mariadb", "mariadbd"].contains(&name)) else {
            return Membership::Other;
        };
        let is_mysql = numbers.0 < 10 && numbers >= (5, 6);
        match (self.version, self.flavor) {
            _ if name != "mysqld" && of_mariadb == Membership::Other => Membership::Other,
            (Some(version), _) if version != numbers => Membership::Other,
            (Some(_), _) if name == "mysqld" => Membership::Read,
            (Some(_), _) => of_mariadb,
            // No version of MariaDB has such a number: version 10.0 followed 5.5.
            (None, Some(Flavor::MariaDb)) if is_mysql => Membership::Other,
            (None, Some(Flavor::MySql)) if (10..20).contains(&numbers.0) => Membership::Other,
            (None, _) => Membership::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_reads_its_own_groups_and_those_of_its_version() {
        let maria = Identity { flavor: Some(Flavor::MariaDb), version: Some((10, 11)), suffix: String::new() };
        for group in
            ["mysqld", "MYSQLD", "server", "mariadb", "mariadbd", "client-server", "galera", "mariadb-10.11", "mysqld-10.11"]
        {
            assert_eq!(maria.reads(group), Membership::Read, "{group}");
        }
        for group in ["client", "mysqld-5.7", "mariadb-10.6", "mysqld-10", "mysqld1", "mysqld_safe", "mysqldump", " mysqld", "x"]
        {
            assert_eq!(maria.reads(group), Membership::Other, "{group}");
        }
        let mysql = Identity { flavor: Some(Flavor::MySql), version: None, suffix: ".a".to_owned() };
        for (group, wanted) in [
            ("mysqld.a", Membership::Read),
            ("mysqld.b", Membership::Other),
            ("mariadb", Membership::Other),
            ("galera", Membership::Other),
            ("mysqld-8.0", Membership::Unknown),
        ] {
            assert_eq!(mysql.reads(group), wanted, "{group}");
        }
        assert_eq!(Identity::default().reads("galera"), Membership::Unknown);
    }
}
