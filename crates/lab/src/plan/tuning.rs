//! Named tunings. `untuned` changes nothing; `tuned` has the recommended settings; plans add their own.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::database::kind::DatabaseKind;
use crate::error::LabError;
use crate::plan::iscsi_settings::DEPTH;
use crate::plan::knob::Knob;
use crate::plan::{FcSettings, IscsiSettings, KernelNfs, KernelSettings};

/// Settings of one tuning, for every layer that the laboratory controls. Values have the form of the layer's own
/// option.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// Settings of the database, in addition to those of every configuration.
    #[serde(default)]
    pub database: BTreeMap<String, Knob>,
    /// Options of the mount URL.
    #[serde(default)]
    pub dnfs: BTreeMap<String, Knob>,
    /// The initiator: `client`, `portals`, `depth`, and for Millrace's further options of `millrace iscsi attach` without their dashes.
    #[serde(default)]
    pub iscsi: BTreeMap<String, Knob>,
    /// The kernel's NFS client for exports of Millrace: `nconnect`, `slots` of each connection, further mount `options`.
    #[serde(default)]
    pub knfs: BTreeMap<String, Knob>,
    /// Fibre Channel in a guest: `depth`.
    #[serde(default)]
    pub fc: BTreeMap<String, Knob>,
    /// This host's kernel during a run, on every path: `read_ahead_kb`, buffers and queues of TCP by their names in sysctl(8).
    #[serde(default)]
    pub kernel: BTreeMap<String, Knob>,
    /// Options of `millrace serve` without their dashes; `true` is an option without a value.
    #[serde(default)]
    pub filer: BTreeMap<String, Knob>,
    /// Options of `millrace orders run` without their dashes; `true` is an option without a value.
    #[serde(default)]
    pub orders: BTreeMap<String, Knob>,
}

/// The tuning of every configuration without another one: nothing is changed.
pub const UNTUNED: &str = "untuned";
/// Recommended settings of this database for any storage. The defaults of Millrace's NFS client are already tuned. A LUN gets the
/// depth of a loop device; a mount of the kernel gets the connections of rule linux-nfs-nconnect. Settings that make checkpoints
/// rarer are not included, because each run must contain one.
pub const TUNED: &str = "tuned";

impl Tuning {
    /// The tunings of every plan.
    #[must_use]
    pub fn built_in(database: DatabaseKind) -> BTreeMap<String, Self> {
        let text = |text: &str| Knob::Text(text.to_owned());
        let database = match database {
            DatabaseKind::Postgresql => vec![
                // With this size, sessions rarely have to write the log because its buffers are full.
                ("wal_buffers", text("64MB")),
                // Dirty buffers are written in advance, outside the sessions.
                ("bgwriter_lru_maxpages", Knob::Number(1000)),
                ("bgwriter_delay", text("20ms")),
                ("bgwriter_lru_multiplier", Knob::Number(4)),
            ],
            DatabaseKind::MariaDb => vec![
                // With this size, sessions rarely have to write the log because its buffer is full.
                ("innodb_log_buffer_size", text("64M")),
                // Changed pages are written in advance, outside the sessions: the default of 200 per second is that of a few disks
                // (rules mysql-io-capacity-on-flash, mysql-io-capacity-max-above).
                ("innodb_io_capacity", Knob::Number(2000)),
                ("innodb_io_capacity_max", Knob::Number(4000)),
                // Pages beside a changed one are not written with it: that would save seeks on disks, but costs writes elsewhere.
                ("innodb_flush_neighbors", Knob::Number(0)),
            ],
        };
        let database = database.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let iscsi = BTreeMap::from([(DEPTH.to_owned(), Knob::Number(128))]);
        // The client's defaults satisfy the other rules for such a mount: transfer sizes, hard, the limit of slots.
        let knfs = BTreeMap::from([("nconnect".to_owned(), Knob::Number(8))]);
        let tuned = Self { database, iscsi, knfs, ..Self::default() };
        BTreeMap::from([(UNTUNED.to_owned(), Self::default()), (TUNED.to_owned(), tuned)])
    }

    /// Every knob as `layer.name` with its value.
    #[must_use]
    pub fn named_knobs(&self) -> BTreeMap<String, String> {
        let named = |(layer, knobs): (&'static str, &BTreeMap<String, Knob>)| {
            knobs.iter().map(|(name, value)| (format!("{layer}.{name}"), value.to_string())).collect::<Vec<_>>()
        };
        self.layers().into_iter().flat_map(named).collect()
    }

