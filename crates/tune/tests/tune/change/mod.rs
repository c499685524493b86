//! Shared by tests of changes: rules, a tree that replaces a host's root, and the tree's contents.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, reason = "each test takes what it needs, and may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use results::audit::{Finding, Severity, Status, Verdict};
use sim::Rng;
use tune::change::{Group, Operator, RuleLookup};
use tune::facts::{Facts, Value};
use tune::rule::Rule;

/// An operator that confirms every group.
pub struct YesToAll;

impl Operator for YesToAll {
    fn confirm(&mut self, _group: &Group) -> bool {
        true
    }

    fn progress(&mut self, _made: usize, _all: usize, _what: &str) {}
}

/// Rules by ID. The value of an expression is its own text.
#[derive(Default)]
pub struct Rules(pub BTreeMap<String, Rule>);

impl Rules {
    /// Adds a rule that sets `settings`, which are TOML inline tables. `rule` and `fix` are further
    /// lines of the rule and of its fix.
    pub fn add(&mut self, id: &str, rule: &str, activation: &str, settings: &str, fix: &str) {
        let text = format!(
            "id = {id:?}\ntitle = \"title of {id}\"\ntest = \"true\"\nseverity = \"medium\"\nreason = \"it is so\"\n\
             sources = [{{ name = \"TR-0\" }}]\nfires = []\nsilent = []\n{rule}\n[fix]\nactivation = {activation:?}\n{fix}\nset = [{settings}]\n"
        );
        let text = if rule.contains("status") { text } else { format!("status = \"valid\"\n{text}") };
        let read: Rule = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        self.0.insert(id.to_owned(), read);
    }
}

impl RuleLookup for Rules {
    fn rule(&self, id: &str) -> Option<&Rule> {
        self.0.get(id)
    }

    fn value(&self, expression: &str, _facts: &Facts, _thing: Option<(&str, &str)>) -> Result<Value, String> {
        expression.parse::<i64>().map(Value::Int).map_err(|_| format!("{expression} not known"))
    }
}

/// A finding of a rule, for a thing or for the host.
pub fn finding(rule: &str, subject: Option<&str>) -> Finding {
    Finding {
        rule: rule.to_owned(),
        layer: "os-kernel".to_owned(),
        subject: subject.map(str::to_owned),
        server: None,
        verdict: Verdict::Finding,
        severity: Severity::Medium,
        title: String::new(),
        rule_title: None,
        found: Vec::new(),
        missing: Vec::new(),
        reason: String::new(),
        effect: None,
        sources: Vec::new(),
        status: Status::Valid,
        standing: Vec::new(),
        fix: Vec::new(),
        activation: None,
        group: None,
        measured: None,
        waiver: None,
    }
}

/// Facts of a Linux host.
pub fn linux() -> Facts {
    let mut facts = Facts::default();
    facts.put("os.family", "linux", "a test");
    facts
}

/// Writes a file with its folders.
pub fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A file as a test compares it: kind and mode, contents or target, and the time, except in /proc
/// and /sys.
pub type Node = (u32, Vec<u8>, Option<(i64, i64)>);

/// Everything below a folder, by path.
pub fn tree(root: &Path) -> BTreeMap<String, Node> {
    let mut nodes = BTreeMap::new();
    walk(root, root, &mut nodes);
    nodes
}

fn walk(root: &Path, folder: &Path, nodes: &mut BTreeMap<String, Node>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let timed = !name.starts_with("proc") && !name.starts_with("sys");
        let (bytes, time) = if found.is_symlink() {
            (fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(), None)
        } else if found.is_dir() {
            walk(root, &path, nodes);
            (Vec::new(), None)
        } else {
            (fs::read(&path).unwrap(), timed.then(|| (found.mtime(), found.mtime_nsec())))
        };
        nodes.insert(name, (found.mode(), bytes, time));
    }
}

/// A host with findings.
pub struct World {
    pub rules: Rules,
    pub facts: Facts,
    pub findings: Vec<Finding>,
}

/// Files that may exist. Some of the rules change their contents.
const FILES: &[(&str, &str)] = &[
    (
        "etc/fstab",
        "# table\nUUID=1 / ext4 defaults 0 1\nfiler:/redo\t/redo nfs rw,soft,rsize=32768 0 0\n/dev/sdb /data xfs defaults,noatime 0 0\n",
    ),
    ("etc/sysctl.conf", "vm.swappiness=60\nkernel.sysrq = 1"),
    ("etc/sysctl.d/60-millrace.conf", "# by hand\nvm.dirty_bytes = 1\n"),
    ("etc/sysctl.d/90-other.conf", "net.core.rmem_max = 1\n"),
    ("etc/modprobe.d/sunrpc.conf", "options sunrpc tcp_slot_table_entries=16\n"),
    ("etc/security/limits.d/90-oracle.conf", "oracle soft nofile 1024\n"),
    ("etc/iscsi/iscsid.conf", "node.startup = manual\r\n# node.session.cmds_max = 1\nnode.session.cmds_max = 128\n"),
    ("etc/multipath.conf", "defaults {\n path_checker readsector0\n}\n"),
    ("etc/sysconfig/oracleasm", "ORACLEASM_ENABLED=true\nORACLEASM_SCANORDER=\"\"\n"),
    ("etc/oranfstab", "server: filer\npath: 10.0.0.1\nexport: /redo mount: /redo"),
    ("etc/mysql/conf.d/base.cnf", "[mysqld]\nsync_binlog=0\n"),
    ("etc/postgresql/17/main/conf.d/own.conf", "wal_buffers = 8MB\n"),
    ("proc/sys/vm/swappiness", "60\n"),
    ("proc/sys/vm/dirty_bytes", "0\n"),
    ("proc/sys/vm/dirty_ratio", "20\n"),
    ("proc/sys/net/core/rmem_max", "212992\n"),
    ("sys/module/sunrpc/parameters/tcp_slot_table_entries", "2\n"),
    ("sys/block/sda/queue/scheduler", "none [mq-deadline]\n"),
];

