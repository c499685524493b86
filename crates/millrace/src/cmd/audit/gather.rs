//! Reads facts from this host or a capture, from a site file, and from databases by their DSN.

use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use orders::settings::{Engine, Settings, settings};
use tune::collect::{self, Answer, Database, LiveOptions, Row, data_directory, is_local};
use tune::facts::{Facts, Value};

use super::direct_nfs;
use crate::error_printing::{hinted, refusal};

/// Largest site file: some lines for each mount of a large host.
const SITE_BYTES_MAX: u64 = 1 << 20;

/// What the user gave to be looked at.
#[derive(clap::Args)]
pub(crate) struct Given {
    /// A capture: a directory, .tar or .tar.gz [default: this host]
    #[arg(long, value_name = "DIR|TAR")]
    pub(crate) facts: Option<PathBuf>,
    /// Site file: facts that no program can read, such as the host's role
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,
    /// A database, repeatable: a libpq URL, key=value list or database name, completed from PGHOST, PGSSLMODE, PGSERVICE, .pgpass
    /// as psql does; or mysql://USER@HOST:PORT/ (?socket=PATH)
    #[arg(long, value_name = "DSN")]
    pub(crate) db: Vec<String>,
}

/// Facts and their origin.
pub(crate) struct Gathered {
    pub(crate) facts: Facts,
    /// Name of the host.
    pub(crate) host: String,
    /// Its operating system in words.
    pub(crate) system: String,
    /// When the facts were taken.
    pub(crate) taken: String,
    /// `live`, or the capture's path.
    pub(crate) from: String,
}

/// Reads all facts that the options name.
pub(crate) fn gather(given: &Given) -> anyhow::Result<Gathered> {
    gather_below(given, None)
}

/// Like [`gather`], but reads the files below `root` in place of this host's. It then runs no
/// command, because commands describe only this host.
pub(crate) fn gather_below(given: &Given, root: Option<&Path>) -> anyhow::Result<Gathered> {
    // The site file is read first, so a mistake in it is reported before the host is read.
    let site = given.site.as_deref().map(site_text).transpose()?;
    // A server that cannot be reached ends the audit at once.
    let databases = databases(&given.db)?;
    let mut gathered = match &given.facts {
        Some(capture) => of_capture(capture)?,
        None => of_this_host(root, given.db.is_empty()),
    };
    databases.iter().for_each(|asked| note(asked, &mut gathered.facts));
    if given.facts.is_none() && !given.db.is_empty() {
        collect::follow_links(root.unwrap_or(Path::new("/")), &mut gathered.facts);
    }
    // The site file is applied last: its facts override measured ones.
    if let Some(text) = site {
        collect::site(&text, &mut gathered.facts);
        check_site(given, &gathered.facts)?;
    }
    gathered.system = system_words(&gathered.facts, &gathered.system);
    Ok(gathered)
}

fn site_text(file: &Path) -> anyhow::Result<String> {
    let unread = |error: std::io::Error| {
        let what = anyhow::Error::new(error).context(format!("read {}", file.display()));
        hinted(what, "name the site file with --site FILE")
    };
    let bytes = std::fs::metadata(file).map_err(unread)?.len();
    if bytes > SITE_BYTES_MAX {
        return Err(refusal(
            format!("use {}: it is too large for a site file", file.display()),
            "a site file has some lines for each mount",
        ));
    }
    std::fs::read_to_string(file).map_err(unread)
}

/// Fails if the site file that the user named is malformed. A malformed site file in a capture
/// leads only to a remark.
fn check_site(given: &Given, facts: &Facts) -> anyhow::Result<()> {
    let Some(reason) = facts.unknown.get("site.") else { return Ok(()) };
    let remark = facts.remarks.iter().find(|remark| remark.contains("site file")).unwrap_or(reason);
    let file = given.site.as_deref().unwrap_or(Path::new("site.toml")).display();
    Err(refusal(
        format!("use {file}: {remark}"),
        "for example: [site] rac = true; [mount.\"/redo\"] role = \"redo\"; role = [\"single-instance\"]",
    ))
}

fn of_capture(path: &Path) -> anyhow::Result<Gathered> {
    let (facts, info) = collect::capture(path).map_err(|error| {
        hinted(
            anyhow::Error::new(error).context(format!("use the capture {}", path.display())),
            "name a directory or an archive that millrace collect, dist/collect/collect.sh or sos report wrote",
        )
    })?;
    let or = |text: String, otherwise: &str| if text.trim().is_empty() { otherwise.to_owned() } else { text };
    Ok(Gathered {
        facts,
        host: or(info.host, "a host without a name"),
        system: info.system,
        taken: or(info.time, "a time that is not known"),
        from: path.display().to_string(),
    })
}

/// Reads the facts of this host, or of the tree `root`. `running` includes the database servers
/// that run on this host; it is set if the user named no database.
fn of_this_host(root: Option<&Path>, running: bool) -> Gathered {
    let options = root.filter(|root| *root != Path::new("/")).map(LiveOptions::below);
    let here = || LiveOptions { running_servers: running, fetched: direct_nfs::counters(), ..LiveOptions::default() };
    let options = options.unwrap_or_else(here);
    let facts = collect::live(&options);
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    Gathered {
        facts,
        host: if name.is_empty() { "this host".to_owned() } else { name.to_owned() },
        system: String::new(),
        taken: lab::clock::utc_now(),
        from: "live".to_owned(),
    }
}

