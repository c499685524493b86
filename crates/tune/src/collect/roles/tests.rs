use super::*;
use crate::collect::collected::Collected;
use crate::collect::{site, text_facts};
use crate::facts::Database;

/// Mounts: point, type, volume.
fn mounts(facts: &mut Facts, all: &[(&str, &str, &str)]) {
    for (point, fstype, volume) in all {
        facts.put_of("mount", point, "fstype", *fstype, "mount");
        if !volume.is_empty() {
            facts.put_of("mount", point, "volume", *volume, "mount");
        }
    }
}

fn role(facts: &Facts, point: &str) -> Option<String> {
    match facts.value_of("mount", point, "role") {
        Some(Value::Text(role)) => Some(role.clone()),
        _ => None,
    }
}

fn roles(facts: &Facts) -> Vec<(&str, String)> {
    let points = facts.things["mount"].keys();
    points.filter_map(|point| Some((point.as_str(), role(facts, point)?))).collect()
}

fn oracle(parameters: &[(&str, Value)]) -> Facts {
    let mut facts = Facts::default();
    for (name, said) in parameters {
        facts.put(&format!("oracle.{name}"), said.clone(), "init.ora");
    }
    facts
}

#[test]
fn control_files_show_a_database_and_what_they_do_not_say_stays_open() {
    let files = Value::List(vec!["/u02/ctl/1".into(), "/u03/ctl/2".into()]);
    let mut facts = oracle(&[
        ("control_files", files),
        ("log_archive_dest_1", "LOCATION=/u04/arch MANDATORY".into()),
        ("log_archive_dest_2", "SERVICE=standby".into()),
        ("background_dump_dest", "?/admin/bdump".into()),
    ]);
    facts.put_of("oracle_home", "/u01/ora", "parameters", "x", "x");
    mounts(&mut facts, &[("/", "ufs", ""), ("/u01", "nfs", ""), ("/u02", "nfs", ""), ("/u03", "nfs", ""), ("/u04", "nfs", "")]);
    derive(&mut facts);
    let expected = [("/u01", "home"), ("/u02", "database"), ("/u03", "database"), ("/u04", "archive")];
    assert_eq!(roles(&facts), expected.map(|(point, role)| (point, role.to_owned())));
    assert_eq!(facts.value_of("mount", "/u01", "holds"), Some(&Value::List(vec!["diagnostics".into(), "home".into()])));
    let unnamed = unnamed(&facts).join("\n");
    assert!(unnamed.contains("redo logs of Oracle"), "{unnamed}");
}

#[test]
fn views_of_oracle_say_what_holds_data_and_redo_logs() {
    let rows = "MEMBER\n--------\n/u03/redo/redo01.log\n/u03/redo/redo02.log\n";
    let mut facts = text_facts("SunOS", "sqlplus -s / as sysdba v$logfile", rows.as_bytes());
    let data = text_facts("SunOS", "sqlplus -s / as sysdba v$datafile", b"NAME\n----\n/u02/system01.dbf\n");
    facts.put("oracle.datafiles", data.value("oracle.datafiles").unwrap().clone(), "v$datafile");
    facts.put("oracle.control_files", Value::List(vec!["/u02/c1".into(), "/u03/c2".into(), "/u05/c3".into()]), "init.ora");
    mounts(&mut facts, &[("/u02", "nfs", ""), ("/u03", "nfs", ""), ("/u05", "nfs", "")]);
    derive(&mut facts);
    let expected = [("/u02", "data"), ("/u03", "redo"), ("/u05", "database")];
    assert_eq!(roles(&facts), expected.map(|(point, role)| (point, role.to_owned())));
    assert!(unnamed(&facts).is_empty(), "{:?}", unnamed(&facts));
}

#[test]
fn the_other_mounts_of_a_volume_hold_the_same() {
    let mut facts = oracle(&[("control_files", Value::List(vec!["/u02/c1".into()]))]);
    mounts(&mut facts, &[("/u02", "nfs", "filer:/vol/a"), ("/u12", "nfs", "filer:/vol/a"), ("/home", "nfs", "filer:/vol/home")]);
    derive(&mut facts);
    assert_eq!(role(&facts, "/u12").as_deref(), Some("database"));
    assert_eq!(role(&facts, "/home"), None);
    let unnamed = unnamed(&facts).join("\n");
    assert!(unnamed.contains("the NFS mounts /home hold"), "{unnamed}");
}

