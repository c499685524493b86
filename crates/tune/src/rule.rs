//! Rules as they are written in `rules/*.toml`. Unknown keys are errors. docs/rule-schema.md
//! explains the keys to authors of rules.

use std::collections::BTreeMap;

use results::audit::{Activation, Severity, Status};
use serde::{Deserialize, Deserializer};

use crate::expression::{Outcome, parse};
use crate::facts::{Facts, Value};

/// A rule file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleFile {
    /// The version of the format, 1.
    pub schema: u32,
    /// The layer of all its rules: `db`, `os-kernel`, `fs-cache`, `nfs-mount`, `rpc`, `tcp`,
    /// `ethernet`, `iscsi`, `fc`, `multipath`, `volume-manager`, `storage` or `cross-layer`.
    pub layer: String,
    /// The rules.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its ID, unique and never changed: lower case letters, digits and hyphens.
    pub id: String,
    /// One line that says what the rule wants, without a full stop.
    pub title: String,
    /// Template of a finding's title: one line that says what is wrong, with expressions in braces
    /// ([`crate::template`]).
    pub finding: Option<String>,
    /// Rows of the reports' catalogue that this rule covers.
    #[serde(default)]
    pub covers: Vec<String>,
    /// Platforms to which it applies: `linux`, `solaris`, `aix`, `hpux` (by `os.family`), or for
    /// databases and storage `oracle`, `postgres`, `mysql`, `mariadb`, `ontap7`, `ontap9`. Empty
    /// means all.
    #[serde(default)]
    pub platforms: Vec<String>,
    /// Roles (`single-instance`, `rac`, `nfs-client`, `iscsi-client`, `fc-client`). The host must
    /// have one of them; empty means any.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The kind of thing, each of which is judged. `None`: the host is judged once.
    pub each: Option<String>,
    /// Expression that says whether the rule applies. If the result is not known, the rule does not
    /// apply.
    pub when: Option<String>,
    /// Expression that is true if the rule holds. If the result is not known, the verdict is
    /// unknown.
    pub test: String,
    /// The severity if the test is false.
    pub severity: Severity,
    /// The reason in one to four sentences, written for this rule and not quoted.
    pub reason: String,
    /// The effect that the source states, with its number if there is one.
    pub effect: Option<String>,
    /// Its sources, at least one.
    pub sources: Vec<Source>,
    /// The status of the advice today.
    pub status: Status,
    /// Sources that contradict it.
    #[serde(default)]
    pub standing: Vec<Standing>,
    /// How it is fixed.
    pub fix: Option<Fix>,
    /// Facts with which it must give a finding.
    pub fires: Vec<Case>,
    /// Facts with which it must give no finding.
    pub silent: Vec<Case>,
}

/// A source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Report, manual or page: `TR-3322`, `nfs(5)`, `PostgreSQL 18 documentation`.
    pub name: String,
    /// Section.
    pub section: Option<String>,
    /// Year.
    pub year: Option<u16>,
}

/// A source that contradicts the rule, or contradicts what the rule's source once said.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// `superseded-by`, `reversed-by` or `contested-by`.
    pub kind: StandingKind,
    /// The name of a source, or the ID of another rule.
    pub by: String,
    /// What it says, in one sentence.
    pub says: String,
    /// Expression that says where it holds; `None` means everywhere. If the result is not known, it
    /// holds.
    pub when: Option<String>,
}

impl Standing {
    /// Whether it holds on this host.
    pub(crate) fn holds(&self, facts: &Facts) -> bool {
        let when = self.when.as_deref().and_then(|when| parse(when).ok());
        when.is_none_or(|when| when.value(facts, None) != Outcome::Known(Value::Bool(false)))
    }
}

/// How another source contradicts a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StandingKind {
    /// It gives the same advice with another value or another name.
    SupersededBy,
    /// It now advises the opposite.
    ReversedBy,
    /// Both are advised today.
    ContestedBy,
}

