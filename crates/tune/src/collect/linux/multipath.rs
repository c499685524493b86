//! `multipath.conf` and the files in `/etc/multipath/conf.d` (multipath.conf(5)).
//!
//! Sections with the same name are merged, and so are `device` sections with the same vendor,
//! product and revision; the last value of a key takes effect. Values in `overrides` take
//! precedence over those of a device. `no_path_retry` takes precedence over `queue_if_no_path` in
//! `features`. If the capture has the output of `multipath -t`, its values take precedence.

mod syntax;

use std::collections::BTreeMap;

use crate::collect::collected::{Collected, State};
use crate::collect::linux::drop_ins::{Part, parts};
use crate::collect::text::value;
use crate::facts::{Facts, Value};
use syntax::{Item, items};

const MAIN: &str = "/etc/multipath.conf";
const FOLDER: &str = "/etc/multipath/conf.d/";

/// A value with its origin.
type Said = (String, String);

/// What the files set.
#[derive(Debug, Default)]
struct Conf {
    defaults: BTreeMap<String, Said>,
    overrides: BTreeMap<String, Said>,
    /// Devices by vendor, product and revision, in the order of reading.
    devices: Vec<([String; 3], BTreeMap<String, Said>)>,
    /// Keys that sections of single maps set. They take precedence over those of devices.
    of_maps: BTreeMap<String, Vec<Said>>,
    /// Why other values may be in effect.
    unread: Option<String>,
}

/// Notes what the files set.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    let mut conf = Conf::default();
    let main = match collected.state(MAIN) {
        State::Read(text) => Some(Part::Read(MAIN, text)),
        State::Unread => Some(Part::Unread(MAIN.to_owned())),
        State::Absent => None,
    };
    for part in main.into_iter().chain(parts(collected, &[FOLDER], &[".conf"])) {
        match part {
            Part::Read(path, text) => conf.add(text, path, facts),
            Part::Unread(path) => conf.unread = Some(collected.why_unread(&path)),
        }
    }
    for (_, output) in collected.outputs("multipath").filter(|(rest, _)| rest.starts_with("-t") || rest == "t") {
        if output.exit == Some(0) && !output.text.to_ascii_lowercase().contains("permission denied") {
            let mut asked = Conf::default();
            asked.add(&output.text, &output.line, &mut Facts::default());
            conf.take_answers(&asked);
        }
    }
    conf.put(facts);
}

impl Conf {
    fn add(&mut self, text: &str, path: &str, facts: &mut Facts) {
        let mut block: BTreeMap<String, Said> = BTreeMap::new();
        for Item { sections, entry, origin } in items(text, path, facts) {
            let Some((key, said)) = entry else {
                if sections == ["devices", "device"] {
                    self.merge(std::mem::take(&mut block));
                }
                continue;
            };
            let key = key.to_owned();
            match sections.as_slice() {
                ["defaults"] if key == "config_dir" && said.trim_end_matches('/') != FOLDER.trim_end_matches('/') => {
                    self.unread = Some(format!("{origin} names another folder of configuration, {said}"));
                }
                ["defaults"] => drop(self.defaults.insert(key, (said, origin))),
                ["overrides"] => drop(self.overrides.insert(key, (said, origin))),
                ["devices", "device"] => drop(block.insert(key, (said, origin))),
                ["multipaths", "multipath"] => self.of_maps.entry(key).or_default().push((said, origin)),
                _ => {}
            }
        }
    }

    /// Merges a device section with the earlier one for the same devices.
    fn merge(&mut self, block: BTreeMap<String, Said>) {
        let of = |key: &str| block.get(key).map(|(said, _)| said.clone()).unwrap_or_default();
        let name = [of("vendor"), of("product"), of("revision")];
        if name[0].is_empty() {
            return;
        }
        match self.devices.iter_mut().find(|(known, _)| *known == name) {
            Some((_, device)) => device.extend(block),
            None => self.devices.push((name, block)),
        }
    }