#[test]
fn the_site_file_wins_and_a_contradiction_is_remarked() {
    let files = Value::List(vec!["/u02/c1".into(), "/u03/c2".into()]);
    let mut facts = oracle(&[("control_files", files), ("log_archive_dest", "/u04".into())]);
    mounts(&mut facts, &[("/u02", "nfs", ""), ("/u03", "nfs", ""), ("/u04", "nfs", "")]);
    derive(&mut facts);
    // The site file may say which kind of database files a mount contains. This adds to the derived
    // role and does not contradict it.
    site("[mount.\"/u02\"]\nrole = \"data\"\n[mount.\"/u03\"]\nrole = \"redo\"\n", &mut facts);
    assert!(facts.remarks.is_empty(), "{:?}", facts.remarks);
    site("[mount.\"/u04\"]\nrole = \"home\"\n", &mut facts);
    assert_eq!(facts.remarks.len(), 1);
    assert!(facts.remarks[0].contains("mount /u04: role") && facts.remarks[0].contains("the site file is taken"));
    // Facts of databases that are queried later do not change the role.
    derive(&mut facts);
    let expected = [("/u02", "data"), ("/u03", "redo"), ("/u04", "home")];
    assert_eq!(roles(&facts), expected.map(|(point, role)| (point, role.to_owned())));
}

fn server(facts: &mut Facts, database: Database, config: Option<&str>, settings: &[(&str, &str)]) {
    let mut own = Facts::default();
    for (name, said) in settings {
        own.put(name, *said, config.unwrap_or("it"));
    }
    let (name, state) = ("a server".to_owned(), crate::facts::ServerState::FromFiles);
    facts.put_server(Server { name, database, state, config: config.map(str::to_owned), facts: own });
}

#[test]
fn postgres_has_its_log_and_tablespaces_where_links_lead() {
    let mut facts = Facts::default();
    let data = "/var/lib/postgresql/15/main";
    server(&mut facts, Database::Postgres, Some("/etc/postgresql.conf"), &[("postgres.data_directory", data)]);
    mounts(
        &mut facts,
        &[("/", "ext4", ""), ("/mnt/wal", "nfs4", ""), ("/mnt/fast", "nfs4", ""), ("/var/lib/postgresql", "nfs4", "")],
    );
    derive(&mut facts);
    assert_eq!(roles(&facts), [("/var/lib/postgresql", "data".to_owned())]);
    let open = unnamed(&facts).join("\n");
    assert!(open.contains(&format!("whether the log of {data} lies elsewhere")), "{open}");
    for (path, real) in [("pg_wal", "/mnt/wal/15"), ("pg_tblspc/16384", "/mnt/fast/ts"), ("pg_tblspc", "")] {
        let path = format!("{data}/{path}");
        let real = if real.is_empty() { path.clone() } else { real.to_owned() };
        facts.put_of("path", &path, "real", real, "readlink -f");
    }
    derive(&mut facts);
    let expected = [("/mnt/fast", "data"), ("/mnt/wal", "redo"), ("/var/lib/postgresql", "data")];
    assert_eq!(roles(&facts), expected.map(|(point, role)| (point, role.to_owned())));
    assert_eq!(unnamed(&facts), [""; 0]);
}

#[test]
fn mariadb_has_logs_where_its_settings_say_else_with_the_data() {
    let redo = |settings: &[(&str, &str)]| {
        let mut facts = Facts::default();
        server(&mut facts, Database::Mysql, Some("/etc/mysql/my.cnf"), settings);
        mounts(&mut facts, &[("/data", "nfs4", ""), ("/logs", "nfs4", ""), ("/binlog", "nfs4", "")]);
        derive(&mut facts);
        roles(&facts).into_iter().map(|(point, role)| format!("{point} {role}")).collect::<Vec<_>>()
    };
    assert_eq!(redo(&[("mysql.datadir", "/data/mysql/")]), ["/data data"]);
    let apart =
        [("mysql.datadir", "/data/mysql"), ("mysql.innodb_log_group_home_dir", "/logs"), ("mysql.log_bin_basename", "/binlog/b")];
    assert_eq!(redo(&apart), ["/binlog redo", "/data data", "/logs redo"]);
    // A name alone and a relative path are both in the data directory.
    let beside =
        [("mysql.datadir", "/data/mysql"), ("mysql.log_bin_basename", "binlog"), ("mysql.innodb_undo_directory", "./undo")];
    assert_eq!(redo(&beside), ["/data data"]);
    // Option files whose data directory was not seen do not prove that a database exists.
    assert_eq!(redo(&[]), [""; 0]);
}

#[test]
fn servers_on_other_hosts_hold_nothing_here() {
    let mut facts = Facts::default();
    server(&mut facts, Database::Postgres, None, &[("postgres.data_directory", "/data")]);
    mounts(&mut facts, &[("/data", "nfs", "")]);
    derive(&mut facts);
    assert_eq!(roles(&facts), []);
}

#[test]
fn outputs_of_a_collector_say_where_paths_lead() {
    let mut collected = Collected::default();
    collected.take_command("readlink -f /data/pg_wal", b"/mnt/wal\n", Some(0));
    let mut facts = Facts::default();
    crate::collect::real_paths::read(&collected, &mut facts);
    assert_eq!(facts.value_of("path", "/data/pg_wal", "real"), Some(&"/mnt/wal".into()));
}