/// Settings of rules: the thing, the activation, and the setting.
const SETTINGS: &[(Option<&str>, &str, &str)] = &[
    (None, "live", "{ kind = \"sysctl\", key = \"vm.swappiness\", value = \"1\" }"),
    (None, "live", "{ kind = \"sysctl\", key = \"vm.dirty_bytes\", value_of = \"536870912\" }"),
    (None, "reboot", "{ kind = \"sysctl\", key = \"net.core.rmem_max\", value = \"16777216\" }"),
    (None, "remount", "{ kind = \"modprobe\", key = \"sunrpc.tcp_slot_table_entries\", value = \"128\" }"),
    (
        Some("mount /redo"),
        "remount",
        "{ kind = \"fstab-option\", key = \"hard\" }, { kind = \"fstab-option\", key = \"soft\", value = \"-\" }",
    ),
    (Some("mount /redo"), "remount", "{ kind = \"fstab-option\", key = \"rsize\", value = \"262144\" }"),
    (Some("mount /data"), "reboot", "{ kind = \"fstab-option\", key = \"noatime\", value = \"-\" }"),
    (Some("mount /gone"), "remount", "{ kind = \"fstab-option\", key = \"hard\" }"),
    (None, "reload", "{ kind = \"limits\", key = \"oracle soft nofile\", value = \"65536\" }"),
    (None, "db-restart", "{ kind = \"limits\", key = \"oracle hard nofile\", value = \"65536\" }"),
    (Some("block sda"), "live", "{ kind = \"udev\", key = \"block/queue/scheduler\", value = \"none\" }"),
    (None, "nic-restart", "{ kind = \"iscsid\", key = \"node.session.cmds_max\", value = \"256\" }"),
    (None, "reload", "{ kind = \"multipath\", key = \"defaults.path_checker\", value = \"-\" }"),
    (None, "reboot", "{ kind = \"oracleasm\", key = \"ORACLEASM_SCANORDER\", value = \"dm\" }"),
    (Some("mount /redo"), "db-restart", "{ kind = \"oranfstab\", key = \"path\", value = \"10.0.0.1, 10.0.1.1\" }"),
    (None, "live", "{ kind = \"mysql\", key = \"sync_binlog\", value = \"1\" }"),
    (None, "reload", "{ kind = \"postgres\", key = \"wal_buffers\", value = \"16MB\" }"),
];

impl World {
    /// A tree with some of the files, and findings for some of the settings, in random order.
    pub fn random(place: &Path, rng: &mut Rng) -> Self {
        fs::create_dir_all(place.join("etc")).unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        for (path, text) in FILES {
            if rng.chance(3, 4) {
                write(place, path, text);
                let file = place.join(path);
                fs::set_permissions(&file, fs::Permissions::from_mode(*rng.pick(&[0o644, 0o600, 0o640, 0o664]).unwrap()))
                    .unwrap();
                let time = long_ago + Duration::new(rng.below(100_000), rng.below(1_000_000_000) as u32);
                fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
            }
        }
        if rng.chance(1, 2) && place.join("etc/sysctl.d").exists() {
            symlink("../sysctl.conf", place.join("etc/sysctl.d/99-sysctl.conf")).unwrap();
        }
        write(place, "etc/postgresql/17/main/postgresql.conf", "include_dir = 'conf.d' # more\n");
        write(place, "etc/mysql/my.cnf", "!includedir /etc/mysql/conf.d/\n");
        let mut facts = linux();
        facts.put("postgres.config_file", "/etc/postgresql/17/main/postgresql.conf", "a test");
        facts.put("postgres.data_directory", "/var/lib/postgresql/17/main", "a test");
        facts.put_of("mount", "/redo", "source", "filer:/redo", "a test");
        let (mut rules, mut findings) = (Rules::default(), Vec::new());
        for (number, (subject, activation, settings)) in SETTINGS.iter().enumerate() {
            if rng.chance(2, 3) {
                let id = format!("rule-{number}");
                rules.add(&id, "", activation, settings, "");
                findings.push(finding(&id, *subject));
            }
        }
        Self { rules, facts, findings }
    }
}
