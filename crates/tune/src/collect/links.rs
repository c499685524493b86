//! Facts that mounts and routes give other things: paths of oranfstab that share an interface, and
//! volumes of a filer with files.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::collected::Collected;
use super::network::{Route, holds, routes};
use crate::facts::{Facts, Value};

/// Notes both kinds of facts.
pub(super) fn facts(collected: &Collected, is_host: bool, facts: &mut Facts) {
    paths(&routes(collected, facts).0, facts);
    volumes(is_host, facts);
}

fn attribute<'a>(facts: &'a Facts, kind: &str, name: &str, attribute: &str) -> Option<&'a str> {
    match facts.things.get(kind)?.get(name)?.get(attribute).map(|fact| &fact.value) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

fn names(facts: &Facts, kind: &str) -> Vec<String> {
    facts.things.get(kind).into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// Notes whether another path of the same server uses the same interface. Linux chooses the
/// interface by the destination address.
fn paths(routes: &[Route], facts: &mut Facts) {
    const KIND: &str = "oranfstab_path";
    let names = names(facts, KIND);
    let links: Vec<Option<(&str, &str, &str)>> = names
        .iter()
        .map(|name| {
            let (server, path) = (attribute(facts, KIND, name, "server")?, attribute(facts, KIND, name, "path")?);
            let address: IpAddr = path.parse().ok()?;
            let route = routes.iter().filter(|route| holds(route, address)).max_by_key(|route| route.bits)?;
            Some((server, path, route.interface.as_str()))
        })
        .collect();
    let shares = |one: &(&str, &str, &str)| {
        let same = links.iter().flatten().filter(|other| other.0 == one.0 && other.2 == one.2);
        same.map(|other| other.1).collect::<BTreeSet<_>>().len() > 1
    };
    let shared: Vec<Option<bool>> = links.iter().map(|link| link.as_ref().map(shares)).collect();
    for (name, shared) in names.iter().zip(shared) {
        match shared {
            Some(shared) => facts.put_of(KIND, name, "shares_link", shared, "route to the storage"),
            None => facts.put_unknown_of(KIND, name, "shares_link", "the route to its address is not known"),
        }
    }
}

/// Notes whether a volume of a filer contains files of this host, or of any host if the capture is
/// the filer's alone. A volume with LUNs and without a mount contains no files.
fn volumes(is_host: bool, facts: &mut Facts) {
    const KIND: &str = "ontap_volume";
    let mounts =
        names(facts, "mount").into_iter().filter_map(|name| Some(attribute(facts, "mount", &name, "source")?.to_owned()));
    let exports = names(facts, "oranfstab_mount");
    let exports = exports.into_iter().filter_map(|name| Some(attribute(facts, "oranfstab_mount", &name, "export")?.to_owned()));
    let remote: Vec<String> =
        mounts.filter_map(|source| source.split_once(':').map(|(_, path)| path.to_owned())).chain(exports).collect();
    // An export may have a name that differs from its volume's.
    let has_other_names = remote.iter().any(|path| !path.starts_with("/vol/"));
    let below = |path: &str, volume: &str| {
        path.strip_prefix("/vol/")
            .and_then(|rest| rest.strip_prefix(volume))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let luns = names(facts, "lun");
    for volume in names(facts, KIND) {
        let has_luns = luns.iter().any(|lun| below(lun, &volume));
        if remote.iter().any(|path| below(path, &volume)) {
            facts.put_of(KIND, &volume, "has_files", true, "mounts of the host");
        } else if let Some(reason) = facts.why_unknown_others("mount").map(str::to_owned) {
            facts.put_unknown_of(KIND, &volume, "has_files", &reason);
        } else if has_luns || is_host && !has_other_names {
            facts.put_of(KIND, &volume, "has_files", false, "mounts of the host");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_paths(addresses: &[&str]) -> Facts {
        let mut facts = Facts::default();
        for (number, address) in addresses.iter().enumerate() {
            let name = format!("filer1#{number}");
            facts.put_of("oranfstab_path", &name, "server", "filer1", "a test");
            facts.put_of("oranfstab_path", &name, "path", *address, "a test");
        }
        facts
    }

    #[test]
    fn paths_share_a_link_where_one_route_leads_to_both() {
        let shares = |addresses: &[&str]| {
            let mut found = with_paths(addresses);
            let mut collected = Collected::default();
            let routes = b"10.0.1.0/24 dev eth1 proto kernel\n10.0.2.0/24 dev eth2 proto kernel\n";
            collected.take_command("ip route show", routes, Some(0));
            facts(&collected, true, &mut found);
            found.value_of("oranfstab_path", "filer1#0", "shares_link").cloned()
        };
        assert_eq!(shares(&["10.0.1.5", "10.0.1.6"]), Some(true.into()));
        assert_eq!(shares(&["10.0.1.5", "10.0.2.5"]), Some(false.into()));
        assert_eq!(shares(&["10.0.9.5", "10.0.2.5"]), None);
        let mut unread = with_paths(&["10.0.1.5"]);
        facts(&Collected::default(), true, &mut unread);
        assert!(unread.why_unknown_of("oranfstab_path", "filer1#0", "shares_link").is_some());
    }

    #[test]
    fn a_volume_has_files_where_a_host_mounts_it_and_none_where_only_luns_are_in_it() {
        let mut found = Facts::default();
        for volume in ["data01", "lun01", "other"] {
            found.put_of("ontap_volume", volume, "minra", false, "a test");
        }
        found.put_of("lun", "/vol/lun01/a", "size", 1, "a test");
        let of_filer = {
            let mut found = found.clone();
            facts(&Collected::default(), false, &mut found);
            ["data01", "lun01"].map(|volume| found.value_of("ontap_volume", volume, "has_files").cloned())
        };
        assert_eq!(of_filer, [None, Some(false.into())]);
        found.put_of("mount", "/data01", "source", "filer1:/vol/data01/ora", "a test");
        let mut partly = found.clone();
        partly.put_unknown_others("mount", "mount was not collected");
        for (mut found, other) in [(found, Some(false.into())), (partly, None)] {
            facts(&Collected::default(), true, &mut found);
            assert_eq!(found.value_of("ontap_volume", "data01", "has_files"), Some(&true.into()));
            assert_eq!(found.value_of("ontap_volume", "other", "has_files").cloned(), other);
        }
    }
}