/// `linux 6.1.0, debian 12`, from the facts, or else from the capture.
fn system_words(facts: &Facts, otherwise: &str) -> String {
    let text = |name: &str| match facts.host.get(name).map(|fact| &fact.value) {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Int(number)) => number.to_string(),
        _ => String::new(),
    };
    let pair = |name: &str, version: &str| format!("{} {}", text(name), text(version)).trim().to_owned();
    let parts = [pair("os.family", "os.release"), pair("os.distribution", "os.distribution_version")];
    let words: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    match (words.is_empty(), otherwise.is_empty()) {
        (false, _) => words.join(", "),
        (true, false) => otherwise.to_owned(),
        (true, true) => "a system that is not known".to_owned(),
    }
}

/// The largest difference in seconds between the start time in postmaster.pid and the one that the
/// server reports. The server sets up its memory between the two.
const START_S_MAX: u64 = 10;

/// Whether this host has the data directory of a server. For PostgreSQL it also compares start
/// times: a server in a container or beyond a tunnel may have the same path as another server here.
/// A directory that this user may not read counts as the server's own.
fn has_data_here(kind: Database, rows: &[Row], started_s: Option<i64>) -> bool {
    let Some(data) = data_directory(kind, rows) else { return true };
    let Some(started_s) = started_s else {
        return !std::fs::metadata(data).is_err_and(|fault| fault.kind() == std::io::ErrorKind::NotFound);
    };
    match std::fs::read_to_string(Path::new(data).join("postmaster.pid")) {
        // The first lines: process number, data directory, start (miscadmin.h,
        // LOCK_FILE_LINE_START_TIME).
        Ok(text) => {
            let there = text.lines().nth(2).and_then(|line| line.trim().parse::<i64>().ok());
            there.is_none_or(|there| there.abs_diff(started_s) <= START_S_MAX)
        }
        Err(fault) => fault.kind() != std::io::ErrorKind::NotFound,
    }
}

/// The answer of a database.
pub(crate) struct Asked {
    pub(crate) kind: Database,
    /// Its settings.
    pub(crate) rows: Vec<Row>,
    /// The address of the connection.
    pub(crate) address: String,
    /// The start time in seconds since 1970.
    started_s: Option<i64>,
    /// The server and the connection string, without a password.
    origin: String,
}

/// Adds the settings of a database to the facts.
fn note(database: &Asked, facts: &mut Facts) {
    let Asked { kind, rows, address, started_s, origin } = database;
    let runs_here = is_here(address);
    let is_here = runs_here && has_data_here(*kind, rows, *started_s);
    collect::database_rows(&Answer { database: *kind, rows, origin, address: Some(address), runs_here, is_here }, facts);
}

/// Whether a server runs on this host: its address is a Unix socket, or an IP address that this
/// host can bind.
fn is_here(address: &str) -> bool {
    let bound = |to: SocketAddr| UdpSocket::bind((to.ip(), 0)).is_ok();
    is_local(address) || address.to_socket_addrs().is_ok_and(|mut found| found.any(bound))
}

/// Asks each database for its settings.
pub(crate) fn databases(dsns: &[String]) -> anyhow::Result<Vec<Asked>> {
    if dsns.iter().any(|dsn| dsn.starts_with("oracle://")) {
        return Err(refusal(
            "read the settings of an Oracle database by its DSN",
            "put its parameters into a capture: the end of dist/collect/collect.sh says how",
        ));
    }
    if dsns.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let ask = |dsn: &String| runtime.block_on(settings(dsn)).context("read the settings of a database").map(asked);
    dsns.iter().map(ask).collect()
}

fn asked(found: Settings) -> Asked {
    if let Some(warning) = &found.warning {
        eprintln!("WARNING: {warning}");
    }
    let (kind, origin) = match found.engine {
        Engine::Postgres => (Database::Postgres, format!("pg_settings of {}", found.server)),
        Engine::MySql => (Database::Mysql, format!("SHOW GLOBAL VARIABLES of {}", found.server)),
    };
    let is_postgres = found.engine == Engine::Postgres;
    let row = |setting: orders::settings::Setting| Row {
        name: setting.name,
        value: setting.value,
        unit: setting.unit,
        // MySQL has no such column.
        pending_restart: is_postgres.then_some(setting.pending_restart),
        source: setting.source.map(Row::source_of),
        set_for: setting.set_for,
        values: setting.values,
    };
    let Settings { address, started_s, settings, .. } = found;
    Asked { kind, rows: settings.into_iter().map(row).collect(), address, started_s, origin }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_is_a_servers_own_if_it_was_started_when_the_server_was() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [Row { name: "data_directory".into(), value: folder.path().display().to_string(), ..Row::default() }];
        let has = |rows: &[Row], started_s| has_data_here(Database::Postgres, rows, started_s);
        assert!(!has(&rows, Some(1000)) && has(&rows, None), "there is no server in it");
        std::fs::write(folder.path().join("postmaster.pid"), "7\n/data\n1000\n5432\n").unwrap();
        assert!(has(&rows, Some(1003)));
        assert!(!has(&rows, Some(2000)));
        assert!(has(&[], Some(2000)));
        let gone = [Row { name: "datadir".into(), value: format!("{}/x/", folder.path().display()), ..Row::default() }];
        assert!(!has_data_here(Database::Mysql, &gone, None));
    }
}
