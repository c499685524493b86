//! Decides which server reads the option files of a host: by its packages, otherwise by the layout
//! of a distribution.

use super::groups::Identity;
use super::options::Flavor;
use crate::collect::collected::Collected;
use crate::collect::text::{lines, unquoted, words};

/// How it is known which of the two servers reads the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ground {
    /// A list of packages names the server.
    Package,
    /// The files have the layout of the server's package.
    Layout,
    /// It is not known.
    Nothing,
}

/// Prefixes of package names.
const PACKAGES: &[(&str, Flavor)] = &[
    ("mariadb-server", Flavor::MariaDb),
    ("mysql-server", Flavor::MySql),
    ("mysql-community-server", Flavor::MySql),
    ("percona-server-server", Flavor::MySql),
    ("percona-xtradb-cluster-server", Flavor::MySql),
];

/// The version of MariaDB in a release of a distribution.
const RELEASES: &[(&str, &str, (u32, u32))] = &[
    ("debian", "11", (10, 5)),
    ("debian", "12", (10, 11)),
    ("debian", "13", (11, 8)),
    ("ubuntu", "22.04", (10, 6)),
    ("ubuntu", "24.04", (10, 11)),
];

/// The server that reads the files.
pub(super) fn identity(collected: &Collected) -> (Identity, Ground) {
    let mut installed = packages(collected);
    if let Some((flavor, version)) = installed.next() {
        // A host may have packages of both servers, or remains of one.
        let is_same = installed.all(|(other, other_version)| other == flavor && other_version == version);
        if is_same {
            return (Identity { flavor: Some(flavor), version, suffix: String::new() }, Ground::Package);
        }
        return (Identity::default(), Ground::Nothing);
    }
    // Only MySQL writes such a file, and MariaDB cannot use the data directory that contains it.
    if collected.files.keys().chain(collected.denied.keys()).any(|path| path.ends_with("/mysqld-auto.cnf")) {
        return (Identity { flavor: Some(Flavor::MySql), version: None, suffix: String::new() }, Ground::Layout);
    }
    let is_mariadb = |path: &String| path.starts_with("/etc/my") && path.contains("mariadb");
    let is_of_debian = collected.folders.contains_key("/etc/mysql/mariadb.conf.d");
    if collected.files.keys().any(is_mariadb) || is_of_debian {
        // A release of Debian or Ubuntu has one version of MariaDB. Red Hat offers several.
        let is_of_debian = is_of_debian || collected.files.keys().any(|path| path.starts_with("/etc/mysql/") && is_mariadb(path));
        let version = release(collected).filter(|_| is_of_debian);
        return (Identity { flavor: Some(Flavor::MariaDb), version, suffix: String::new() }, Ground::Layout);
    }
    (Identity::default(), Ground::Nothing)
}

fn packages(collected: &Collected) -> impl Iterator<Item = (Flavor, Option<(u32, u32)>)> {
    const LISTS: &[&str] = &["dpkg-query", "dpkg", "installed-debs", "rpm", "sh -c rpm", "installed-rpms"];
    let texts = LISTS.iter().flat_map(|begin| collected.outputs(begin)).map(|(_, output)| output.text.as_str());
    texts.flat_map(lines).filter_map(|(_, line)| package(line))
}

/// The server in a line of a package list: `NAME VERSION`, `ii NAME VERSION …` or
/// `NAME-VERSION-RELEASE.ARCH`.
fn package(line: &str) -> Option<(Flavor, Option<(u32, u32)>)> {
    let mut all = words(line).skip_while(|word| *word == "ii");
    let name = all.next()?.to_ascii_lowercase();
    let (begin, flavor) = PACKAGES.iter().find(|(begin, _)| name.starts_with(begin))?;
    let version = |text: &str| {
        let text = text.split_once(':').map_or(text, |(_, version)| version);
        let mut numbers = text.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    let said = all.next().unwrap_or_default();
    let in_name = name[begin.len()..].trim_start_matches('-');
    Some((*flavor, version(said).or_else(|| version(in_name))))
}

/// The version in the distribution's own package.
fn release(collected: &Collected) -> Option<(u32, u32)> {
    let text = collected.file("/etc/os-release").or_else(|| collected.file("/usr/lib/os-release"))?;
    let of = |key: &str| {
        let found = lines(text).find_map(|(_, line)| line.strip_prefix(key)?.strip_prefix('='));
        found.map(unquoted)
    };
    let (name, version) = (of("ID")?, of("VERSION_ID")?);
    RELEASES.iter().find(|(id, release, _)| *id == name && *release == version).map(|(.., version)| *version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_packages_names_the_server_and_its_version() {
        let (maria, mysql) = (Flavor::MariaDb, Flavor::MySql);
        for (line, wanted) in [
            ("mariadb-server\t1:10.11.19-0+deb12u1", Some((maria, Some((10, 11))))),
            ("ii  mariadb-server-10.5  1:10.5.23-0+deb11u1  amd64  x", Some((maria, Some((10, 5))))),
            ("MariaDB-server-11.4.2-1.el9.x86_64", Some((maria, Some((11, 4))))),
            ("mysql-community-server 8.0.36-1.el9", Some((mysql, Some((8, 0))))),
            ("mysql-server-8.0:amd64 8.0.36-0ubuntu1", Some((mysql, Some((8, 0))))),
            ("mariadb-client 1:10.11.19", None),
        ] {
            assert_eq!(package(line), wanted, "{line}");
        }
    }

    #[test]
    fn packages_decide_over_the_layout_of_a_distribution() {
        let mut collected = Collected::default();
        collected.take_file("/etc/os-release", b"ID=debian\nVERSION_ID=\"12\"\n");
        assert_eq!(identity(&collected).1, Ground::Nothing);
        collected.take_file("/etc/mysql/mariadb.conf.d/50-server.cnf", b"");
        assert_eq!((identity(&collected).0.version, identity(&collected).1), (Some((10, 11)), Ground::Layout));
        let mut red_hat = Collected::default();
        red_hat.take_file("/etc/my.cnf.d/mariadb-server.cnf", b"");
        assert_eq!((identity(&red_hat).0.flavor, identity(&red_hat).0.version), (Some(Flavor::MariaDb), None));
        red_hat.take_file("/var/lib/mysql/mysqld-auto.cnf", b"{}");
        assert_eq!(identity(&red_hat).0.flavor, Some(Flavor::MySql));
        collected.take_command("dpkg-query -W", b"mariadb-server\t1:11.4.2\n", Some(0));
        assert_eq!((identity(&collected).0.version, identity(&collected).1), (Some((11, 4)), Ground::Package));
    }
}
