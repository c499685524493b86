//! The layers of a tuning: the database, each path that has settings, this host's kernel, Millrace's filers, the load. A path and a
//! database check their own settings and recommend values for the tuning `tuned`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::database::kind::DatabaseKind;
use crate::error::LabError;
use crate::paths;
use crate::plan::KernelSettings;
use crate::plan::knob::Knobs;
use crate::plan::tuning::{DATABASE, FILER, KERNEL, ORDERS, TUNED, Tuning, UNTUNED};

/// The names of all layers, in the order in which errors list them.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let paths = paths::ALL.iter().filter(|path| path.has_settings()).map(|path| path.name());
    [DATABASE].into_iter().chain(paths).chain([KERNEL, FILER, ORDERS]).collect()
});

impl Tuning {
    /// The tunings of every plan.
    #[must_use]
    pub fn built_in(database: DatabaseKind) -> BTreeMap<String, Self> {
        let of_database = Self::default().with(DATABASE, database.system().tuned_settings());
        let tuned = paths::ALL.iter().fold(of_database, |tuning, path| tuning.with(path.name(), path.tuned_settings()));
        BTreeMap::from([(UNTUNED.to_owned(), Self::default()), (TUNED.to_owned(), tuned)])
    }

    /// Refuses names that cannot be passed on unchanged, and settings that their layer does not have.
    pub(crate) fn check(&self, name: &str) -> Result<(), LabError> {
        let plain = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        for layer in NAMES.iter() {
            for (knob, value) in self.of(layer) {
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
        paths::ALL.iter().try_for_each(|path| path.check_settings(self.of(path.name()), name))?;
        KernelSettings::parse(self.of(KERNEL), name).map(drop)
    }
}

/// The name of a layer that exists.
struct Layer(&'static str);

impl<'de> Deserialize<'de> for Layer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known: &'static [&'static str] = &NAMES;
        let found = known.iter().find(|known| **known == name);
        found.map(|name| Self(name)).ok_or_else(|| D::Error::unknown_field(&name, known))
    }
}

struct Layers;

impl<'de> Visitor<'de> for Layers {
    type Value = Tuning;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("struct Tuning")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tuning, A::Error> {
        let mut tuning = Tuning::default();
        while let Some((Layer(name), knobs)) = map.next_entry::<Layer, Knobs>()? {
            tuning = tuning.with(name, knobs);
        }
        Ok(tuning)
    }
}

impl<'de> Deserialize<'de> for Tuning {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Layers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Knob;

    #[test]
    fn built_in_tunings_are_sound_and_untuned_is_empty() {
        for kind in DatabaseKind::all() {
            let all = Tuning::built_in(kind);
            assert_eq!(all[UNTUNED], Tuning::default());
            assert_eq!(*all[TUNED].of(DATABASE), kind.system().tuned_settings());
            for (name, tuning) in &all {
                tuning.check(name).unwrap();
            }
        }
    }

    #[test]
    fn switches_become_bare_options() {
        let tuning: Tuning = toml::from_str("[filer]\ndurable = true\nquiet = false\nthreads = 3").unwrap();
        assert_eq!(Knob::arguments(tuning.of(FILER)), ["--durable", "--threads", "3"]);
    }

    #[test]
    fn unknown_layers_and_settings_and_quotes_are_refused_by_name() {
        let unknown = toml::from_str::<Tuning>("[dnfz]\nslots = 4").unwrap_err();
        let known = "unknown field `dnfz`, expected one of `database`, `dnfs`, `iscsi`, `knfs`, `fc`, `dummy`, `kernel`, `filer`, `orders`";
        assert_eq!(unknown.message(), known);
        assert_eq!(unknown.span(), Some(1..5), "the name has the fault, not the whole tuning");
        let wrong: Tuning = toml::from_str("[dnfs]\nslotz = 4").unwrap();
        assert!(wrong.check("x").unwrap_err().to_string().contains("slotz"));
        let quoted: Tuning = toml::from_str("[database]\nwork_mem = \"1'; x\"").unwrap();
        assert!(quoted.check("x").is_err());
    }
}
