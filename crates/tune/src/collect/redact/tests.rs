use super::*;

/// Checks that a text of this origin is redacted to `kept`.
#[track_caller]
fn becomes(origin: &str, text: &str, kept: &str) {
    assert_eq!(redacted(origin, text), kept, "{origin}: {text:?}");
}

#[test]
fn of_settings_known_keys_and_amounts_stay() {
    let postgres = "/etc/postgresql/15/main/postgresql.conf";
    becomes(postgres, "fsync = off # hunter2\n", "fsync = off\n");
    becomes(postgres, "#fsync = off hunter2", "#");
    becomes(postgres, "data_directory '/srv/pg' # hunter2", "data_directory '/srv/pg'");
    becomes(postgres, "primary_conninfo = 'host=a password=''b hunter2'' port=1'", "primary_conninfo = [redacted]");
    becomes(postgres, "archive_command = 'KEY=hunter2 wal-g %p'", "archive_command = [redacted]");
    becomes(postgres, "ldap.bindpw = 12345", "ldap.bindpw = [redacted]");
    becomes(postgres, "work_mem = '64 MB'", "work_mem = '64 MB'");
    becomes(postgres, "wal_sync_method = 'fda''hunter2' x", "wal_sync_method = 'fda''hunter2' ?");
    becomes(postgres, "fsync = on hunter2", "fsync = on ?");
    let mysql = "/etc/my.cnf";
    becomes(mysql, "[mysqld ] hunter2", "[mysqld ]");
    becomes(mysql, "pass=hunter2", "pass=[redacted]");
    becomes(mysql, "loose-innodb_flush_log_at_trx = 0#hunter2", "loose-innodb_flush_log_at_trx = 0");
    becomes(mysql, "skip-innodb-doublewrite\r\nhunter2", "skip-innodb-doublewrite\r\n?");
    becomes(mysql, "!includedir /etc/my.cnf.d/", "!includedir /etc/my.cnf.d/");
    becomes("/etc/iscsi/iscsid.conf", "node.session.auth.password = 123456789012", "node.session.auth.password = [redacted]");
    becomes("/etc/iscsi/iscsid.conf", "node.session.timeo.replacement_timeout = 5", "node.session.timeo.replacement_timeout = 5");
    becomes("/etc/sysctl.d/a.conf", "net.ipv4.tcp_rmem = 4096\t8192 9", "net.ipv4.tcp_rmem = 4096\t8192 9");
    becomes("sysctl -a", "net.ipv6.conf.all.stable_secret = 1", "net.ipv6.conf.all.stable_secret = [redacted]");
    becomes("sysctl -a", "kernel.core_pattern = |/bin/x hunter2", "kernel.core_pattern = [redacted]");
}

#[test]
fn of_mounts_known_options_stay() {
    becomes(
        "/etc/fstab",
        "//s/x /x cifs user=a,password=b,c,ro 0 0",
        "//s/x /x cifs user=[redacted],password=[redacted],[redacted],ro 0 0",
    );
    becomes("/etc/fstab", "sshfs#u:hunter2@h:/ /x fuse defaults 0 0", "[redacted] /x fuse defaults 0 0");
    becomes("/etc/fstab", "f:/db /pg nfs soft,vers=3 0 0 # hunter2", "f:/db /pg nfs soft,vers=3 0 0 ");
    let line = "/u on f:/v remote/read/write/vers=3/rsize=32768/dev=4d4 on Tue";
    becomes("mount -v", line, line);
    becomes("/etc/auto.nfs", "a -fstype=cifs,password=hunter2 ://s/x", "a -fstype=cifs,password=[redacted] [redacted]");
    becomes("/etc/auto.sh", "#!/bin/sh\necho hunter2\n", "\n\n");
    becomes("/etc/systemd/system/a.mount", "Options=soft,password=hunter2", "Options=soft,password=[redacted]");
}

#[test]
fn of_other_files_what_parsers_read_stays() {
    becomes(
        "/proc/cmdline",
        "x ro netroot=iscsi:a:hunter2@h nfs.max_session_slots=5",
        "[redacted] ro netroot=[redacted] nfs.max_session_slots=5",
    );
    becomes(
        "/etc/modprobe.d/a.conf",
        "options nfs a=5 b=hunter2\ninstall x hunter2\n",
        "options nfs a=5 b=[redacted]\ninstall\n",
    );
    becomes("/etc/multipath.conf", "\tfeatures \"1 queue\" # hunter2\n", "\tfeatures \"1 queue\"\n");
    becomes("/etc/multipath.conf", "devices { # hunter2", "devices {");
    becomes("/etc/oranfstab", "export: /a mount: /b user: hunter2", "export: /a mount: /b user: [redacted]");
    becomes("/etc/pam.d/su", "session required pam_limits.so\nauth required pam_x.so passwd=hunter2", "pam_limits.so\n");
    becomes("/etc/netplan/a.yaml", " eth0:\n  mtu: 9000\n  key: hunter2\n", "eth0:\nmtu: 9000\n\n");
    becomes("/etc/hosts", "10.0.0.1 filer # hunter2", "10.0.0.1 filer");
    becomes("ps -efL", "  PID NLWP CMD\n1 4 ora_lgwr_X\n2 1 sshpass -p hunter2\n", "  PID NLWP CMD\n1 4 ora_lgwr_X\n\n");
    becomes(
        "psql pg_settings",
        "fsync\toff\t\nprimary_conninfo\thost=a password=hunter2\t\n",
        "fsync\toff\t\nprimary_conninfo\t[redacted]\n",
    );
    becomes(
        "sqlplus show parameter",
        "wallet_root  string  hunter2\n           hunter2b\ndb_block_size integer 8192",
        "wallet_root string [redacted]\n[redacted]\ndb_block_size integer 8192",
    );
}