    /// Takes the values that multipath prints for the keys that the files set.
    fn take_answers(&mut self, asked: &Self) {
        fn take(own: &mut BTreeMap<String, Said>, asked: &BTreeMap<String, Said>) {
            for (key, said) in own {
                if let Some(answer) = asked.get(key).filter(|answer| !is_same(&answer.0, &said.0)) {
                    said.clone_from(answer);
                }
            }
        }
        take(&mut self.defaults, &asked.defaults);
        take(&mut self.overrides, &asked.overrides);
        for (name, device) in &mut self.devices {
            if let Some((_, answer)) = asked.devices.iter().find(|(known, _)| known == name) {
                take(device, answer);
            }
        }
    }

    fn put(self, facts: &mut Facts) {
        for (section, values) in [("defaults", &self.defaults), ("overrides", &self.overrides)] {
            for (key, (said, origin)) in values {
                put_unless(self.unread.as_deref(), &format!("multipath.{section}.{key}"), said, origin, facts);
            }
        }
        if let Some(reason) = &self.unread {
            facts.put_unknown("multipath.", reason);
        }
        for ([vendor, product, _], device) in &self.devices {
            let product = if product.is_empty() { "*" } else { product };
            self.put_device(&format!("{vendor} {product}"), vendor, device, facts);
        }
    }

    fn put_device(&self, name: &str, vendor: &str, device: &BTreeMap<String, Said>, facts: &mut Facts) {
        let mut effective = device.clone();
        effective.extend(self.overrides.iter().map(|(key, said)| (key.clone(), said.clone())));
        without_queueing(&mut effective);
        // The facts of the host are those of NetApp storage, which the reports describe; otherwise
        // those of the first device.
        let is_first = !facts.host.contains_key("multipath.device.vendor");
        for (key, (said, origin)) in &effective {
            let is_name = matches!(key.as_str(), "vendor" | "product" | "revision");
            let of_map = self.of_maps.get(key).into_iter().flatten().find(|(other, _)| !is_name && !is_same(other, said));
            let reason = self.unread.clone().filter(|_| !is_name);
            let reason = reason.or_else(|| of_map.map(|(other, origin)| format!("{origin} sets {other} for one map")));
            if let Some(reason) = reason {
                facts.put_unknown_of("multipath_device", name, key, &reason);
                facts.put_unknown(&format!("multipath.device.{key}"), &reason);
                continue;
            }
            let said = value_of(key, said);
            facts.put_of("multipath_device", name, key, said.clone(), origin);
            if is_first || vendor.eq_ignore_ascii_case("netapp") {
                facts.host.remove(&format!("multipath.device.{key}"));
                facts.put(&format!("multipath.device.{key}"), said, origin);
            }
        }
        // A file that was not read, or a section for one map, may set a key that the device does
        // not set.
        let open = KEYS.iter().filter(|key| !effective.contains_key(**key));
        for key in open {
            let of_map = self.of_maps.get(*key).and_then(|said| said.first());
            let of_map = of_map.map(|(other, origin)| format!("{origin} sets {other} for one map"));
            if let Some(reason) = self.unread.clone().or(of_map) {
                facts.put_unknown_of("multipath_device", name, key, &reason);
            }
        }
    }
}

/// Keys of devices that rules use.
const KEYS: &[&str] = &[
    "failback",
    "features",
    "getuid_callout",
    "hardware_handler",
    "no_path_retry",
    "path_checker",
    "path_grouping_policy",
    "prio_callout",
    "rr_min_io",
    "rr_weight",
];

fn put_unless(unread: Option<&str>, name: &str, said: &str, origin: &str, facts: &mut Facts) {
    match unread {
        Some(reason) => facts.put_unknown(name, reason),
        None => facts.put(name, value(said), origin),
    }
}

/// "0" is a valid text of `features`, so it stays text.
fn value_of(key: &str, said: &str) -> Value {
    if key == "features" { Value::from(said) } else { value(said) }
}