/// How a rule is fixed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// What puts the change in force.
    pub activation: Activation,
    /// Steps before the change, in order. Each is a request such as `stop the databases`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Steps after the change, in order and in the same form.
    #[serde(default)]
    pub after: Vec<String>,
    /// The setting may lose acknowledged data, so it is applied only if the rule is named.
    #[serde(default)]
    pub loses_durability: bool,
    /// What the user does, if the [`Setting`]s are not enough.
    pub by_hand: Option<String>,
    /// Settings that `apply` can write and revert.
    #[serde(default, rename = "set")]
    pub settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The kind of file or command that sets it.
    pub kind: SettingKind,
    /// Its name there.
    pub key: String,
    /// Its value as written there.
    pub value: Option<String>,
    /// Or an expression that computes the value from facts.
    pub value_of: Option<String>,
}

/// Where a setting is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingKind {
    /// `sysctl -w`, `/etc/sysctl.d`.
    Sysctl,
    /// `options MODULE KEY=VALUE` in `/etc/modprobe.d`; the key is `MODULE.KEY`.
    Modprobe,
    /// A mount option of the judged thing in `/etc/fstab`; the value `-` removes it.
    FstabOption,
    /// A line of limits.d; the key is `USER TYPE ITEM`.
    Limits,
    /// An attribute that a udev rule sets; the key is `SUBSYSTEM/ATTRIBUTE`.
    Udev,
    /// `iscsid.conf`.
    Iscsid,
    /// `multipath.conf`; the key is `SECTION.KEY`.
    Multipath,
    /// `ALTER SYSTEM` or `postgresql.conf`.
    Postgres,
    /// `my.cnf`, section `mysqld`.
    Mysql,
    /// `ALTER SYSTEM … SCOPE=SPFILE` or `init.ora`.
    Oracle,
    /// `oranfstab`.
    Oranfstab,
    /// `/etc/sysconfig/oracleasm`.
    Oracleasm,
    /// A command line of Data ONTAP 7-Mode; the key is the option.
    Ontap7,
    /// A command line of ONTAP 9.
    Ontap9,
    /// `/etc/system` on Solaris.
    SolarisSystem,
    /// `ndd` and its start script on Solaris.
    SolarisNdd,
    /// `kctune` on HP-UX.
    Kctune,
    /// `ndd` and `nddconf` on HP-UX.
    HpuxNdd,
    /// `no -p -o` on AIX.
    AixNo,
    /// `nfso -p -o` on AIX.
    AixNfso,
    /// `vmo -p -o` on AIX.
    AixVmo,
    /// `ioo -p -o` on AIX.
    AixIoo,
    /// `chdev -l DEVICE -a KEY=VALUE` on AIX, for the judged thing.
    AixChdev,
}

/// Facts of a fixture: facts of the host by name, and things by kind, each with its `name` and
/// attributes. If `os.family` is missing, the rule's first platform is used.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Facts of the host. A dotted name may be in quotes or not: `"os.release" = "5.9"`,
    /// `os.release = "5.9"`.
    #[serde(default, deserialize_with = "dotted")]
    pub facts: BTreeMap<String, Value>,
    /// Things by kind. Each is a table with `name` and attributes.
    #[serde(default)]
    pub things: BTreeMap<String, Vec<BTreeMap<String, Value>>>,
}

/// Turns nested tables into dotted names.
fn dotted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Value>, D::Error> {
    let mut flat = BTreeMap::new();
    flatten("", BTreeMap::deserialize(deserializer)?, &mut flat);
    Ok(flat)
}

/// A value or a table of values.
#[derive(Deserialize)]
#[serde(untagged)]
enum Tree {
    Value(Value),
    Table(BTreeMap<String, Self>),
}

/// TOML's parser limits the depth.
fn flatten(prefix: &str, tree: BTreeMap<String, Tree>, flat: &mut BTreeMap<String, Value>) {
    for (name, part) in tree {
        match part {
            Tree::Value(value) => drop(flat.insert(format!("{prefix}{name}"), value)),
            Tree::Table(table) => flatten(&format!("{prefix}{name}."), table, flat),
        }
    }
}