#[test]
fn of_what_set_persist_wrote_known_variables_stay() {
    let text = r#"{"Version":2,"mysql_dynamic_variables":{"init_connect":{"Value":"hunter2","Metadata":{"User":"root"}},"sync_binlog":{"Value":"0"}}}"#;
    let kept = redacted("/var/lib/mysql/mysqld-auto.cnf", text);
    assert!(!kept.contains("hunter2") && !kept.contains("root") && kept.contains(r#""sync_binlog":{"Value":"0"}"#), "{kept}");
    becomes("/var/lib/mysql/mysqld-auto.cnf", "{ hunter2", "[redacted]");
}

#[test]
fn of_a_complaint_of_a_server_the_value_goes() {
    becomes("mariadbd -C /etc/my.cnf", "!\tunknown variable 'a_key=hunter2'", "!\tunknown variable 'a_key [redacted]");
    becomes(
        "postgres -C /a",
        "!\tinvalid value for parameter \"x\": \"hunter2\"",
        "!\tinvalid value for parameter \"x\" [redacted]",
    );
}

#[test]
fn words_around_a_secret_show_it_in_text_without_a_form() {
    for line in [
        "url = postgresql://me:hunter2@db/x and mysql://u:hunter2@h",
        "url postgresql://me:hun/hunter2@db/x",
        "0 1 * * * root sshpass -phunter2 scp x b:",
        "0 1 * * * root /usr/bin/mysqldump -uroot -phunter2 shop",
        "ExecStartPost=/usr/bin/curl -u backup:hunter2 https://b/",
        "ExecStartPost=/bin/x --password hunter2 --token 'hunter2'",
        "iscsi.chap.password: hunter2",
    ] {
        let kept = redacted("options", line);
        assert!(!kept.contains("hunter2") && kept.contains(REDACTED), "{line:?} became {kept:?}");
    }
    for line in
        ["a password is needed", "nfs://server/export", "mount -t nfs -o vers=3 a:/b /c", "mysqld --user=mysql -P 3306", ""]
    {
        assert_eq!(redacted("uname -a", line), line);
    }
}

#[test]
fn a_redacted_text_stays_what_it_is() {
    for (origin, text) in [
        ("/etc/fstab", "//s/x /x cifs user=a,password=b,c,ro 0 0 # x"),
        ("/etc/modprobe.d/a.conf", "# a \\\nb\noptions nfs \\\n a=5 b=c\n"),
        ("/etc/multipath.conf", "devices {\n device {\n vendor \"a\" # b\n x \"y z\"\n }\n}\n"),
        ("/etc/postgresql/1/postgresql.conf", "x = 'y'\nport 5\n"),
        ("/proc/cmdline", "a b=c d.e=1"),
    ] {
        let once = redacted(origin, text);
        assert_eq!(redacted(origin, &once), once);
    }
}

#[test]
fn every_name_of_a_rule_may_be_read_and_the_scripts_have_the_same_lists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rules = crate::rules::RuleSet::folder(&root.join("rules")).unwrap();
    // Names of facts that parsers derive. No text contains them.
    const DERIVED: &[&str] = &[
        "data_fstype",
        "pending_restart",
        "servers_here",
        "sga_bytes",
        "control_file_volumes",
        "log_mode",
        "word_bits",
        "version",
        "flavor",
    ];
    let each = |loaded: &crate::rules::Loaded| loaded.rule.each.clone();
    for loaded in rules.rules() {
        let each = each(loaded);
        let names = loaded.test.host_names(each.as_deref()).into_iter();
        for name in names.chain(loaded.when.iter().flat_map(|when| when.host_names(each.as_deref()))) {
            let (family, key) = name.split_once('.').unwrap_or((name, ""));
            let is_listed = |list: &[&str]| list.contains(&key) || DERIVED.contains(&key) || key.starts_with("dnfs.");
            let is_read = match family {
                "postgres" => is_listed(keys::POSTGRES),
                "mysql" => is_listed(keys::MYSQL),
                "oracle" => is_listed(keys::ORACLE),
                "iscsid" => keys::ISCSI.iter().any(|known| key.starts_with(known)),
                _ => true,
            };
            assert!(is_read, "{}: {name} is left out of what is read", loaded.rule.id);
        }
    }
    let script = std::fs::read_to_string(root.join("dist/collect/collect.sh")).unwrap();
    let lists =
        [keys::POSTGRES, keys::MYSQL, keys::ORACLE, keys::MULTIPATH, keys::MULTIPATH_SECTIONS, keys::SYSCTL, keys::CMDLINE];
    let lists = lists.into_iter().chain([
        keys::CMDLINE_FLAGS,
        keys::NETWORK,
        keys::ORANFSTAB,
        keys::SHELL,
        options::FLAGS,
        options::KEYS,
    ]);
    for key in lists.flatten() {
        assert!([' ', '"'].iter().any(|before| script.contains(&format!("{before}{key} "))), "collect.sh does not have {key}");
    }
}