/// Whether two texts mean the same value, as `0` and `fail` of `no_path_retry` do.
fn is_same(left: &str, right: &str) -> bool {
    let plain = |text: &str| match text {
        "0" => "fail".to_owned(),
        "-1" => "queue".to_owned(),
        text => text.to_ascii_lowercase(),
    };
    plain(left) == plain(right)
}

/// If `no_path_retry` is set, `queue_if_no_path` has no effect and is removed.
fn without_queueing(device: &mut BTreeMap<String, Said>) {
    if !device.contains_key("no_path_retry") {
        return;
    }
    if let Some((features, _)) = device.get_mut("features") {
        let words: Vec<&str> = features.split_whitespace().skip(1).filter(|word| *word != "queue_if_no_path").collect();
        if features.contains("queue_if_no_path") {
            *features = std::iter::once(words.len().to_string().as_str()).chain(words).collect::<Vec<_>>().join(" ");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Facts {
        let mut collected = Collected::default();
        files.iter().for_each(|(path, text)| collected.take_file(path, text.as_bytes()));
        let mut found = Facts::default();
        facts(&collected, &mut found);
        found
    }

    fn device(body: &str) -> String {
        format!("devices {{\n device {{\n vendor \"NETAPP\"\n product \"LUN\"\n{body}\n }}\n}}\n")
    }

    #[test]
    fn devices_are_things() {
        let text = "defaults\n{\n polling_interval 5\n}\nblacklist {\n devnode \"^sda$\"\n}\n".to_owned()
            + &device("path_checker readsector0\n features \"1 queue_if_no_path\" # old");
        let facts = read(&[(MAIN, &text)]);
        assert_eq!(facts.value("multipath.defaults.polling_interval"), Some(&5.into()));
        assert_eq!(facts.value("multipath.device.path_checker"), Some(&"readsector0".into()));
        assert_eq!(facts.value_of("multipath_device", "NETAPP LUN", "features"), Some(&"1 queue_if_no_path".into()));
        assert!(facts.remarks.is_empty(), "{:?}", facts.remarks);
    }

    #[test]
    fn the_last_value_of_all_files_and_sections_counts() {
        let text = device("no_path_retry fail")
            + &device("no_path_retry queue")
            + "defaults {\n polling_interval 3\n}\ndefaults {\n polling_interval 4\n}\n";
        let drop_in = "defaults {\n polling_interval 18\n}\n";
        let facts = read(&[
            (MAIN, &text),
            ("/etc/multipath/conf.d/zz.conf", drop_in),
            ("/etc/multipath/conf.d/zz.conf.bak", "defaults {\n polling_interval 19\n}\n"),
        ]);
        assert_eq!(facts.value("multipath.defaults.polling_interval"), Some(&18.into()));
        assert_eq!(facts.value_of("multipath_device", "NETAPP LUN", "no_path_retry"), Some(&"queue".into()));
    }

    #[test]
    fn overrides_decide_over_devices_and_no_path_retry_over_features() {
        let queue = device("features \"2 queue_if_no_path x\"");
        let facts = read(&[(MAIN, &(queue + "overrides {\n no_path_retry \"fail\" # \"queue\"\n}\n"))]);
        assert_eq!(facts.value_of("multipath_device", "NETAPP LUN", "no_path_retry"), Some(&"fail".into()));
        assert_eq!(facts.value_of("multipath_device", "NETAPP LUN", "features"), Some(&"1 x".into()));
    }

    #[test]
    fn what_one_map_has_of_its_own_leaves_the_value_open() {
        let text = device("no_path_retry queue") + "multipaths {\n multipath {\n wwid 36\n no_path_retry fail\n }\n}\n";
        let facts = read(&[(MAIN, &text)]);
        assert_eq!(facts.value_of("multipath_device", "NETAPP LUN", "no_path_retry"), None);
        assert!(facts.why_unknown_of("multipath_device", "NETAPP LUN", "no_path_retry").is_some());
    }
}