    /// The settings of this tuning, which take precedence over those of `under`.
    #[must_use]
    pub(crate) fn over(&self, under: &Self) -> Self {
        let join = |under: &BTreeMap<String, Knob>, over: &BTreeMap<String, Knob>| {
            under.iter().chain(over).map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        Self {
            database: join(&under.database, &self.database),
            dnfs: join(&under.dnfs, &self.dnfs),
            iscsi: join(&under.iscsi, &self.iscsi),
            knfs: join(&under.knfs, &self.knfs),
            fc: join(&under.fc, &self.fc),
            kernel: join(&under.kernel, &self.kernel),
            filer: join(&under.filer, &self.filer),
            orders: join(&under.orders, &self.orders),
        }
    }

    /// The settings by their layer.
    fn layers(&self) -> [(&'static str, &BTreeMap<String, Knob>); 8] {
        let Self { database, dnfs, iscsi, knfs, fc, kernel, filer, orders } = self;
        [
            ("database", database),
            ("dnfs", dnfs),
            ("iscsi", iscsi),
            ("knfs", knfs),
            ("fc", fc),
            ("kernel", kernel),
            ("filer", filer),
            ("orders", orders),
        ]
    }

    /// `url` with the options of this tuning; an option that the URL already has is kept.
    #[must_use]
    pub fn on_url(&self, url: &str) -> String {
        let mut url = url.to_owned();
        let given = url.split_once('?').map_or_else(String::new, |(_, query)| query.to_owned());
        let named = |name: &str| given.split('&').any(|pair| pair.split('=').next() == Some(name));
        for (name, value) in self.dnfs.iter().filter(|(name, _)| !named(name)) {
            url.push(if url.contains('?') { '&' } else { '?' });
            url += &format!("{name}={value}");
        }
        url
    }

    /// Refuses names that cannot be passed on unchanged, and unknown mount options.
    pub(crate) fn check(&self, name: &str) -> Result<(), LabError> {
        let plain = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        for (layer, knobs) in self.layers() {
            for (knob, value) in knobs {
                let quoted = value.to_string().contains(['\'', '\n', '\\']);
                if !plain(knob) || quoted {
                    let what = format!("use {knob} = {value} in tuning.{name}.{layer}");
                    return Err(LabError::plan(
                        what,
                        "names have letters, digits, points, hyphens; values no quotes or line ends",
                    ));
                }
            }
        }
        KernelNfs::parse(&self.knfs, name)?;
        IscsiSettings::parse(&self.iscsi, name)?;
        FcSettings::parse(&self.fc, name)?;
        KernelSettings::parse(&self.kernel, name)?;
        let probe = self.on_url("nfs://host/export");
        probe.parse::<dnfs::NfsUrl>().map(|_| ()).map_err(|error| {
            let hint = error.hint().unwrap_or_else(|| "they are the options of an NFS URL".to_owned());
            LabError::plan(format!("use the options of tuning.{name}.dnfs: {error}"), &hint)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_tunings_are_sound_and_untuned_is_empty() {
        for (kind, knob) in [(DatabaseKind::Postgresql, "wal_buffers"), (DatabaseKind::MariaDb, "innodb_io_capacity")] {
            let all = Tuning::built_in(kind);
            assert_eq!(all[UNTUNED], Tuning::default());
            assert!(all[TUNED].database.contains_key(knob));
            for (name, tuning) in &all {
                tuning.check(name).unwrap();
            }
        }
    }

    #[test]
    fn url_options_of_the_user_win_over_those_of_the_tuning() {
        let tuning: Tuning = toml::from_str("[dnfs]\nslots = 4\nstable = \"always\"").unwrap();
        assert_eq!(tuning.on_url("nfs://h/v"), "nfs://h/v?slots=4&stable=always");
        assert_eq!(tuning.on_url("nfs://h/v?slots=8"), "nfs://h/v?slots=8&stable=always");
    }

    #[test]
    fn switches_become_bare_options() {
        let tuning: Tuning = toml::from_str("[filer]\ndurable = true\nquiet = false\nthreads = 3").unwrap();
        assert_eq!(Knob::arguments(&tuning.filer), ["--durable", "--threads", "3"]);
    }

    #[test]
    fn unknown_mount_options_and_quotes_are_refused() {
        let wrong: Tuning = toml::from_str("[dnfs]\nslotz = 4").unwrap();
        assert!(wrong.check("x").unwrap_err().to_string().contains("slotz"));
        let quoted: Tuning = toml::from_str("[database]\nwork_mem = \"1'; x\"").unwrap();
        assert!(quoted.check("x").is_err());
    }
}
