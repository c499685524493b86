//! Rules as they stand in `rules/*.toml`. Unknown keys are errors. docs/rule-schema.md says what each means to who writes one.

use std::collections::BTreeMap;

use results::audit::{Activation, Severity, Status};
use serde::{Deserialize, Deserializer};

use crate::expression::{Outcome, parse};
use crate::facts::{Facts, Value};

/// One file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleFile {
    /// Version of the format; 1.
    pub schema: u32,
    /// Layer of all rules in it: `db`, `os-kernel`, `fs-cache`, `nfs-mount`, `rpc`, `tcp`, `ethernet`, `iscsi`, `fc`,
    /// `multipath`, `volume-manager`, `storage` or `cross-layer`.
    pub layer: String,
    /// The rules.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Unique and for ever: lower case, digits and hyphens.
    pub id: String,
    /// One line that states what is wanted, no full stop.
    pub title: String,
    /// Template of a finding's title: one line that says what is wrong, with expressions in braces ([`crate::template`]).
    pub finding: Option<String>,
    /// Rows of the reports' catalogue that this rule answers for.
    #[serde(default)]
    pub covers: Vec<String>,
    /// Where it applies: any of `linux`, `solaris`, `aix`, `hpux` (by `os.family`), or of databases and storage `oracle`,
    /// `postgres`, `mysql`, `mariadb`, `ontap7`, `ontap9`; empty is everywhere.
    #[serde(default)]
    pub platforms: Vec<String>,
    /// Roles (`single-instance`, `rac`, `nfs-client`, `iscsi-client`, `fc-client`) of which the host must have one; empty is any.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Kind of thing of which each is judged; absent: the host, once.
    pub each: Option<String>,
    /// Expression that says whether the rule applies. Not known counts as no.
    pub when: Option<String>,
    /// Expression that is true where all is well. Not known is a finding of its own kind.
    pub test: String,
    /// How bad it is when the test says no.
    pub severity: Severity,
    /// Why, in one to four sentences, in our words.
    pub reason: String,
    /// What it brings, as the source has it, with its number if it has one.
    pub effect: Option<String>,
    /// Where it comes from, at least one.
    pub sources: Vec<Source>,
    /// What holds today.
    pub status: Status,
    /// Who says otherwise.
    #[serde(default)]
    pub standing: Vec<Standing>,
    /// How it is set right.
    pub fix: Option<Fix>,
    /// Facts with which it must fire.
    pub fires: Vec<Case>,
    /// Facts with which it must not.
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

/// Somebody who says otherwise than the rule, or than the rule's source once did.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// `superseded-by`, `reversed-by` or `contested-by`.
    pub kind: StandingKind,
    /// A source's name, or the identity of another rule.
    pub by: String,
    /// What that says, one sentence.
    pub says: String,
    /// Expression that says where it holds; absent: everywhere. Not known counts as yes.
    pub when: Option<String>,
}

impl Standing {
    /// Whether it holds on this host.
    pub(crate) fn holds(&self, facts: &Facts) -> bool {
        let when = self.when.as_deref().and_then(|when| parse(when).ok());
        when.is_none_or(|when| when.value(facts, None) != Outcome::Known(Value::Bool(false)))
    }
}

/// How another source stands to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StandingKind {
    /// The same with another value or another name.
    SupersededBy,
    /// The opposite is advised now.
    ReversedBy,
    /// Both are advised today.
    ContestedBy,
}

/// How something is set right.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// What it takes for the change to be in force.
    pub activation: Activation,
    /// What must be done before, in order: each a request, as in `stop the databases`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// What must be done after it, in order, in the same form.
    #[serde(default)]
    pub after: Vec<String>,
    /// The setting may lose acknowledged data: never applied unless named.
    #[serde(default)]
    pub loses_durability: bool,
    /// What a person does, where no [`Setting`] says it all.
    pub by_hand: Option<String>,
    /// Settings that a generator can write and take back.
    #[serde(default, rename = "set")]
    pub settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// What kind of file or command holds it.
    pub kind: SettingKind,
    /// Its name there.
    pub key: String,
    /// Its value, as written there.
    pub value: Option<String>,
    /// Or an expression that gives it from facts.
    pub value_of: Option<String>,
}

/// Where settings live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingKind {
    /// `sysctl -w`, `/etc/sysctl.d`.
    Sysctl,
    /// `options MODULE KEY=VALUE` in `/etc/modprobe.d`; the key is `MODULE.KEY`.
    Modprobe,
    /// A mount option in `/etc/fstab` of the thing judged; a value of `-` removes it.
    FstabOption,
    /// A line of limits.d; the key is `USER TYPE ITEM`.
    Limits,
    /// An attribute by udev rule; the key is `SUBSYSTEM/ATTRIBUTE`.
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
    /// A command line of Data ONTAP 7-mode; the key is the option.
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
    /// `chdev -l DEVICE -a KEY=VALUE` on AIX, of the thing judged.
    AixChdev,
}

/// Facts of a fixture: of the host by name, things by kind, each with its `name` and attributes. `os.family` is set from
/// the rule's first platform when it is missing.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Facts of the host. A dotted name may be in quotes or not: `"os.release" = "5.9"`, `os.release = "5.9"`.
    #[serde(default, deserialize_with = "dotted")]
    pub facts: BTreeMap<String, Value>,
    /// Things by kind: each a table with `name` and attributes.
    #[serde(default)]
    pub things: BTreeMap<String, Vec<BTreeMap<String, Value>>>,
}

/// Tables within tables to dotted names.
fn dotted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Value>, D::Error> {
    let mut flat = BTreeMap::new();
    flatten("", BTreeMap::deserialize(deserializer)?, &mut flat);
    Ok(flat)
}

/// A value or a table of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Tree {
    Value(Value),
    Table(BTreeMap<String, Self>),
}

/// The depth is bounded by that of TOML's reader.
fn flatten(prefix: &str, tree: BTreeMap<String, Tree>, flat: &mut BTreeMap<String, Value>) {
    for (name, part) in tree {
        match part {
            Tree::Value(value) => drop(flat.insert(format!("{prefix}{name}"), value)),
            Tree::Table(table) => flatten(&format!("{prefix}{name}."), table, flat),
        }
    }
}
